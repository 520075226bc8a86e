//! `quadrille compare`: what it prints is what it writes.

use serde_json::Value;

use crate::{output, program, quadrille};

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
    let mut command = quadrille(&args);
    command.arg(&file).arg("--html").arg(&html).env("QUADRILLE_PIN", "none");
    let (status, stdout, stderr) = output(&mut command);
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
    let variables = json["environment"]["variables"].as_array().unwrap();
    assert!(variables.contains(&"QUADRILLE_PIN=none".into()), "{variables:?}");
    assert!(
        stdout.contains("\nenvironment: ") && stdout.contains("QUADRILLE_PIN=none"),
        "{stdout}"
    );
    let command = json["environment"]["command"].as_str().unwrap();
    assert!(
        command.starts_with("quadrille compare yield --runtimes quadrille,tokio"),
        "{command}"
    );
    for expected in [
        "yield: 1000 tasks",
        "<td title=\"1.00 to 1.00 in 2 repetitions\">1.00</td>",
        "class=\"bar quadrille\"",
        "compare yield",
    ] {
        assert!(page.contains(expected), "{expected} is missing in\n{page}");
    }
}

#[test]
fn each_policy_is_a_runtime_of_its_own() {
    let file = std::env::temp_dir().join(format!("quadrille-policies-{}.json", std::process::id()));
    let html = file.with_extension("html");
    let names = ["quadrille:groups=off,lazy=off", "quadrille-1w:baseline,budget=7"];
    let args = ["compare", "yield", "--quick", "--reps", "1", "--workers", "2"];
    let mut command = quadrille(&args);
    command.args(["--runtimes", &names.join(","), "--json"]).arg(&file);
    // Nobody needs it, so nobody reads it.
    command.arg("--html").arg(&html).env("QUADRILLE_POLICY", "grop=4");
    let (status, stdout, stderr) = output(&mut command);
    let json: Value = serde_json::from_reader(std::fs::File::open(&file).unwrap()).unwrap();
    let page = std::fs::read_to_string(&html).unwrap();
    for file in [file, html] {
        std::fs::remove_file(file).unwrap();
    }
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{stdout}");
    let rows = json["sections"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{json}");
    for ((row, name), workers) in rows.iter().zip(names).zip([2, 1]) {
        assert_eq!((&row["runtime"], &row["spec"]["runtime"]), (&name.into(), &name.into()));
        assert_eq!(row["spec"]["workers"], workers, "{name}");
        assert!(row["ratios"][names[0]].is_number(), "{json}");
        assert!(stdout.lines().any(|line| line.trim().starts_with(name)), "{stdout}");
        assert!(page.contains(&format!("<td class=\"name\">{name}</td>")), "{page}");
    }
    assert!(stdout.contains(&format!("median ratio to {}", names[0])), "{stdout}");
}

#[test]
fn the_policy_of_the_environment_is_part_of_the_name() {
    let file = std::env::temp_dir().join(format!("quadrille-environment-{}.json", std::process::id()));
    let runtimes = "quadrille,quadrille:default,quadrille-baseline";
    let args = [
        "compare",
        "yield",
        "--quick",
        "--reps",
        "1",
        "--runtimes",
        runtimes,
        "--json",
    ];
    let (status, stdout, _) = output(quadrille(&args).arg(&file).env("QUADRILLE_POLICY", "lazy=off, cap=off"));
    let json: Value = serde_json::from_reader(std::fs::File::open(&file).unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(status, Some(0), "{stdout}");
    let rows = json["sections"][0]["rows"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["runtime"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["quadrille:lazy=off,cap=off", "quadrille:default", "quadrille-baseline"]
    );
}

#[test]
fn a_policy_that_cannot_be_is_one_error_before_anything_is_run_or_written() {
    let file = std::env::temp_dir().join(format!("quadrille-unwritten-{}.json", std::process::id()));
    let compare = |runtimes: &str, environment: &str| {
        let args = ["compare", "yield", "--workers", "2", "--runtimes", runtimes, "--json"];
        let result = output(quadrille(&args).arg(&file).env("QUADRILLE_POLICY", environment));
        assert!(!file.exists(), "{runtimes}");
        result
    };
    for (runtimes, environment, expected) in [
        (
            "tokio,quadrille:groups=on,grop=4",
            "",
            "`quadrille:groups=on,grop=4`: `grop` is no name of a constant",
        ),
        (
            "tokio:groups=on",
            "",
            "`tokio:groups=on`: tokio takes no policy; expected one of quadrille,",
        ),
        (
            "quadrille,filter=on",
            "",
            "`filter=on` is a setting without a policy before it",
        ),
        ("quadrille:group-map=0+1+2", "", "`quadrille:group-map=0+1+2`: "),
        (
            "tokio,quadrille",
            "grop=4",
            "QUADRILLE_POLICY is `grop=4`: `grop` is no name of a constant",
        ),
    ] {
        let (status, stdout, stderr) = compare(runtimes, environment);
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{runtimes}: {stderr}");
        assert!(
            stderr.starts_with("error: ") && stderr.contains(expected),
            "{runtimes}: {stderr}"
        );
        assert_eq!(stderr.matches("error").count(), 1, "{stderr}");
    }
}

#[test]
fn two_reports_do_not_go_into_one_file_and_an_earlier_one_stays() {
    let file = std::env::temp_dir().join(format!("quadrille-earlier-{}.json", std::process::id()));
    let link = file.with_extension("html");
    std::fs::write(&file, "an earlier report").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let args = ["compare", "yield", "--json"];
    let (status, stdout, stderr) = output(quadrille(&args).arg(&file).arg("--html").arg(&link));
    let left = std::fs::read_to_string(&file).unwrap();
    for file in [file, link] {
        std::fs::remove_file(file).unwrap();
    }
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("--json and --html name the same file"), "{stderr}");
    assert_eq!(left, "an earlier report");
}

#[test]
fn a_file_that_was_not_there_is_not_left_by_a_comparison_that_cannot_write_the_other() {
    let file = std::env::temp_dir().join(format!("quadrille-alone-{}.json", std::process::id()));
    for other in ["/nonexistent/x.html", file.to_str().unwrap()] {
        let mut command = quadrille(&["compare", "yield", "--html", other, "--json"]);
        let (status, stdout, stderr) = output(command.arg(&file));
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
        assert!(!file.exists(), "{stderr}");
        let mut command = quadrille(&["sim", "--trace", other, "--json"]);
        let (status, stdout, stderr) = output(command.arg(&file));
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
        assert!(!file.exists(), "{stderr}");
    }
}

/// The unit tests of `compare` check the same for that.
#[test]
fn a_simulation_is_written_although_nobody_reads_what_is_printed() {
    let file = std::env::temp_dir().join(format!("quadrille-closed-{}.json", std::process::id()));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = quadrille(&["sim", "--machine", "core:1", "--for", "10us", "--json"]);
    assert_eq!(command.arg(&file).stdout(writer).status().unwrap().code(), Some(1));
    let json: Value = serde_json::from_reader(std::fs::File::open(&file).unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(json["time_ns"], 10_000);
}

#[test]
fn a_report_goes_once_into_a_pipe_or_a_device() {
    let workloads = [
        "compare",
        "spawn_join",
        "block_on",
        "--quick",
        "--reps",
        "1",
        "--workers",
        "1",
    ];
    let mut command = quadrille(&workloads);
    command.args([
        "--runtimes",
        "quadrille",
        "--json",
        "/dev/stdout",
        "--html",
        "/dev/null",
    ]);
    let (status, stdout, stderr) = output(&mut command);
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{stdout}");
    let (tables, json) = stdout.split_once("\n{\n").unwrap();
    let json: Value = serde_json::from_str(&format!("{{{json}")).unwrap();
    assert_eq!(json["complete"], true);
    assert_eq!(json["sections"].as_array().map(Vec::len), Some(2), "{tables}");
}

#[test]
fn what_cannot_be_written_is_named() {
    let args = ["compare", "spawn_join", "--quick", "--reps", "1", "--workers", "1"];
    for flag in ["--json", "--html"] {
        let mut command = quadrille(&args);
        let (status, stdout, stderr) = output(command.args(["--runtimes", "quadrille", flag, "/dev/full"]));
        assert_eq!(status, Some(1), "{stdout}");
        assert!(stderr.starts_with("error: cannot write /dev/full: "), "{stderr}");
    }
}

#[test]
fn a_report_may_have_a_name_that_is_no_text() {
    use std::os::unix::ffi::OsStringExt as _;

    let name = [
        format!("quadrille-name-{}-", std::process::id()).as_bytes(),
        b"\xff.json",
    ]
    .concat();
    let file = std::env::temp_dir().join(std::ffi::OsString::from_vec(name));
    let args = [
        "compare",
        "spawn_join",
        "--quick",
        "--reps",
        "1",
        "--workers",
        "1",
        "--runtimes",
    ];
    let (status, stdout, stderr) = output(quadrille(&args).args(["quadrille", "--json"]).arg(&file));
    let json: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{stdout}");
    let command = json["environment"]["command"].as_str().unwrap();
    assert!(command.ends_with("\u{fffd}.json'"), "{command}");
}

#[test]
fn a_run_by_hand_has_the_policy_of_its_description_or_else_of_the_environment() {
    let run = |runtime: &str| {
        let spec = serde_json::json!({
            "workload": { "name": "spawn_join", "tasks": 10, "batch": 10 },
            "runtime": runtime, "channel": "none", "workers": 1,
        });
        output(quadrille(&["run-one", &spec.to_string()]).env("QUADRILLE_POLICY", "grop=4"))
    };
    for runtime in ["quadrille:groups=off", "quadrille-baseline", "tokio"] {
        let (status, stdout, _) = run(runtime);
        assert_eq!(status, Some(0), "{runtime}");
        assert!(stdout.contains("\"measured\""), "{runtime}: {stdout}");
    }
    let (status, stdout, _) = run("quadrille");
    assert_eq!(status, Some(1), "a failure is one for who looks at the status alone");
    assert!(
        stdout.contains("\"failed\"") && stdout.contains("QUADRILLE_POLICY"),
        "{stdout}"
    );
    let (status, _, stderr) = run("quadrille:groups=of");
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("`groups=of`: expected off, on or auto"), "{stderr}");
}

#[test]
fn a_run_by_hand_is_of_the_allocator_that_its_runtime_names_and_of_go_too() {
    let run = |runtime: &str| {
        let spec = serde_json::json!({
            "workload": { "name": "spawn_join", "tasks": 10, "batch": 10 },
            "runtime": runtime, "channel": "none", "workers": 1,
        });
        output(quadrille(&["run-one", &spec.to_string()]).env("PATH", "/nonexistent"))
    };
    for runtime in ["tokio-mimalloc", "quadrille-mimalloc"] {
        let (status, stdout, stderr) = run(runtime);
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
        assert!(
            stderr.contains(runtime) && stderr.contains("expected `quadrille-mimalloc run-one`"),
            "{stderr}"
        );
    }
    let (status, stdout, _) = run("go");
    assert_eq!(status, Some(0), "{stdout}");
    assert!(stdout.contains("\"unsupported\":\"go is not installed"), "{stdout}");
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
    assert_eq!(requests.len(), 10, "{report}");
    assert!(requests.iter().all(|answered| *answered > 0.0), "{requests:?}");
    let moves = ["group", "llc", "node", "machine"].map(|level| of(&format!("moves_{level}_per_s")));
    assert!(moves.iter().all(|points| points.len() == 10), "{report}");
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

/// `compare` on Go by a program of that name that does no more than `script`: exit status and output.
fn compare_by_go(script: &str) -> (Option<i32>, String) {
    let directory = program("go", script);
    let args = [
        "compare",
        "yield",
        "--runtimes",
        "quadrille,go",
        "--reps",
        "1",
        "--quick",
    ];
    let (status, stdout, _) = output(quadrille(&args).env("PATH", &directory));
    std::fs::remove_dir_all(&directory).unwrap();
    (status, stdout)
}

#[test]
fn the_version_of_go_is_that_of_the_one_that_builds() {
    let directory = program("go", "echo \"go version go1.99-$GOTOOLCHAIN linux/amd64\"");
    let file = directory.join("report.json");
    let args = [
        "compare",
        "spawn_join",
        "--runtimes",
        "quadrille",
        "--reps",
        "1",
        "--quick",
        "--json",
    ];
    let mut command = quadrille(&args);
    let (status, stdout, _) = output(command.arg(&file).env("PATH", &directory).env_remove("GOTOOLCHAIN"));
    let json: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(status, Some(0), "{stdout}");
    let versions = json["environment"]["versions"].as_array().unwrap();
    assert!(
        versions.contains(&serde_json::json!(["go", "1.99-local"])),
        "{versions:?}"
    );
}

#[test]
fn a_go_that_does_not_build_fails_its_rows() {
    let version = "if [ \"$1\" = env ]; then echo go0.0-of-a-test; exit; fi\n";
    for (script, expected) in [
        (
            "echo 'no version here' >&2\nexit 1".to_owned(),
            "FAILED: `go env GOVERSION` failed: no version here",
        ),
        (
            format!("{version}echo '# quadrille/bench' >&2\necho './waits.go:1:1: no such type' >&2\nexit 1"),
            " failed: ./waits.go:1:1: no such type",
        ),
    ] {
        let (status, stdout) = compare_by_go(&script);
        assert_eq!(status, Some(1), "{stdout}");
        assert!(stdout.contains("FAILED: `go ") && stdout.contains(expected), "{stdout}");
    }
}
