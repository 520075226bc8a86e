//! The `quadrille` command as a user types it: output, files, exit statuses.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

mod compare;
mod go;
mod hackbench;
mod interrupt;
mod machines;
mod servers;
#[path = "../../../runtime/src/skipped.rs"]
mod skipped;

fn quadrille(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quadrille"));
    command.args(args).env_remove("QUADRILLE_POLICY");
    command
}

fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// A directory with a program of that name, a shell script.
fn program(name: &str, script: &str) -> std::path::PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let directory = std::env::temp_dir().join(format!("quadrille-{name}-{number}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    // By another process: had this one the file open, so had what another test starts meanwhile, for a moment, and a
    // file that is open for writing can't be run.
    let written = Command::new("sh")
        .args(["-c", r#"printf '%s\n' '#!/bin/sh' "$1" >"$0" && chmod 755 "$0""#])
        .arg(directory.join(name))
        .arg(script)
        .status()
        .unwrap();
    assert!(written.success());
    directory
}

fn check_usage_error(args: &[&str], expected: &str) {
    let (status, _, stderr) = output(&mut quadrille(args));
    assert_eq!(status, Some(2), "{args:?}");
    assert!(stderr.starts_with("error: "), "{args:?}: {stderr}");
    assert!(stderr.contains(expected), "{args:?}: {stderr}");
}

#[test]
fn a_bad_description_of_a_run_is_wrong_usage() {
    check_usage_error(&["run-one", "{}"], "bad run description");
    let tree = r#"{"workload":{"name":"skynet","leaves":5},"runtime":"tokio","channel":"none","workers":1}"#;
    check_usage_error(&["run-one", tree], "leaves is 5, expected a power of ten");
    let misspelt = tree.replace("channel", "chanel");
    check_usage_error(&["run-one", &misspelt], "unknown field `chanel`");
    let odd = tree.replace("\"leaves\":5", "\"leaves\":10,\"odd\":1");
    check_usage_error(&["run-one", &odd], "unknown field `odd`");
}

#[test]
fn wrong_usage_ends_with_status_2() {
    check_usage_error(&["compare", "hackbanch"], "hackbanch");
    check_usage_error(
        &["compare", "--runtimes", "tokyo"],
        "`tokyo` is no runtime; expected one of quadrille,",
    );
    check_usage_error(&["compare", "--runtimes", "quadrille:grop=4"], "`grop` is no name");
    check_usage_error(
        &["hackbench", "--runtime", "quadrille,cap=off"],
        "expected quadrille:cap=off",
    );
    check_usage_error(
        &["compare", "--json", "/nonexistent/results.json"],
        "/nonexistent/results.json",
    );
    check_usage_error(
        &["compare", "--html", "/nonexistent/report.html"],
        "/nonexistent/report.html",
    );
    check_usage_error(&["hackbench", "-g", "0"], "at least 1");
    check_usage_error(&["hackbench", "-s", "99"], "not 99");
    check_usage_error(&["hackbench", "--capacity", "1000000000"], "8 GiB");
    check_usage_error(&["topology", "--synthetic", "node:2 cache:4"], "cache");
    check_usage_error(&["topology", "--root", "/nonexistent"], "not a directory");
    check_usage_error(
        &["topology", "--group-size", "65"],
        "65 hardware threads, expected 1 to 64",
    );
    check_usage_error(
        &["topology", "--svg", "/nonexistent/machine.svg"],
        "/nonexistent/machine.svg",
    );
    check_usage_error(&["calibrate", "--out", "/nonexistent/costs"], "/nonexistent/costs");
    check_usage_error(&["sim", "--machine", "epyk"], "epyc-9654-2s");
    check_usage_error(&["sim", "--workload", "hackbunch"], "expected hackbench");
    check_usage_error(&["sim", "--workload", "hackbench:g=0"], "from 1 on");
    check_usage_error(&["sim", "--policy", "group=65"], "group");
    check_usage_error(
        &["sim", "--cost", "poll=0,line_same=0"],
        "line_same=0: expected at least 1",
    );
    check_usage_error(&["sim", "--for", "0s"], "--for");
    check_usage_error(&["sim", "--json", "/nonexistent/sim.json"], "/nonexistent/sim.json");
    check_usage_error(
        &["compare", "load", "--runtimes", "threads", "--workers", "300000"],
        "load: 10 % of what 300000 workers can do",
    );
    for args in [
        &["faults", "--connections", "4611686018427387904"][..],
        &["faults", "--seconds", "18446744073709551615"],
        &["faults", "--workers", "4097"],
        &["compare", "yield", "--runtimes", "quadrille", "--workers", "4097"],
        &["hackbench", "--runtime", "tokio,quadrille", "--workers", "4097"],
    ] {
        check_usage_error(args, args[args.len() - 1]);
        let (_, stdout, stderr) = output(&mut quadrille(args));
        assert_eq!((stdout.as_str(), stderr.lines().count()), ("", 1), "{args:?}: {stderr}");
    }
    check_usage_error(&["sim", "report", "Z"], "expected one of A A' B");
    check_usage_error(&["sim", "report", "--cost", "pol=1"], "cost `pol`");
    check_usage_error(
        &["sim", "report", "P", "--json", "/nonexistent/report.json"],
        "/nonexistent/report.json",
    );
    check_usage_error(
        &["calibrate", "--quick", "--out", "/nonexistent/costs"],
        "/nonexistent/costs",
    );
}
