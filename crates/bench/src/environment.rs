//! What a reader must know beside every figure: machine, kernel, versions, commit, command.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use quadrille_topology::{Grouping, discover};
use serde::Serialize;

use crate::adapters::go::go;
use crate::stamp;

/// The lock file that this program was built with: it names the versions of the peers.
const LOCK: &str = include_str!("../../../Cargo.lock");

/// The peers whose versions are shown.
const PEERS: [&str; 8] = [
    "tokio",
    "async-executor",
    "async-io",
    "async-channel",
    "may",
    "hyper",
    "mimalloc",
    "async-task",
];

/// Variables of the environment that change a run: what runtimes, allocators and the loader read. At a `*` any name
/// goes on.
const VARIABLES: [&str; 10] = [
    "BLOCKING_MAX_THREADS",
    "GLIBC_TUNABLES",
    "GODEBUG",
    "GOGC",
    "GOMEMLIMIT",
    "LD_PRELOAD",
    "MALLOC_*",
    "MIMALLOC_*",
    "QUADRILLE_*",
    "RUST_MIN_STACK",
];

/// What `cargo run` and `cargo test` set because the build does (`stamp`): nobody reads it.
const OF_THE_BUILD: [&str; 3] = ["QUADRILLE_BUILD", "QUADRILLE_COMMIT", "QUADRILLE_RUSTC"];

/// Where, when and by which command figures were made.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// The command line.
    pub command: String,
    /// The variables that change a run and were set, `NAME=value` each, by name.
    pub variables: Vec<String>,
    /// When it began, in seconds since 1970 (UTC).
    pub began_unix_s: u64,
    /// The same, for people: `2026-11-22 09:30 UTC`.
    pub began: String,
    /// Workers asked for.
    pub workers: usize,
    /// The machine, as [`conditions`] says it.
    pub machine: String,
    /// The processor's name, as the kernel calls it.
    pub processor: String,
    /// The kernel's release.
    pub kernel: String,
    /// What chooses the clock of the processor; nothing in most virtual machines.
    pub governor: String,
    /// `release`, or `debug`, whose figures mean nothing.
    pub build: &'static str,
    /// The commit that this program was built from, and whether the tree had changes then.
    pub commit: String,
    /// Names and versions: quadrille, the peers, the compilers.
    pub versions: Vec<(String, String)>,
}

impl Environment {
    /// Looks at this machine and this program.
    #[must_use]
    pub fn of_this_run(workers: usize) -> Self {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            command: command_line(std::env::args_os()),
            variables: variables(std::env::vars_os()),
            began_unix_s: now.as_secs(),
            began: utc(now),
            workers,
            machine: machine(workers),
            processor: processor(&read("/proc/cpuinfo")),
            kernel: read("/proc/sys/kernel/osrelease"),
            governor: or_unknown(
                read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
                "none visible",
            ),
            build: build(),
            commit: stamp::COMMIT.to_owned(),
            versions: versions(),
        }
    }
}

/// What a reader must know about the machine and the build beside every table, in a line.
#[must_use]
pub fn conditions(workers: usize) -> String {
    let build = match build() {
        "debug" => "; DEBUG BUILD: figures mean nothing",
        _ => "",
    };
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{}, kernel {kernel}{build}", machine(workers))
}

fn build() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}

fn machine(workers: usize) -> String {
    let found = discover();
    let groups = found.topology.groups(Grouping::default()).len();
    let quota = found.allowed.quota.map_or_else(String::new, |quota| {
        format!(
            ", quota of {}.{:03} CPUs",
            quota.millicpus / 1000,
            quota.millicpus % 1000
        )
    });
    format!(
        "{workers} workers on {} ({}, {groups} groups{quota})",
        found.topology, found.source
    )
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn or_unknown(text: String, unknown: &str) -> String {
    if text.is_empty() { unknown.to_owned() } else { text }
}

/// The value of the first `model name`.
fn processor(cpuinfo: &str) -> String {
    let name = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map(|(_, name)| name.trim().to_owned());
    or_unknown(name.unwrap_or_default(), "not named by the kernel")
}

/// The arguments as a shell would need them; the program by its name alone. What is no UTF-8 in them is shown as such,
/// and can't be typed again.
fn command_line(arguments: impl IntoIterator<Item = OsString>) -> String {
    let mut arguments = arguments
        .into_iter()
        .map(|argument| argument.to_string_lossy().into_owned());
    let program = arguments.next().unwrap_or_default();
    let name = Path::new(&program)
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=,./:".contains(c);
    let quoted = arguments.map(|argument| {
        if !argument.is_empty() && argument.chars().all(plain) {
            argument
        } else {
            format!("'{}'", argument.replace('\'', r"'\''"))
        }
    });
    name.into_iter().chain(quoted).collect::<Vec<_>>().join(" ")
}

/// Those of `all` that change a run.
fn variables(all: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<String> {
    let changes_a_run = |name: &str| {
        let is_read = VARIABLES.iter().any(|known| match known.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => name == *known,
        });
        is_read && !OF_THE_BUILD.contains(&name)
    };
    let mut found: Vec<String> = all
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| changes_a_run(name))
        .map(|(name, value)| format!("{name}={}", value.to_string_lossy()))
        .collect();
    found.sort();
    found
}

/// A time since 1970 as `2026-11-22 09:30 UTC`, by Howard Hinnant's algorithm for the Gregorian calendar.
fn utc(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (days, minutes) = (seconds / 86_400, seconds % 86_400 / 60);
    // Years begin in March, so that the leap day is the last of a year; eras have 400 of them.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02} UTC",
        minutes / 60,
        minutes % 60
    )
}

fn versions() -> Vec<(String, String)> {
    let own = [("quadrille", env!("CARGO_PKG_VERSION")), ("rustc", stamp::RUSTC)];
    let own = own.map(|(name, version)| (name.to_owned(), version.to_owned()));
    let peers = PEERS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), locked(LOCK, name)?)));
    // What runs, or builds, when it is asked for; with them their version is found.
    let tools = [
        ("go", go(), "version"),
        ("hackbench", Command::new("hackbench"), "--help"),
    ];
    let tools = tools.into_iter().filter_map(|(name, mut program, argument)| {
        let said = first_line(program.arg(argument))?;
        let version = said
            .split_whitespace()
            .find(|word| word.trim_start_matches("go").starts_with(|c: char| c.is_ascii_digit()))?;
        Some((name.to_owned(), version.trim_start_matches("go").to_owned()))
    });
    own.into_iter().chain(peers).chain(tools).collect()
}

/// The version of a package in a lock file.
fn locked(lock: &str, package: &str) -> Option<String> {
    let entry = lock.split("[[package]]").find(|entry| {
        entry.lines().any(|line| {
            line.strip_prefix("name = ")
                .is_some_and(|name| name.trim_matches('"') == package)
        })
    })?;
    let version = entry.lines().find_map(|line| line.strip_prefix("version = "))?;
    Some(version.trim_matches('"').to_owned())
}

/// The first line that a program prints, if it succeeds and prints one.
fn first_line(command: &mut Command) -> Option<String> {
    let output = command.current_dir("/").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().filter(|_| output.status.success())?;
    Some(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_709_251_200, "2024-03-01 00:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(utc(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn a_command_can_be_typed_again() {
        let words = ["/opt/quadrille", "compare", "yield", "--html", "it's here.html", ""];
        let line = command_line(words.map(OsString::from));
        assert_eq!(line, r"quadrille compare yield --html 'it'\''s here.html' ''");
    }

    #[test]
    fn an_argument_that_is_no_text_is_shown_as_such() {
        use std::os::unix::ffi::OsStringExt as _;

        let words = [b"quadrille".to_vec(), b"--json".to_vec(), b"a\xff.json".to_vec()];
        let line = command_line(words.map(OsString::from_vec));
        assert_eq!(line, "quadrille --json 'a\u{fffd}.json'");
    }

    #[test]
    fn variables_that_change_a_run_are_found() {
        let all = [
            ("QUADRILLE_PIN", "strict"),
            ("QUADRILLE_BUILD", "0"),
            ("PATH", "/bin"),
            ("GOGC", "off"),
            ("GOGC_OTHER", "1"),
            ("BLOCKING_MAX_THREADS", "3"),
            ("MALLOC_ARENA_MAX", ""),
            ("LD_PRELOAD", "liba.so"),
        ];
        let all = all.map(|(name, value)| (name.into(), value.into()));
        assert_eq!(
            variables(all),
            [
                "BLOCKING_MAX_THREADS=3",
                "GOGC=off",
                "LD_PRELOAD=liba.so",
                "MALLOC_ARENA_MAX=",
                "QUADRILLE_PIN=strict"
            ]
        );
    }

    #[test]
    fn versions_come_from_the_lock_file() {
        let lock = "[[package]]\nname = \"tokio-util\"\nversion = \"9.0.0\"\n\n[[package]]\nname = \"tokio\"\nversion = \"1.2.3\"\n";
        assert_eq!(locked(lock, "tokio").as_deref(), Some("1.2.3"));
        assert_eq!(locked(lock, "smol"), None);
        assert!(locked(LOCK, "tokio").is_some_and(|version| version.starts_with("1.")));
    }

    #[test]
    fn the_processor_is_named_or_said_not_to_be() {
        assert_eq!(
            processor("processor\t: 0\nmodel name\t: Xeon @ 2 GHz\n"),
            "Xeon @ 2 GHz"
        );
        assert_eq!(processor(""), "not named by the kernel");
    }

    #[test]
    fn every_line_about_this_run_says_something() {
        let found = Environment::of_this_run(2);
        let lines = [
            &found.command,
            &found.began,
            &found.machine,
            &found.processor,
            &found.kernel,
            &found.commit,
        ];
        for line in lines.into_iter().chain([&found.governor]) {
            assert!(!line.is_empty(), "{found:?}");
        }
        assert!(found.versions.iter().any(|(name, _)| name == "tokio"), "{found:?}");
        let rustc = ("rustc".to_owned(), stamp::RUSTC.to_owned());
        assert!(found.versions.contains(&rustc), "the one it was built with: {found:?}");
        assert!(conditions(2).starts_with("2 workers on "));
    }
}
