//! A Go program whose result is wrong: the run and the comparison fail, and say so once.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{output, program, quadrille};

/// A directory with a `go` whose build is a shell script.
struct Go(PathBuf);

impl Go {
    /// One that prints `answer`, whatever it is asked for, and then does `end`.
    fn that_answers(name: &str, answer: &str, end: &str) -> Self {
        // Programs are kept by version, so it is one of this test alone.
        let version = format!("go0.0-{name}-{}", std::process::id());
        let directory = program(
            "go",
            &format!(
                r#"here=${{0%/go}}
PATH=/usr/bin:/bin
case $1 in
env) echo {version} ;;
build) pwd >"$here/built_in" && cp "$here/script" "$3" && chmod 755 "$3" ;;
esac"#
            ),
        );
        let script = format!("#!/bin/sh\nPATH=/usr/bin:/bin\ncat <<'END'\n{answer}\nEND\n{end}\n");
        fs::write(directory.join("script"), script).unwrap();
        Self(directory)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Go {
    fn drop(&mut self) {
        let built = fs::read_to_string(self.0.join("built_in")).unwrap_or_default();
        if built.contains("quadrille-go-") {
            let _ = fs::remove_dir_all(built.trim_end());
        }
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What the real program says of wrong results; see `crates/bench/go/tasks.go`.
const WRONG: [(&str, &str); 2] = [
    ("sum", "the tasks' results sum up to 44, not 45"),
    ("count", "999 links ran, 1000 were asked for"),
];

#[test]
fn a_run_of_go_with_a_wrong_result_fails() {
    for (name, wrong) in WRONG {
        let answer = format!(r#"{{"failed":"{wrong}"}}"#);
        let go = Go::that_answers(&format!("run-{name}"), &answer, "exit 0");
        let spec = serde_json::json!({
            "workload": { "name": "spawn_join", "tasks": 10, "batch": 10 },
            "runtime": "go", "channel": "none", "workers": 1,
        });
        let (status, stdout, stderr) = output(quadrille(&["run-one", &spec.to_string()]).env("PATH", go.path()));
        assert_eq!(status, Some(1), "{stdout}{stderr}");
        assert_eq!((stdout, stderr.as_str()), (format!("{answer}\n"), ""));
    }
}

#[test]
fn a_comparison_with_a_go_that_gives_a_wrong_result_fails() {
    let args = [
        "compare",
        "spawn_join",
        "--runtimes",
        "quadrille,go",
        "--reps",
        "2",
        "--quick",
    ];
    for (name, wrong) in WRONG {
        let answer = format!(r#"{{"failed":"{wrong}"}}"#);
        let go = Go::that_answers(&format!("compare-{name}"), &answer, "exit 0");
        let (status, stdout, stderr) = output(quadrille(&args).env("PATH", go.path()));
        assert_eq!((status, stderr.as_str()), (Some(1), ""), "{stdout}");
        let rows: Vec<&str> = stdout.lines().filter(|line| line.contains("FAILED: ")).collect();
        let [row] = rows[..] else {
            panic!("one message, in place of the figure:\n{stdout}");
        };
        assert!(
            row.contains(" go ") && row.ends_with(&format!("FAILED: {wrong}")),
            "{row}"
        );
        assert!(
            stdout.lines().any(|line| line.trim_start().starts_with("quadrille ")),
            "the other row is there:\n{stdout}"
        );
    }
}

/// Figures of a run that did not end well may be of anything.
#[test]
fn figures_of_a_go_that_then_fails_do_not_count() {
    let answer = r#"{"measured":{"ops":10,"wall_ns":1,"user_ns":1,"sys_ns":1,"vcsw":0,"ivcsw":0}}"#;
    let go = Go::that_answers("fails", answer, "echo no memory >&2\nexit 3");
    let args = ["compare", "spawn_join", "--runtimes", "go", "--reps", "1", "--quick"];
    let (status, stdout, stderr) = output(quadrille(&args).env("PATH", go.path()));
    assert_eq!((status, stderr.as_str()), (Some(1), ""), "{stdout}");
    let expected = "FAILED: the run answered, but ended with exit status: 3: no memory";
    assert_eq!(stdout.matches("FAILED").count(), 1, "{stdout}");
    assert!(stdout.contains(expected), "{stdout}");
}
