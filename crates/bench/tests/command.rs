//! The `quadrille` command as a user types it: output, files, exit statuses.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

fn quadrille(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quadrille"));
    command.args(args);
    command
}

fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn check_usage_error(args: &[&str], expected: &str) {
    let (status, _, stderr) = output(&mut quadrille(args));
    assert_eq!(status, Some(2), "{args:?}");
    assert!(stderr.starts_with("error: "), "{args:?}: {stderr}");
    assert!(stderr.contains(expected), "{args:?}: {stderr}");
}

#[test]
fn wrong_usage_ends_with_status_2() {
    check_usage_error(&["compare", "hackbanch"], "hackbanch");
    check_usage_error(&["compare", "--runtimes", "tokyo"], "tokyo");
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
    check_usage_error(&["sim", "--machine", "epyk"], "epyc-9654-2s");
    check_usage_error(&["sim", "--workload", "hackbunch"], "expected hackbench");
    check_usage_error(&["sim", "--workload", "hackbench:g=0"], "from 1 on");
    check_usage_error(&["sim", "--policy", "group=65"], "group");
    check_usage_error(&["sim", "--for", "0s"], "--for");
    check_usage_error(&["sim", "--json", "/nonexistent/sim.json"], "/nonexistent/sim.json");
    check_usage_error(&["run-one", "{}"], "bad run description");
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
        "quadrille,tokio",
    ];
    let (status, stdout, stderr) = output(&mut quadrille(&args));
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    for expected in [
        "groups 1, 3 x 3 tasks",
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
fn compare_writes_what_it_prints() {
    let file = std::env::temp_dir().join(format!("quadrille-compare-{}.json", std::process::id()));
    let args = [
        "compare",
        "yield",
        "--runtimes",
        "quadrille,tokio",
        "--reps",
        "2",
        "--quick",
        "--json",
    ];
    let html = file.with_extension("html");
    let (status, stdout, stderr) = output(quadrille(&args).arg(&file).arg("--html").arg(&html));
    let json: Value = serde_json::from_reader(std::fs::File::open(&file).unwrap()).unwrap();
    let page = std::fs::read_to_string(&html).unwrap();
    for file in [file, html] {
        std::fs::remove_file(file).unwrap();
    }
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(stdout.contains("ratio to tokio"), "{stdout}");
    let rows = json["sections"][0]["rows"].as_array().unwrap();
    let runtimes: Vec<_> = rows.iter().map(|row| row["runtime"].clone()).collect();
    assert_eq!(runtimes, ["quadrille", "tokio"]);
    assert_eq!(rows[1]["ratios"]["tokio"], 1.0);
    assert_eq!(rows[0]["samples"].as_array().map(Vec::len), Some(2));
    assert!(rows[0]["counters"]["polls"].as_u64() > Some(0), "{json}");
    assert_eq!(json["complete"], true);
    let command = json["environment"]["command"].as_str().unwrap();
    assert!(
        command.starts_with("quadrille compare yield --runtimes quadrille,tokio"),
        "{command}"
    );
    for expected in [
        "yield: 1000 tasks",
        "<td>1.00</td>",
        "class=\"bar quadrille\"",
        "compare yield",
    ] {
        assert!(page.contains(expected), "{expected} is missing in\n{page}");
    }
}

#[test]
fn compare_of_threads_has_a_table_a_figure_and_says_who_had_fewer() {
    let file = std::env::temp_dir().join(format!("quadrille-sleepers-{}.json", std::process::id()));
    let args = [
        "compare",
        "thread_sleepers",
        "--runtimes",
        "threads,tokio",
        "--reps",
        "1",
        "--quick",
        "--json",
    ];
    let (status, stdout, stderr) = output(quadrille(&args).arg(&file));
    let json: Value = serde_json::from_reader(std::fs::File::open(&file).unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{stdout}");
    for expected in [
        "100,000 threads sleep; ns to create each",
        "resident bytes each",
        "ns to wake and join each",
        "median ratio to threads",
        "threads (333 threads)",
        "not run: tokio has tasks only",
    ] {
        assert!(stdout.contains(expected), "{expected} is missing in\n{stdout}");
    }
    let sections = &json["sections"];
    let metrics: Vec<_> = [0, 1, 2].map(|index| sections[index]["metric"].clone()).to_vec();
    assert_eq!(metrics, ["create_ns", "rss_bytes", "wake_join_ns"]);
    assert_eq!(sections[0]["workload"], "thread_sleepers");
    let row = &sections[0]["rows"][0];
    assert_eq!(
        (row["scale"].as_str(), &row["params"]["threads"]),
        (Some("333 threads"), &Value::from(333))
    );
    assert_eq!(sections[0]["rows"][1]["ratios"], serde_json::json!({}));
}

#[test]
fn a_load_curve_has_throughput_latencies_processor_time_and_moves() {
    let html = std::env::temp_dir().join(format!("quadrille-load-{}.html", std::process::id()));
    let json = html.with_extension("json");
    let args = [
        "compare",
        "load",
        "--runtimes",
        "quadrille,tokio",
        "--reps",
        "1",
        "--quick",
    ];
    let mut command = quadrille(&args);
    command.arg("--html").arg(&html).arg("--json").arg(&json);
    let (status, stdout, _) = output(&mut command);
    let page = std::fs::read_to_string(&html).unwrap();
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    for file in [html, json] {
        std::fs::remove_file(file).unwrap();
    }
    assert_eq!(status, Some(0), "{stdout}");
    for figure in [
        "; requests a second",
        "from when it was due: the median",
        "what 1 in 100 exceeds",
        "what 1 in 1000 exceeds",
        "; CPU ns a request",
        "; moves of tasks a second, by how far",
    ] {
        assert!(stdout.contains(figure) && page.contains(figure), "{figure}:\n{stdout}");
    }
    let of = |metric: &str| {
        let sections = report["sections"].as_array().unwrap().iter();
        let points = sections.filter(|section| section["metric"] == metric);
        points
            .map(|section| section["rows"][0]["figure"]["median"].as_f64().unwrap())
            .collect::<Vec<_>>()
    };
    let requests = of("ops_per_s");
    assert_eq!(requests.len(), 8, "{report}");
    assert!(requests.iter().all(|answered| *answered > 0.0), "{requests:?}");
    let moves = ["group", "llc", "node", "machine"].map(|level| of(&format!("moves_{level}_per_s")));
    assert!(moves.iter().all(|points| points.len() == 8), "{report}");
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

#[test]
fn without_go_its_row_says_so() {
    let args = ["compare", "yield", "--runtimes", "tokio,go", "--reps", "1", "--quick"];
    let (status, stdout, _) = output(quadrille(&args).env("PATH", "/nonexistent"));
    assert_eq!(
        status,
        Some(0),
        "a runtime that is not installed is no failure:\n{stdout}"
    );
    assert!(stdout.contains("not run: go is not installed"), "{stdout}");
}

/// A directory with a program of that name, a shell script.
fn program(name: &str, script: &str) -> std::path::PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let directory = std::env::temp_dir().join(format!("quadrille-{name}-{number}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join(name);
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&file, permissions).unwrap();
    directory
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

#[test]
fn a_go_that_does_not_build_is_named() {
    let directory = program("go", "echo 'no compiler here' >&2\nexit 1");
    let args = ["hackbench", "-g", "1", "-f", "1", "-l", "1", "--runtime", "go"];
    let (status, stdout, _) = output(quadrille(&args).env("PATH", &directory));
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(status, Some(1));
    assert!(stdout.contains("no compiler here"), "{stdout}");
}

#[test]
fn topology_shows_this_machine_and_its_source() {
    let (status, stdout, stderr) = output(&mut quadrille(&["topology"]));
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    for expected in ["machine: ", "source: ", "allowed CPUs: ", "CPU quota: ", "PU L#0"] {
        assert!(stdout.contains(expected), "{expected} is missing in\n{stdout}");
    }
}

#[test]
fn topology_draws_a_synthetic_machine() {
    let file = std::env::temp_dir().join(format!("quadrille-topology-{}.svg", std::process::id()));
    let args = [
        "topology",
        "--synthetic",
        "llc:2 core:4 pu:2",
        "--group-size",
        "2",
        "--svg",
    ];
    let (status, stdout, _) = output(quadrille(&args).arg(&file));
    let picture = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(status, Some(0));
    assert!(
        stdout.contains("16 hardware threads, 8 cores, 8 groups, 2 LLCs, 1 node"),
        "{stdout}"
    );
    assert!(picture.starts_with("<svg"), "{picture}");
}

#[test]
fn a_simulation_is_printed_and_written() {
    let directory = std::env::temp_dir().join(format!("quadrille-sim-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (json, trace) = (directory.join("sim.json"), directory.join("sim.txt"));
    let mut command = quadrille(&[
        "sim",
        "--machine",
        "l2:4",
        "--workload",
        "hackbench:g=1,f=2,l=10",
        "--seed",
        "3",
    ]);
    let (status, stdout, stderr) = output(command.arg("--json").arg(&json).arg("--trace").arg(&trace));
    assert_eq!(status, Some(0), "{stderr}");
    let results: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(results["done"], 40);
    assert_eq!(results["finished"], true);
    let lines = std::fs::read_to_string(&trace).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(stdout.contains("40 messages") && stdout.contains("polls"), "{stdout}");
    assert!(lines.lines().any(|line| line.ends_with("run t0")), "{lines}");
}

#[test]
fn sim_report_holds_a_row_against_its_figure() {
    let folder = std::env::temp_dir().join(format!("quadrille-report-{}", std::process::id()));
    let json = folder.join("report.json");
    let (folder_text, json_text) = (folder.to_str().unwrap(), json.to_str().unwrap());
    let args = [
        "sim",
        "report",
        "q",
        "--quick",
        "--svg",
        folder_text,
        "--json",
        json_text,
    ];
    let (status, stdout, stderr) = output(&mut quadrille(&args));
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    for expected in [
        "costs: default",
        "row Q: four threads",
        "10.734581 s = 1.00",
        "rows are met in full",
    ] {
        assert!(stdout.contains(expected), "{expected} is missing in\n{stdout}");
    }
    let picture = std::fs::read_to_string(folder.join("q.svg")).unwrap();
    assert!(picture.starts_with("<svg"));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(report["rows"][0]["row"], "Q");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn calibrate_prints_costs_that_the_simulator_reads() {
    let (status, stdout, stderr) = output(&mut quadrille(&["calibrate", "--quick"]));
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    let text = stdout.lines().find_map(|line| line.strip_prefix("cost: ")).unwrap();
    assert!(text.contains("pipe_write="), "{text}");
    let cost: quadrille_sim::Cost = text.parse().unwrap();
    assert_ne!(cost, quadrille_sim::Cost::default());
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
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{stdout}");
    serde_json::from_str(&stdout).unwrap()
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
        for runtime in ["quadrille", "tokio", "smol", "threads"] {
            for (rate, spinner) in [(0, false), (1000, true)] {
                let outcome = serve("tasks", runtime, service, rate, spinner);
                if let Some(reason) = outcome["unsupported"].as_str() {
                    assert!(
                        service == "http" && matches!(runtime, "smol" | "threads"),
                        "{service} on {runtime}: {reason}"
                    );
                    continue;
                }
                check_served(&outcome);
            }
        }
    }
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

/// One run of an echo server with idle connections.
fn idle(runtime: &str, connections: usize) -> String {
    let spec = serde_json::json!({
        "workload": { "name": "idle", "connections": connections, "millis": 300 },
        "runtime": runtime, "channel": "none", "workers": 2,
    });
    spec.to_string()
}

#[test]
fn idle_connections_cost_memory_and_on_quadrille_no_wake_up() {
    for runtime in ["quadrille", "tokio", "smol", "threads"] {
        let (status, stdout, stderr) = output(&mut quadrille(&["run-one", &idle(runtime, 50)]));
        assert_eq!((status, stderr.as_str()), (Some(0), ""), "{runtime}: {stdout}");
        let outcome: Value = serde_json::from_str(&stdout).unwrap();
        let measured = &outcome["measured"];
        assert_eq!(measured["ops"], 50, "{runtime}: {outcome}");
        // Each has a buffer of 4096 bytes, of which a few may lie in memory that was there.
        let resident = measured["counters"]["rss_bytes"].as_u64();
        assert!(resident >= Some(25 * 4096), "{runtime}: {outcome}");
        if runtime == "quadrille" {
            assert_eq!(measured["counters"]["wake_ups"], 0, "{outcome}");
        }
    }
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
    assert_eq!(status, Some(0), "{stdout}");
    let outcome: Value = serde_json::from_str(&stdout).unwrap();
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
