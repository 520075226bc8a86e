//! Servers in one process, what loads them in another.

use std::process::Command;

use serde_json::Value;

use crate::skipped::skipped;
use crate::{output, program, quadrille};

/// The outcome that a run by hand has printed, whose status says whether it failed.
fn outcome(status: Option<i32>, stdout: &str) -> Value {
    let outcome: Value = serde_json::from_str(stdout).unwrap();
    assert_eq!(status, Some(i32::from(!outcome["failed"].is_null())), "{stdout}");
    outcome
}

/// One tiny run of a server, in a process of its own, with a generator in another.
fn serve(body: &str, runtime: &str, service: &str, rate: u32, spinner: bool) -> Value {
    let spec = serde_json::json!({
        "workload": {
            "name": "serve", "service": service, "connections": 4, "size": 64, "rate": rate, "spinner": spinner, "millis": 60,
        },
        "body": body, "runtime": runtime, "channel": "none", "workers": 2,
    });
    let (status, stdout, stderr) = output(&mut quadrille(&["run-one", &spec.to_string()]));
    assert_eq!(stderr, "", "{stdout}");
    outcome(status, &stdout)
}

/// Requests were answered for as long as it was asked for, with latencies.
fn check_served(outcome: &Value) {
    let measured = &outcome["measured"];
    assert!(measured["ops"].as_u64() > Some(3), "{outcome}");
    assert!(measured["counters"]["p99_ns"].as_u64() > Some(0), "{outcome}");
    assert!(measured["wall_ns"].as_u64() >= Some(50_000_000), "{outcome}");
}

#[test]
fn servers_answer_a_generator_in_another_process() {
    for service in ["tcp_echo", "udp_echo", "tbench", "http"] {
        for runtime in ["quadrille", "tokio", "smol", "threads", "none"] {
            for (rate, spinner) in [(0, false), (1000, true)] {
                let outcome = serve("tasks", runtime, service, rate, spinner);
                if let Some(reason) = outcome["unsupported"].as_str() {
                    assert!(
                        matches!((service, runtime), ("http", "threads") | ("udp_echo", "none")),
                        "{service} on {runtime}: {reason}"
                    );
                    continue;
                }
                check_served(&outcome);
            }
        }
    }
}

/// What does not come from the generator is wrk's.
#[test]
fn wrk_loads_a_server_in_the_generators_place() {
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    for program in ["wrk", "python3"] {
        if !is_there(program) {
            return skipped(&format!("{program} is not installed, which loads a server here"));
        }
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/wrk.py");
    let run = |service: &str| {
        let spec = serde_json::json!({
            "workload": {
                "name": "serve", "service": service, "connections": 4, "size": 64, "rate": 0, "spinner": false, "millis": 1000,
            },
            "body": "tasks", "runtime": "quadrille", "channel": "none", "workers": 2,
        });
        output(quadrille(&["run-one", &spec.to_string()]).env("QUADRILLE_GENERATOR", script))
    };
    let (status, stdout, stderr) = run("http");
    assert_eq!(stderr, "", "{stdout}");
    let outcome = outcome(status, &stdout);
    check_served(&outcome);
    assert!(
        outcome["measured"]["counters"]["p999_ns"].is_null(),
        "wrk knows none: {outcome}"
    );
    let (status, stdout, stderr) = run("tcp_echo");
    assert_eq!(status, Some(1), "{stdout}");
    assert!(
        stderr.contains("wrk.py: HTTP in a closed loop is what wrk can do"),
        "{stderr}"
    );
}

#[test]
fn servers_of_threads_answer_too() {
    for runtime in ["quadrille", "may", "threads"] {
        for service in ["tcp_echo", "tbench"] {
            for rate in [0, 1000] {
                check_served(&serve("threads", runtime, service, rate, false));
            }
        }
        let refused = serve("threads", runtime, "http", 0, false);
        assert_eq!(refused["failed"], "Http is served by tasks alone", "{refused}");
    }
}

#[test]
fn a_server_that_is_none_by_io_uring_says_so_in_place_of_figures() {
    for (body, service) in [
        ("tasks", "udp_echo"),
        ("tasks", "tbench"),
        ("tasks", "http"),
        ("threads", "tcp_echo"),
        ("threads", "tbench"),
    ] {
        let outcome = serve(body, "quadrille-uring", service, 0, false);
        assert!(outcome["unsupported"].is_string(), "{service} of {body}: {outcome}");
    }
}

/// What a run of tbench answers whose load generator does no more than `script`.
fn tbench_loaded_by(script: &str, body: &str) -> Value {
    let spec = serde_json::json!({
        "workload": {
            "name": "serve", "service": "tbench", "connections": 1, "size": 64, "rate": 0, "spinner": false, "millis": 10,
        },
        "body": body, "runtime": "quadrille", "channel": "none", "workers": 1,
    });
    let directory = program("generator", script);
    let mut command = quadrille(&["run-one", &spec.to_string()]);
    let (status, stdout, _) = output(command.env("QUADRILLE_GENERATOR", directory.join("generator")));
    std::fs::remove_dir_all(&directory).unwrap();
    outcome(status, &stdout)
}

#[test]
fn why_the_load_generator_has_stopped_is_the_reason_of_the_row() {
    let limit = r#"echo '{"unsupported":"net.core.wmem_max is 16384"}'"#;
    let lost = r#"echo '{"failed":"4 requests unanswered"}'"#;
    for body in ["tasks", "threads"] {
        for begin in ["", "echo begin; read go; "] {
            let outcome = tbench_loaded_by(&format!("{begin}{limit}"), body);
            let expected = serde_json::json!({ "unsupported": "net.core.wmem_max is 16384" });
            assert_eq!(outcome, expected, "{begin}");
            let outcome = tbench_loaded_by(&format!("{begin}{lost}"), body);
            let expected = serde_json::json!({ "failed": "the load generator: 4 requests unanswered" });
            assert_eq!(outcome, expected, "{begin}");
        }
    }
    let outcome = tbench_loaded_by("exit 1", "tasks");
    assert_eq!(
        outcome["failed"], "the load generator said nothing; stderr has the reason",
        "{outcome}"
    );
}

#[test]
fn a_load_generator_says_itself_why_it_has_stopped() {
    // Nobody listens there.
    let order = serde_json::json!({
        "address": "127.0.0.1:1",
        "serve": { "service": "tbench", "connections": 1, "size": 64, "rate": 0, "spinner": false, "millis": 10 },
    });
    let (status, stdout, stderr) = output(&mut quadrille(&["generate", &order.to_string()]));
    assert_eq!((status, stderr.as_str()), (Some(1), ""), "{stdout}");
    let outcome: Value = serde_json::from_str(&stdout).unwrap();
    assert!(
        outcome["failed"]
            .as_str()
            .is_some_and(|reason| reason.contains("refused")),
        "{outcome}"
    );
}

/// One run of an echo server with idle connections.
fn idle(runtime: &str, connections: usize) -> String {
    let spec = serde_json::json!({
        "workload": { "name": "idle", "connections": connections, "millis": 300 },
        "runtime": runtime, "channel": "none", "workers": 2,
    });
    spec.to_string()
}

/// The counters of a run with 50 idle connections.
fn counters_of_idle(runtime: &str) -> Value {
    let (status, stdout, stderr) = output(&mut quadrille(&["run-one", &idle(runtime, 50)]));
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{runtime}: {stdout}");
    let outcome: Value = serde_json::from_str(&stdout).unwrap();
    let measured = &outcome["measured"];
    assert_eq!(measured["ops"], 50, "{runtime}: {outcome}");
    // Each has a buffer of 4096 bytes, of which a few may lie in memory that was there.
    let resident = measured["counters"]["rss_bytes"].as_u64();
    assert!(resident >= Some(25 * 4096), "{runtime}: {outcome}");
    measured["counters"].clone()
}

#[test]
fn idle_connections_cost_memory_and_on_quadrille_no_wake_up() {
    for runtime in ["tokio", "smol", "threads"] {
        counters_of_idle(runtime);
    }
    // On a busy machine a worker may be about to sleep still when the time begins.
    let mut wake_ups = Vec::new();
    let is_none = (0..3).any(|_| {
        wake_ups.push(counters_of_idle("quadrille")["wake_ups"].clone());
        wake_ups.last().is_some_and(|count| *count == 0)
    });
    assert!(is_none, "{wake_ups:?}");
}

#[test]
fn more_connections_than_files_are_allowed_fail_with_both_numbers() {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ulimit -n 1000 && exec \"$0\" run-one \"$1\"",
        env!("CARGO_BIN_EXE_quadrille"),
    ]);
    let (status, stdout, _) = output(command.arg(idle("quadrille", 1000)));
    let outcome = outcome(status, &stdout);
    let expected = "1064 open files are needed, the limit is 1000 (ulimit -Hn)";
    assert_eq!(outcome["failed"], expected, "{outcome}");
}

/// A few seconds of what runs for ten minutes by hand: `quadrille faults --seconds 600`.
#[test]
fn faults_leave_nothing_behind() {
    let args = ["faults", "--seconds", "3", "--connections", "45", "--seed", "7"];
    let (status, stdout, stderr) = output(&mut quadrille(&args));
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{stdout}");
    for expected in [
        "45 connections at a time for 3 s, seed 7",
        "at the end",
        "all tasks ended",
    ] {
        assert!(stdout.contains(expected), "{expected} is missing in\n{stdout}");
    }
    // The first scripts are dealt out in turn, to 45 threads, in both parts.
    let manners = [
        "behave",
        "read slowly",
        "write partially",
        "half-close",
        "reset",
        "go away",
        "connect only",
        "send garbage",
    ];
    for manner in manners {
        let line = stdout
            .lines()
            .find_map(|line| line.trim().strip_prefix(manner))
            .unwrap();
        let counts: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(counts.len(), 2, "{line}");
        for count in counts {
            assert!(
                count == "-" || count.replace(',', "").parse::<u64>().unwrap() >= 6,
                "{manner}: {stdout}"
            );
        }
    }
}

#[test]
fn faults_need_as_many_files_as_they_have_connections() {
    let mut command = Command::new("sh");
    let script = "ulimit -n 1000 && exec \"$0\" faults --seconds 1 --connections 1000";
    let (status, _, stderr) = output(command.args(["-c", script, env!("CARGO_BIN_EXE_quadrille")]));
    assert_eq!(status, Some(2), "{stderr}");
    assert_eq!(
        stderr,
        "error: 4064 open files are needed, the limit is 1000 (ulimit -Hn)\n"
    );
}
