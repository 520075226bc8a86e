//! What may be named in one place only: atomics in the shim, system calls in `sys/`, each adopted crate in its folder.
//!
//! The compiler cannot check this: `disallowed-types` of clippy sees through re-exports, so that it cannot tell an
//! atomic that came through the shim from one that did not.

use super::finding::Finding;
use super::source::Source;

struct Rule {
    /// A path (`a::b`), a function of a type (`A::b`), a macro (`a!`) or a method (`.a(`).
    name: &'static str,
    /// Where the rule holds: files below one of these.
    holds_in: &'static [&'static str],
    /// Files below one of these may use the name all the same.
    may_use: &'static [&'static str],
    why: &'static str,
}

const CRATES_WITHOUT_BENCH: &[&str] = &[
    "crates/topology/",
    "crates/policy/",
    "crates/macros/",
    "crates/runtime/",
    "crates/sim/",
];
const RUNTIME: &[&str] = &["crates/runtime/"];
const EVERYWHERE: &[&str] = &[""];
const SHIM: &[&str] = &["crates/runtime/src/primitives.rs"];
const THROUGH_SHIM: &str = "atomics come through crates/runtime/src/primitives.rs, so that loom sees every one";

const CLOCK: &[&str] = &["crates/runtime/src/sys/clock.rs"];
const ONE_CLOCK: &str = "time is read in sys/clock and travels as an argument";

/// Who parks, wakes what has parked, ends, or looks whether there is work.
const EXACT: &[&str] = &[
    "crates/runtime/src/sched/idle/",
    "crates/runtime/src/sched/park/",
    "crates/runtime/src/sched/publish.rs",
    "crates/runtime/src/sched/search.rs",
    "crates/runtime/src/sched/shutdown.rs",
    "crates/runtime/src/sched/watch.rs",
    "crates/runtime/src/sched/worker.rs",
];

const RULES: &[Rule] = &[
    Rule {
        name: ".loads",
        holds_in: EXACT,
        may_use: &[],
        why: "what is published late decides neither parking nor termination (sched/load.rs)",
    },
    Rule {
        name: "std::sync::atomic",
        holds_in: CRATES_WITHOUT_BENCH,
        may_use: SHIM,
        why: THROUGH_SHIM,
    },
    Rule {
        name: "core::sync::atomic",
        holds_in: CRATES_WITHOUT_BENCH,
        may_use: SHIM,
        why: THROUGH_SHIM,
    },
    Rule {
        // After `use std::sync;`.
        name: "sync::atomic",
        holds_in: CRATES_WITHOUT_BENCH,
        may_use: SHIM,
        why: THROUGH_SHIM,
    },
    Rule {
        name: "loom",
        holds_in: CRATES_WITHOUT_BENCH,
        may_use: SHIM,
        why: THROUGH_SHIM,
    },
    Rule {
        name: "rustix",
        holds_in: RUNTIME,
        may_use: &["crates/runtime/src/sys/"],
        why: "system calls of the runtime live in its sys/",
    },
    Rule {
        name: "libc",
        holds_in: RUNTIME,
        may_use: &["crates/runtime/src/sys/"],
        why: "system calls of the runtime live in its sys/",
    },
    Rule {
        name: "io_uring",
        holds_in: RUNTIME,
        may_use: &["crates/runtime/src/sys/"],
        why: "system calls of the runtime live in its sys/",
    },
    Rule {
        name: "signal_hook_registry",
        holds_in: RUNTIME,
        may_use: &["crates/runtime/src/sys/"],
        why: "what runs in a signal handler lives in sys/",
    },
    Rule {
        name: "async_task",
        holds_in: RUNTIME,
        may_use: &["crates/runtime/src/task/"],
        why: "the task cell is our own, behind task/; async-task is its oracle in tests there",
    },
    Rule {
        name: "crossbeam_deque",
        holds_in: RUNTIME,
        may_use: &["crates/runtime/src/sched/queue/"],
        why: "queues are wrapped in sched/queue/",
    },
    Rule {
        name: "corosensei",
        holds_in: RUNTIME,
        may_use: &["crates/runtime/src/thread/"],
        why: "stacks are switched in thread/ only",
    },
    Rule {
        name: "Instant::now",
        holds_in: &["crates/runtime/src/"],
        may_use: CLOCK,
        why: ONE_CLOCK,
    },
    Rule {
        name: "SystemTime::now",
        holds_in: &["crates/runtime/src/"],
        may_use: CLOCK,
        why: ONE_CLOCK,
    },
    Rule {
        name: ".elapsed(",
        holds_in: &["crates/runtime/src/"],
        may_use: CLOCK,
        why: ONE_CLOCK,
    },
    Rule {
        name: "Instant::elapsed",
        holds_in: &["crates/runtime/src/"],
        may_use: CLOCK,
        why: ONE_CLOCK,
    },
    Rule {
        name: "SystemTime::elapsed",
        holds_in: &["crates/runtime/src/"],
        may_use: CLOCK,
        why: ONE_CLOCK,
    },
    Rule {
        name: "asm!",
        holds_in: EVERYWHERE,
        may_use: &[],
        why: "there is no assembly in this workspace",
    },
    Rule {
        name: "global_asm!",
        holds_in: EVERYWHERE,
        may_use: &[],
        why: "there is no assembly in this workspace",
    },
    Rule {
        name: "naked_asm!",
        holds_in: EVERYWHERE,
        may_use: &[],
        why: "there is no assembly in this workspace",
    },
];

/// Checks the product code of one Rust file.
pub(super) fn check(path: &str, source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    let below = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    let rules: Vec<&Rule> = RULES
        .iter()
        .filter(|rule| below(rule.holds_in) && !below(rule.may_use))
        .collect();
    let mut import = String::new();
    for (number, line) in source.product() {
        for rule in &rules {
            if names(&line.code, rule.name) {
                found.push(Finding::new(path, number, format!("`{}`: {}", rule.name, rule.why)));
            }
        }
        // A list over several lines or braces (`std::{sync::{atomic::X}}`) hides the path; unfold it at its end.
        import.push_str(line.code.trim());
        if let Some(start) = import_start(&import)
            && import.ends_with(';')
        {
            let tree = import[start..].trim_end_matches(';').replace(char::is_whitespace, "");
            let paths = unfold(&tree);
            for rule in rules.iter().filter(|rule| !names(&line.code, rule.name)) {
                if paths.iter().any(|path| is_below(path, rule.name)) && tree.contains('{') {
                    found.push(Finding::new(path, number, format!("`{}`: {}", rule.name, rule.why)));
                }
            }
        }
        if import.ends_with([';', '}']) && import.matches('{').count() <= import.matches('}').count() {
            import.clear();
        }
        if import_start(&import).is_none() {
            import.clear();
        }
    }
    found.dedup();
    found
}

/// Where the tree of a `use` item starts.
fn import_start(code: &str) -> Option<usize> {
    let after_visibility = code.strip_prefix("pub").map_or(code, |rest| {
        let rest = rest.trim_start();
        if rest.starts_with('(') {
            rest.split_once(')').map_or(rest, |(_, rest)| rest)
        } else {
            rest
        }
    });
    let tree = after_visibility.trim_start().strip_prefix("use ")?;
    Some(code.len() - tree.len())
}

/// The paths of a `use` tree without white space.
fn unfold(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else {
        return vec![tree.to_owned()];
    };
    let inner = rest.strip_suffix('}').unwrap_or(rest);
    let mut depth = 0_usize;
    let mut parts = vec![String::new()];
    for c in inner.chars() {
        depth = match c {
            '{' => depth + 1,
            '}' => depth.saturating_sub(1),
            _ => depth,
        };
        if c == ',' && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().expect("there is always a part").push(c);
        }
    }
    let parts = parts.iter().filter(|part| !part.is_empty());
    parts
        .flat_map(|part| unfold(part))
        .map(|path| format!("{prefix}{path}"))
        .collect()
}

/// Whether `path` is `name` or something in it.
fn is_below(path: &str, name: &str) -> bool {
    let path = path.trim_start_matches("::");
    path.strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::") || rest.starts_with("as"))
}

/// Whether `code` has `name` as a path of its own: not as a part of a longer word, nor inside another path.
fn names(code: &str, name: &str) -> bool {
    if name.starts_with('.') {
        return code.contains(name);
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(name).any(|(start, _)| {
        let before = code[..start].trim_end_matches("::");
        let is_root = before.len() == start || !before.ends_with(is_word);
        let in_any_path = name.ends_with('!') || name.starts_with(char::is_uppercase);
        let begins = !code[..start].ends_with(is_word) && (is_root || in_any_path);
        let after = &code[start + name.len()..];
        // A crate is named by a path into it or by an import; the same word alone may be a variable or a module.
        let ends = if name.ends_with('!') {
            true
        } else if name.contains("::") {
            !after.starts_with(is_word)
        } else {
            after.starts_with("::") || code.trim_start().starts_with("use ") && !after.starts_with(is_word)
        };
        begins && ends
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::check_findings;
    use super::*;

    fn check_place(path: &str, text: &str, expected: &[(usize, &str)]) {
        check_findings(&check(path, &Source::scan(text)), expected);
    }

    /// A file that moves would take its rule along, or its leave.
    #[test]
    fn every_place_that_a_rule_names_is_there() {
        let root = crate::workspace::root();
        for rule in RULES {
            for place in rule.holds_in.iter().chain(rule.may_use) {
                let path = root.join(place);
                let is_as_named = if place.ends_with(".rs") {
                    path.is_file()
                } else {
                    path.is_dir()
                };
                assert!(is_as_named, "`{}` names {place}, which is not there", rule.name);
            }
        }
    }

    #[test]
    fn late_counts_decide_no_parking() {
        let read = "fn f(shared: &Shared) -> bool { shared.loads.utilisation(0) > 9 }\n";
        check_place("crates/runtime/src/sched/park/mod.rs", read, &[(1, "`.loads`")]);
        check_place("crates/runtime/src/sched/idle/mod.rs", read, &[(1, "`.loads`")]);
        check_place("crates/runtime/src/sched/view.rs", read, &[]);
        let publish = "self.context.load.flush(shared, llc, counters, now);\n";
        check_place("crates/runtime/src/sched/shutdown.rs", publish, &[]);
    }

    #[test]
    fn atomics_belong_to_the_shim() {
        let atomic = "use std::sync::atomic::AtomicU32;\n";
        check_place("crates/runtime/src/primitives.rs", atomic, &[]);
        check_place(
            "crates/runtime/src/sched/park/mod.rs",
            atomic,
            &[(1, "`std::sync::atomic`")],
        );
        check_place(
            "crates/policy/src/rng.rs",
            "fn f() { core::sync::atomic::fence(x) }",
            &[(1, "`core::sync::atomic`")],
        );
        check_place("crates/bench/src/run.rs", atomic, &[]);
        check_place(
            "crates/runtime/src/a.rs",
            "use std::sync;\nstatic A: sync::atomic::AtomicU32 = a();\n",
            &[(2, "`sync::atomic`")],
        );
        check_place("crates/runtime/src/a.rs", "use crate::sync::atomic_cell;\n", &[]);
        check_place(
            "crates/runtime/src/a.rs",
            "#[cfg(test)]\nmod tests {\n use std::sync::atomic::AtomicU32;\n}\n",
            &[],
        );
        check_place("crates/runtime/src/a.rs", "use crate::primitives::AtomicU32;\n", &[]);
    }

    #[test]
    fn import_lists_hide_nothing() {
        let folded = "use std::{\n    sync::{Arc, atomic::{AtomicU32, fence}},\n    thread,\n};\nfn f() {}\n";
        check_place("crates/runtime/src/a.rs", folded, &[(4, "`std::sync::atomic`")]);
        check_place(
            "crates/runtime/src/a.rs",
            "pub(crate) use std::sync::{atomic, Arc};\n",
            &[(1, "`std::sync::atomic`")],
        );
        check_place("crates/runtime/src/a.rs", "use std::{sync::Arc, thread};\n", &[]);
    }

    #[test]
    fn each_adopted_crate_has_its_folder() {
        let why = "system calls";
        check_place("crates/runtime/src/sys/futex.rs", "use rustix::thread::futex;\n", &[]);
        check_place(
            "crates/runtime/src/sched/park/mod.rs",
            "use rustix::thread::futex;\n",
            &[(1, why)],
        );
        check_place(
            "crates/runtime/src/sched/park/mod.rs",
            "let a = libc::getpid();\n",
            &[(1, why)],
        );
        check_place(
            "crates/runtime/src/lib.rs",
            "use async_task::Runnable;\n",
            &[(1, "task cell")],
        );
        check_place(
            "crates/runtime/src/lib.rs",
            "struct A(crossbeam_deque::Worker<u8>);\n",
            &[(1, "sched/queue/")],
        );
        check_place("crates/topology/src/pin.rs", "use rustix::thread::CpuSet;\n", &[]);
    }

    #[test]
    fn time_is_read_in_one_place() {
        for read in [
            "a.elapsed();",
            "Instant::now();",
            "std::time::Instant::now();",
            "f(SystemTime::now);",
            "Instant::elapsed(&a);",
            "a.map(std::time::SystemTime::elapsed);",
        ] {
            check_place("crates/runtime/src/sys/clock.rs", read, &[]);
            check_place("crates/runtime/src/trace.rs", read, &[(1, "sys/clock")]);
            check_place("crates/bench/src/run.rs", read, &[]);
        }
        check_place(
            "crates/runtime/src/trace.rs",
            "MyInstant::nowhere(Instant::nowhere());",
            &[],
        );
    }

    #[test]
    fn other_words_are_left_alone() {
        check_place(
            "crates/runtime/src/a.rs",
            "mod loom;\nlet libc = 1;\ncrate::loom::run();\n// use libc::a\n",
            &[],
        );
    }

    #[test]
    fn assembly_is_refused_everywhere() {
        check_place(
            "examples/a.rs",
            "fn f() { core::arch::asm!(\"nop\") }\n",
            &[(1, "no assembly")],
        );
        check_place(
            "crates/runtime/src/thread/a.rs",
            "global_asm!(\"nop\");\n",
            &[(1, "no assembly")],
        );
    }
}
