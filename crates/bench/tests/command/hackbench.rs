//! `quadrille hackbench`, and its rows of `compare`: those of the real program, too.

use crate::{output, program, quadrille};

#[test]
fn hackbench_prints_time_rate_and_counters() {
    let args = [
        "hackbench",
        "-g",
        "1",
        "-f",
        "3",
        "-l",
        "50",
        "--runtime",
        "quadrille,quadrille:groups=off,lazy=off,tokio",
    ];
    let (status, stdout, stderr) = output(&mut quadrille(&args));
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    for expected in [
        "groups 1, 3 x 3 tasks",
        "\nquadrille (async-channel)",
        "\nquadrille:groups=off,lazy=off (async-channel)",
        "moves by",
        "messages      450",
        "messages/s",
        "CPU-seconds",
        "useless_unparks",
        "ratio to tokio",
    ] {
        assert!(stdout.contains(expected), "{expected} is missing in\n{stdout}");
    }
}

#[test]
fn hackbench_over_pipes_runs_on_threads() {
    let args = [
        "hackbench",
        "-g",
        "1",
        "-f",
        "3",
        "-l",
        "50",
        "-s",
        "7",
        "--pipe",
        "--runtime",
        "threads",
    ];
    let (status, stdout, _) = output(&mut quadrille(&args));
    assert_eq!(status, Some(0), "{stdout}");
    assert!(stdout.contains("messages      450"), "{stdout}");
}

#[test]
fn hackbench_runs_on_threads_of_quadrille() {
    let args = [
        "hackbench",
        "-g",
        "1",
        "-f",
        "3",
        "-l",
        "50",
        "--threads",
        "--channel",
        "--runtime",
        "quadrille,threads,may",
    ];
    let (status, stdout, _) = output(&mut quadrille(&args));
    assert_eq!(status, Some(1), "may cannot:\n{stdout}");
    for expected in [
        "hackbench --threads: groups 1, 3 x 3 threads",
        "quadrille (quadrille::sync::mpmc)",
        "threads (std::sync::mpsc)",
        "messages      450",
        "not run: its channels have no bound",
        "ratio to quadrille",
    ] {
        assert!(stdout.contains(expected), "{expected} is missing in\n{stdout}");
    }
}

#[test]
fn hackbench_of_threads_goes_over_pipes_and_sockets() {
    for (transport, name) in [("--pipe", "pipes"), ("--socket", "AF_UNIX sockets")] {
        let args = [
            "hackbench",
            "-g",
            "1",
            "-f",
            "3",
            "-l",
            "50",
            "-s",
            "7",
            "--threads",
            transport,
            "--runtime",
            "quadrille,threads,may",
        ];
        let (status, stdout, _) = output(&mut quadrille(&args));
        assert_eq!(status, Some(1), "may cannot:\n{stdout}");
        for runtime in ["quadrille", "threads"] {
            assert!(stdout.contains(&format!("{runtime} ({name})")), "{stdout}");
        }
        assert_eq!(stdout.matches("messages      450").count(), 2, "{stdout}");
        assert!(stdout.contains("not run: it has no pipes"), "{stdout}");
    }
}

/// hackbench over pipes by a program of that name that does no more than `script`: exit status and output.
fn hackbench_by(script: &str, flags: &[&str]) -> (Option<i32>, String) {
    let directory = program("hackbench", script);
    let args = [
        "hackbench",
        "-g",
        "2",
        "-f",
        "3",
        "-l",
        "50",
        "-s",
        "7",
        "--runtime",
        "hackbench",
    ];
    let (status, stdout, _) = output(quadrille(&args).args(flags).env("PATH", &directory));
    std::fs::remove_dir_all(&directory).unwrap();
    (status, stdout)
}

#[test]
fn hackbench_of_rt_tests_is_asked_for_the_same_and_tells_its_time() {
    let script = r#"test "$*" = "$EXPECTED" || { echo "asked for $*" >&2; exit 1; }
echo 'Running in process mode with 2 groups using 6 file descriptors each (== 12 tasks)'
echo 'Each sender will pass 50 messages of 7 bytes'
echo 'Time: 0.250'"#;
    for (flags, expected) in [
        (&["--pipe"][..], "-P -p"),
        (&["--socket"], "-P"),
        (&["--pipe", "--threads"], "-T -p"),
    ] {
        let expected = format!("{expected} -g 2 -f 3 -l 50 -s 7");
        let (status, stdout) = hackbench_by(&script.replace("$EXPECTED", &expected), flags);
        assert_eq!(status, Some(0), "{stdout}");
        assert!(stdout.contains("time          0.250 s"), "{stdout}");
        assert!(stdout.contains("messages      900"), "{stdout}");
    }
}

#[test]
fn a_hackbench_that_fails_or_does_something_else_is_named() {
    let lines = "echo 'Running in process mode with 2 groups using 6 file descriptors each (== 12 tasks)'
echo 'Each sender will pass 50 messages of 8 bytes'
echo 'Time: 0.250'";
    for (script, expected) in [
        (lines, "`will pass 50 messages of 8 bytes`, [50, 7] were asked for"),
        (
            &lines.replace("of 8", "of 7").replace("0.250", "0.000"),
            "expected seconds above 0",
        ),
        ("echo 'Time: 1.0'", "printed no line `Running in "),
        ("echo 'fork: no memory' >&2; exit 1", "exit status: 1: fork: no memory"),
    ] {
        let (status, stdout) = hackbench_by(script, &["--pipe"]);
        assert_eq!(status, Some(1), "{stdout}");
        assert!(
            stdout.contains("FAILED: hackbench ") && stdout.contains(expected),
            "{expected}:\n{stdout}"
        );
    }
}

#[test]
fn without_hackbench_of_rt_tests_its_row_says_how_to_install_it() {
    let args = [
        "compare",
        "hackbench_pipe",
        "--runtimes",
        "threads,hackbench",
        "--reps",
        "1",
        "--quick",
    ];
    let (status, stdout, _) = output(quadrille(&args).env("PATH", "/nonexistent"));
    assert_eq!(
        status,
        Some(0),
        "a program that is not installed is no failure:\n{stdout}"
    );
    assert_eq!(
        stdout
            .matches("not run: hackbench(8) is not installed: apt-get install rt-tests")
            .count(),
        4,
        "{stdout}"
    );
}
