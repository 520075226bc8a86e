use std::slice;

use super::*;

fn row(runtime: impl Into<Contender>, ns_per_op: &[u64]) -> Row {
    let workload = Workload::SpawnJoin { tasks: 10, batch: 10 };
    let spec = Spec {
        workload,
        body: Body::Tasks,
        runtime: runtime.into(),
        channel: ChannelKind::None,
        workers: 2,
        progress: false,
    };
    let outcomes = ns_per_op
        .iter()
        .map(|&ns| {
            let counters = Counters::from([("polls".to_owned(), ns)]);
            Outcome::Measured(Measured {
                ops: 10,
                wall_ns: ns * 10,
                user_ns: 20,
                vcsw: 5,
                counters,
                ..Measured::default()
            })
        })
        .collect();
    Row { spec, outcomes }
}

fn ratios_to(bases: &[(&str, f64)]) -> BTreeMap<String, f64> {
    bases.iter().map(|&(base, ratio)| (base.to_owned(), ratio)).collect()
}

fn section(rows: &[Row]) -> Section {
    Section::new(&rows[0].spec.workload, rows[0].spec.body, rows, Metric::PerOperation)
}

#[test]
fn ratios_are_to_tokio_of_the_same_repetition() {
    let section = section(&[
        row(RuntimeName::Quadrille, &[50, 150, 160]),
        row(RuntimeName::Tokio, &[100, 300, 100]),
    ]);
    let [ours, tokio] = &section.rows[..] else {
        panic!("{section:?}")
    };
    assert_eq!(ours.ratios, ratios_to(&[("tokio", 0.5)]));
    let spread = ours.ratio_spreads["tokio"].spread;
    assert_eq!((spread.min, spread.median, spread.max), (0.5, 0.5, 1.6));
    assert_eq!(tokio.ratios, ratios_to(&[("tokio", 1.0)]));
    assert_eq!(ours.counters["polls"], 150);
    assert_eq!(ours.vcsw_per_op, Some(0.5));
    assert_eq!(ours.samples, [Some(50.0), Some(150.0), Some(160.0)]);
}

#[test]
fn whose_channel_the_base_has_is_said_where_there_are_two() {
    let over = |runtime: RuntimeName, channel| {
        let mut row = row(runtime, &[10]);
        row.spec.channel = channel;
        row
    };
    let shared = over(RuntimeName::Tokio, ChannelKind::Shared);
    let own = over(RuntimeName::Quadrille, ChannelKind::Own);
    let both = section(&[own.clone(), shared.clone()]);
    let expected = "Ratios are to tokio over async-channel, those of rows with another channel, too.";
    assert_eq!(both.note().as_deref(), Some(expected));
    for rows in [[shared.clone(), shared], [own.clone(), own]] {
        assert_eq!(section(&rows).note(), None);
    }
}

#[test]
fn without_tokio_ratios_are_to_the_first() {
    let section = section(&[row(RuntimeName::Smol, &[10]), row(RuntimeName::Quadrille, &[5])]);
    assert_eq!(section.bases(), ["smol"]);
    assert_eq!(section.rows[1].ratios, ratios_to(&[("smol", 0.5)]));
}

#[test]
fn a_peer_that_was_not_run_is_no_base() {
    let mut tokio = row(RuntimeName::Tokio, &[]);
    let absent = Outcome::Unsupported("tokio is not part of this build".to_owned());
    tokio.outcomes = vec![absent.clone(), absent];
    let mut broken = row(RuntimeName::TokioMimalloc, &[]);
    broken.outcomes = vec![Outcome::Failed("sum".to_owned()); 2];
    let ours = [row(RuntimeName::Quadrille, &[10, 10]), row(RuntimeName::Go, &[5, 5])];
    let section = section(&[&[tokio.clone(), broken][..], &ours].concat());
    assert_eq!(section.bases(), ["quadrille"]);
    let ratios: Vec<_> = section.rows.iter().map(|row| row.ratios.get("quadrille")).collect();
    assert_eq!(ratios, [None, None, Some(&1.0), Some(&0.5)]);
    assert!(self::section(&[tokio]).bases().is_empty());
}

#[test]
fn policies_are_runtimes_of_their_own_and_the_first_is_the_base() {
    let typed = ["quadrille-1w:baseline", "quadrille", "quadrille:groups=on,filter=on"];
    let rows: Vec<Row> = typed
        .iter()
        .zip([20, 10, 5])
        .map(|(text, ns)| row(text.parse::<Contender>().unwrap(), &[ns]))
        .collect();
    let alone = section(&rows);
    assert_eq!(alone.bases(), ["quadrille-1w:baseline"]);
    let text = table(&alone).to_string();
    assert!(text.contains("median ratio to quadrille-1w:baseline"), "{text}");
    for ((row, name), ratio) in alone.rows.iter().zip(typed).zip([1.0, 0.5, 0.25]) {
        assert_eq!(row.runtime, name);
        assert_eq!(row.ratios, ratios_to(&[("quadrille-1w:baseline", ratio)]));
        assert_eq!(serde_json::to_value(row).unwrap()["spec"]["runtime"], name);
    }
    let beside = [&rows[..], &[row(RuntimeName::Tokio, &[40])]].concat();
    assert_eq!(section(&beside).bases(), ["tokio"]);
}

#[test]
fn tokio_with_mimalloc_is_a_second_base() {
    let section = section(&[
        row(RuntimeName::Quadrille, &[10]),
        row(RuntimeName::Tokio, &[40]),
        row(RuntimeName::TokioMimalloc, &[20]),
    ]);
    assert_eq!(section.bases(), ["tokio", "tokio-mimalloc"]);
    assert_eq!(
        section.rows[0].ratios,
        ratios_to(&[("tokio", 0.25), ("tokio-mimalloc", 0.5)])
    );
    let text = table(&section).to_string();
    assert!(text.contains("median ratio to tokio-mimalloc"), "{text}");
}

#[test]
fn json_has_the_promised_fields() {
    let json = serde_json::to_value(section(&[row(RuntimeName::Tokio, &[3, 1, 2])])).unwrap();
    let expected = serde_json::json!({
        "title": "spawn_join: batches of 10 from inside a task; ns a task",
        "workload": "spawn_join",
        "body": "tasks",
        "metric": "ns_per_op",
        "repetitions": 3,
        "rows": [{
            "spec": {
                "workload": {"name": "spawn_join", "tasks": 10, "batch": 10},
                "body": "tasks",
                "runtime": "tokio",
                "channel": "none",
                "workers": 2,
                "progress": false,
            },
            "runtime": "tokio",
            "channel": "-",
            "params": {"tasks": 10, "batch": 10},
            "figure": {"median": 2.0, "min": 1.0, "max": 3.0},
            "samples": [3.0, 1.0, 2.0],
            "cpu_ns_per_op": 2.0,
            "vcsw_per_op": 0.5,
            "ratios": {"tokio": 1.0},
            "ratio_spreads": {"tokio": {"median": 1.0, "min": 1.0, "max": 1.0, "pairs": 3}},
            "counters": {"polls": 2},
        }],
    });
    assert_eq!(json, expected);
}

#[test]
fn a_base_that_failed_in_part_is_said_to_have() {
    let mut tokio = row(RuntimeName::Tokio, &[20, 40]);
    tokio.outcomes.insert(1, Outcome::Failed("sum".to_owned()));
    let section = section(&[tokio, row(RuntimeName::Quadrille, &[10, 10, 10])]);
    assert_eq!(section.rows[1].ratios, ratios_to(&[("tokio", 0.375)]));
    let expected = "tokio failed in 1 of 3 runs, ratios to it are those within the others.";
    assert_eq!(section.note().as_deref(), Some(expected));
}

#[test]
fn a_row_that_failed_shows_why_instead_of_figures() {
    let mut failed = row(RuntimeName::Tokio, &[1, 2]);
    failed
        .outcomes
        .push(Outcome::Failed("3 messages received, 4 sent".to_owned()));
    assert!(failed.has_failed());
    let text = table(&section(slice::from_ref(&failed))).to_string();
    assert!(text.contains("FAILED: 3 messages received, 4 sent"), "{text}");
}

#[test]
fn beside_a_base_of_nothing_bars_are_as_long_as_their_figures_say() {
    let section = section(&[
        row(RuntimeName::Tokio, &[0]),
        row(RuntimeName::Quadrille, &[50]),
        row(RuntimeName::Smol, &[100]),
    ]);
    let html = chart::bars(&section.rows, Some("tokio"), "ns");
    for width in ["0.0", "500.0", "1000.0"] {
        let bar = format!("<rect x=\"0\" y=\"3\" width=\"{width}\"");
        assert!(html.contains(&bar), "{width}: {html}");
    }
    assert!(!html.contains("cut off"), "{html}");
}

fn sleepers(runtime: RuntimeName, threads: usize, figures: [u64; 3]) -> Row {
    let names = ["create_ns", "rss_bytes", "wake_join_ns"].map(str::to_owned);
    let mut row = row(runtime, &[]);
    row.spec.workload = Workload::Sleepers { threads };
    row.spec.body = Body::Threads;
    row.outcomes.push(Outcome::Measured(Measured {
        ops: threads as u64,
        counters: names.into_iter().zip(figures).collect(),
        ..Measured::default()
    }));
    row
}

#[test]
fn sleepers_have_three_figures_each_with_its_ratio_to_go() {
    let rows = [
        sleepers(RuntimeName::Quadrille, 100, [1000, 400_000, 700]),
        sleepers(RuntimeName::Go, 100, [4000, 200_000, 1000]),
        sleepers(RuntimeName::Threads, 10, [90, 80, 70]),
    ];
    let expected = [(10.0, 0.25, 9.0), (4000.0, 2.0, 8.0), (7.0, 0.7, 7.0)];
    let metrics = rows[0].spec.workload.metrics();
    assert_eq!(metrics.len(), expected.len());
    for (&metric, (ours, ratio, threads)) in metrics.iter().zip(expected) {
        let section = Section::new(&Workload::Sleepers { threads: 100 }, Body::Threads, &rows, metric);
        let medians: Vec<f64> = section.rows.iter().map(|row| row.figure.unwrap().median).collect();
        assert_eq!((medians[0], medians[2]), (ours, threads), "{metric:?}");
        assert_eq!(section.rows[0].ratios["go"], ratio, "{metric:?}");
        let text = table(&section).to_string();
        assert!(text.contains("median ratio to go"), "{text}");
        assert!(text.contains("threads (10 threads)"), "{text}");
        assert!(!text.contains("go ("), "{text}");
    }
}
