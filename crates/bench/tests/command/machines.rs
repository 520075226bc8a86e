//! Machines as they are found, drawn and simulated.

use serde_json::Value;

use crate::{output, quadrille};

#[test]
fn topology_shows_this_machine_and_its_source() {
    let (status, stdout, stderr) = output(&mut quadrille(&["topology"]));
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    for expected in ["machine: ", "source: ", "allowed CPUs: ", "CPU quota: ", "PU L#0"] {
        assert!(stdout.contains(expected), "{expected} is missing in\n{stdout}");
    }
}

/// A copy has CPUs that this process may use nowhere.
#[test]
fn topology_shows_all_of_a_copy() {
    let root = std::env::temp_dir().join(format!("quadrille-copy-{}", std::process::id()));
    let write = |file: &str, text: &str| {
        let file = root.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    write("sys/devices/system/cpu/online", "0-1,5000-5003\n");
    let shown = || output(quadrille(&["topology", "--root"]).arg(&root));
    let all = shown();
    write("proc/self/status", "Name:\tcat\nCpus_allowed_list:\t1,5002-8191\n");
    let some = shown();
    std::fs::remove_dir_all(&root).unwrap();
    for ((status, stdout, stderr), machine, allowed, is_warned) in [
        (all, "l2:6 os:0-1,5000-5003", "0-1,5000-5003", true),
        (some, "l2:3 os:1,5002-5003", "1,5002-5003", false),
    ] {
        assert_eq!((status, stderr.as_str()), (Some(0), ""));
        for line in [format!("machine: {machine}"), format!("allowed CPUs: {allowed}")] {
            assert!(
                stdout.lines().any(|shown| shown == line),
                "{line} is missing in\n{stdout}"
            );
        }
        let warning = "proc/self/status: missing: expected the affinity mask";
        assert_eq!(stdout.contains(warning), is_warned, "{stdout}");
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
fn earlier_results_stay_until_a_simulation_has_others() {
    let directory = std::env::temp_dir().join(format!("quadrille-sim-earlier-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (json, trace) = (directory.join("sim.json"), directory.join("sim.txt"));
    std::fs::write(&json, "earlier results").unwrap();
    std::fs::hard_link(&json, &trace).unwrap();
    let sim = |more: &[&str]| {
        let mut command = quadrille(&["sim", "--machine", "core:2", "--workload", "hackbench:g=1,f=2,l=10"]);
        output(command.args(more).arg("--json").arg(&json))
    };
    let impossible = sim(&["--policy", "group-map=0+1+2"]);
    let both = sim(&["--trace", trace.to_str().unwrap()]);
    let left = std::fs::read_to_string(&json).unwrap();
    let others = sim(&[]);
    let found = std::fs::read_to_string(&json).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    for ((status, stdout, stderr), expected) in [(impossible, "group"), (both, "--json and --trace name the same file")]
    {
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
    assert_eq!(left, "earlier results");
    assert_eq!(others.0, Some(0), "{others:?}");
    assert_eq!(serde_json::from_str::<Value>(&found).unwrap()["done"], 40);
}

#[test]
fn sim_report_finds_out_first_that_it_cannot_write() {
    let folder = std::env::temp_dir().join(format!("quadrille-report-refused-{}", std::process::id()));
    let plot = folder.join("q.svg");
    std::fs::create_dir_all(&plot).unwrap();
    let paths = [
        ("--json", "/nonexistent/report.json", "/nonexistent/report.json"),
        ("--svg", folder.to_str().unwrap(), plot.to_str().unwrap()),
    ];
    let refused = paths.map(|(flag, path, unwritable)| {
        (
            unwritable,
            output(&mut quadrille(&["sim", "report", "q", "--quick", flag, path])),
        )
    });
    std::fs::remove_dir_all(&folder).unwrap();
    for (expected, (status, stdout, stderr)) in refused {
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
        assert!(stderr.contains(&format!("cannot write {expected}: ")), "{stderr}");
    }
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
fn sim_report_checks_claims_of_full_runs_with_default_costs() {
    // Nothing is simulated of this one: it says so, and is known to. Of one that differs the unit tests know.
    let (status, stdout, stderr) = output(&mut quadrille(&["sim", "report", "p", "--check"]));
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert!(
        stdout.contains("checked: every claim is met or missed as expected, by the same values"),
        "{stdout}"
    );
    // What is known is known of full runs with the default costs.
    for other in [&["--quick"][..], &["--cost", "default"]] {
        let mut arguments = vec!["sim", "report", "p", "--check"];
        arguments.extend(other);
        let (status, _, stderr) = output(&mut quadrille(&arguments));
        assert_eq!(status, Some(2), "{other:?}");
        assert!(stderr.contains("--check"), "{stderr}");
    }
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
