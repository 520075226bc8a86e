//! `compare --html`: one page that needs nothing else, no network, no script, no other file.
//!
//! First the ratios, as the answer most readers come for; then each section with bars, figures and counters; last what
//! a sceptic wants: machine, versions, commit, command, and how to repeat any single run. Colours follow the reader's
//! preference for light or dark; on a narrow screen names stand above their bars and tables scroll by themselves.

mod ratios;
mod section;

use std::fmt::Write as _;

use super::Report;
use crate::environment::Environment;
use crate::spec::{Body, Spec};

const STYLE: &str = include_str!("page.css");

/// The whole page.
#[must_use]
pub fn render(report: &Report) -> String {
    let environment = &report.environment;
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>quadrille compare, {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        escape(&environment.began)
    );
    header(&mut out, report);
    for body in [Body::Tasks, Body::Threads] {
        ratios::tables(&mut out, report, body);
    }
    let mut index = 0;
    while let Some(section) = report.sections.get(index) {
        if section.load_percent.is_none() {
            section::workload(&mut out, index, section);
            index += 1;
            continue;
        }
        let points = report.sections[index..].iter();
        let end = index + points.take_while(|section| section.load_percent.is_some()).count();
        section::curves(&mut out, index, &report.sections[index..end]);
        index = end;
    }
    about(&mut out, environment);
    out.push_str("</body>\n</html>\n");
    out
}

/// Text as HTML: nothing in it is markup, in an element or in a quoted attribute.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// The name of a runtime, which may be broken between the settings of its policy.
fn name(runtime: &str) -> String {
    escape(runtime).replace(':', ":<wbr>").replace(',', ",<wbr>")
}

fn header(out: &mut String, report: &Report) {
    let Environment {
        machine,
        processor,
        kernel,
        began,
        build,
        ..
    } = &report.environment;
    let _ = writeln!(
        out,
        "<header>\n<h1>quadrille compare</h1>\n<p class=\"soft\">{}; {}; kernel {}; {}. Lower is better where there are ratios.</p>",
        escape(machine),
        escape(processor),
        escape(kernel),
        escape(began)
    );
    if *build == "debug" {
        out.push_str("<p class=\"warning\">Debug build: the figures mean nothing.</p>\n");
    }
    if !report.complete {
        out.push_str(
            "<p class=\"warning\">Not complete: the comparison was still running when this was written.</p>\n",
        );
    }
    let warning = match failed_rows(report) {
        0 => None,
        1 => Some("1 row failed: its results were wrong, or it died.".to_owned()),
        failed => Some(format!("{failed} rows failed: their results were wrong, or they died.")),
    };
    if let Some(warning) = warning {
        let _ = writeln!(out, "<p class=\"warning\">{warning}</p>");
    }
    out.push_str("</header>\n");
}

/// How many rows have failed, whatever the number of figures that each would have had.
fn failed_rows(report: &Report) -> usize {
    let rows = report.sections.iter().flat_map(|section| &section.rows);
    let failed = rows.filter(|row| row.remark.as_deref().is_some_and(|remark| remark.starts_with("FAILED")));
    let mut found: Vec<&Spec> = Vec::new();
    for row in failed {
        if !found.contains(&&row.spec) {
            found.push(&row.spec);
        }
    }
    found.len()
}

fn about(out: &mut String, environment: &Environment) {
    let versions: Vec<String> = environment
        .versions
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let variables = match &environment.variables[..] {
        [] => "none set of those that change a run".to_owned(),
        set => set.join(", "),
    };
    let workers = environment.workers.to_string();
    out.push_str("<section id=\"about\">\n<h2>How these figures were made</h2>\n<dl>\n");
    for (term, text) in [
        ("command", &environment.command),
        ("environment", &variables),
        ("began", &environment.began),
        ("machine", &environment.machine),
        ("processor", &environment.processor),
        ("frequency governor", &environment.governor),
        ("kernel", &environment.kernel),
        ("workers", &workers),
        ("build", &environment.build.to_owned()),
        ("commit", &environment.commit),
        ("versions", &versions.join(", ")),
    ] {
        let _ = writeln!(out, "<dt>{term}</dt><dd>{}</dd>", escape(text));
    }
    out.push_str(
        "</dl>\n<p class=\"soft\">Each run is a process of its own; runs interleave, in another order in each repetition; a run whose result is wrong fails the \
         comparison. docs/benchmarks.md says what each workload does and why it is fair.</p>\n</section>\n",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Counters, Measured, Outcome};
    use crate::report::{Row, Section};
    use crate::spec::{ChannelKind, Metric, RuntimeName, Workload};

    fn environment() -> Environment {
        Environment {
            command: "quadrille compare '<script>'".to_owned(),
            variables: Vec::new(),
            began_unix_s: 0,
            began: "1970-01-01 00:00 UTC".to_owned(),
            workers: 2,
            machine: "2 workers on \"a & b\"".to_owned(),
            processor: "a processor".to_owned(),
            kernel: "6.18".to_owned(),
            governor: "performance".to_owned(),
            build: "release",
            commit: "0123abc".to_owned(),
            versions: vec![("tokio".to_owned(), "1.54.1".to_owned())],
        }
    }

    fn row(workload: Workload, runtime: RuntimeName, channel: ChannelKind, ns_per_op: &[u64]) -> Row {
        let measured = |ns: u64| {
            Outcome::Measured(Measured {
                ops: 10,
                wall_ns: ns * 10,
                counters: Counters::from([("polls".to_owned(), 1_234_567)]),
                ..Measured::default()
            })
        };
        Row {
            spec: Spec {
                workload,
                body: Body::Tasks,
                runtime: runtime.into(),
                channel,
                workers: 2,
                progress: false,
            },
            outcomes: ns_per_op.iter().map(|&ns| measured(ns)).collect(),
        }
    }

    fn report(rows: &[Row]) -> Report {
        let workload = rows[0].spec.workload;
        Report {
            environment: environment(),
            complete: true,
            sections: vec![Section::new(&workload, Body::Tasks, rows, Metric::PerOperation)],
        }
    }

    const PING_PONG: Workload = Workload::PingPong {
        pairs: 1,
        round_trips: 9,
    };

    fn page() -> String {
        let mut failed = row(PING_PONG, RuntimeName::Smol, ChannelKind::Shared, &[7]);
        failed.outcomes.push(Outcome::Failed("sum <b>3</b> & not 4".to_owned()));
        let rows = [
            row(PING_PONG, RuntimeName::Quadrille, ChannelKind::Shared, &[50, 60, 40]),
            row(PING_PONG, RuntimeName::Quadrille, ChannelKind::Own, &[20, 30, 10]),
            row(PING_PONG, RuntimeName::Tokio, ChannelKind::Shared, &[100, 100, 100]),
            row(PING_PONG, RuntimeName::Threads, ChannelKind::Own, &[1000, 1000, 1000]),
            failed,
        ];
        render(&report(&rows))
    }

    #[test]
    fn every_row_is_there_with_its_bar_and_its_figures() {
        let page = page();
        assert_eq!(page.matches("<div class=\"bar ").count(), 5);
        assert_eq!(page.matches("role=\"img\"").count(), 4);
        assert_eq!(page.matches("<td class=\"name\">quadrille</td>").count(), 2);
        assert_eq!(
            page.matches("class=\"sample\"").count(),
            9,
            "what is cut off has no ticks"
        );
        assert_eq!(
            page.matches("class=\"cut\"").count(),
            1,
            "ten times the base is cut off"
        );
        for title in [
            "<title>60.0 ns</title>",
            "<title>cut off: 1,000, 1,000, 1,000 ns</title>",
        ] {
            assert_eq!(page.matches(title).count(), 1, "{title} in {page}");
        }
        assert_eq!(page.matches("quadrille run-one").count(), 5);
        assert!(page.contains("1,234,567"), "counters");
        for (cell, whose) in [
            (
                "<td class=\"better\" title=\"0.40 to 0.60 in 3 repetitions\">0.50</td>",
                "the shared channel",
            ),
            (
                "<td class=\"better\" title=\"0.10 to 0.30 in 3 repetitions\">0.20</td>",
                "its own channel",
            ),
            (
                "<td class=\"worse\" title=\"10.00 to 10.00 in 3 repetitions\">10.00</td>",
                "threads",
            ),
            ("<td>0.50 <small>0.40 to 0.60</small></td>", "the figures"),
        ] {
            assert!(page.contains(cell), "{whose}: {cell} is missing in {page}");
        }
    }

    #[test]
    fn a_workload_that_the_base_of_the_others_cannot_do_names_its_own() {
        let mut report = report(&[row(PING_PONG, RuntimeName::Tokio, ChannelKind::Shared, &[1])]);
        let mut tokio = row(PING_PONG, RuntimeName::Tokio, ChannelKind::Shared, &[]);
        tokio.outcomes.push(Outcome::Unsupported("no such thing".to_owned()));
        let rows = [tokio, row(PING_PONG, RuntimeName::Smol, ChannelKind::Shared, &[7])];
        let section = Section::new(&PING_PONG, Body::Tasks, &rows, Metric::PerOperation);
        report.sections.push(section);
        let page = render(&report);
        assert!(page.contains("as ratios to tokio</h2>"), "{page}");
        assert_eq!(page.matches("</a> <small>to smol</small></th>").count(), 1, "{page}");
    }

    #[test]
    fn the_channel_of_the_base_is_named_where_ratios_are_to_it() {
        let mut shared = row(PING_PONG, RuntimeName::Tokio, ChannelKind::Shared, &[]);
        shared.outcomes.push(Outcome::Failed("sum".to_owned()));
        let rows = [
            shared,
            row(PING_PONG, RuntimeName::Tokio, ChannelKind::Own, &[2]),
            row(PING_PONG, RuntimeName::Quadrille, ChannelKind::Shared, &[1]),
            row(PING_PONG, RuntimeName::Quadrille, ChannelKind::Own, &[1]),
        ];
        let failed = render(&report(&rows));
        let heading = "its own channel, still as ratios to tokio";
        assert!(
            failed.contains(&format!("{heading} with tokio::sync::mpsc</h3>")),
            "{failed}"
        );
        let beside = "</a> <small>with tokio::sync::mpsc</small></th>";
        assert_eq!(failed.matches(beside).count(), 1, "of the shared channel: {failed}");

        let mut both = report(&rows);
        let usual = [
            row(PING_PONG, RuntimeName::Tokio, ChannelKind::Shared, &[2]),
            rows[3].clone(),
        ];
        let usual = Section::new(&PING_PONG, Body::Tasks, &usual, Metric::PerOperation);
        both.sections.push(usual.clone());
        let mixed = render(&both);
        assert!(mixed.contains(&format!("{heading}</h3>")), "{mixed}");
        assert_eq!(mixed.matches(beside).count(), 2, "{mixed}");
        assert_eq!(mixed.matches("</a> <small>with async-channel</small></th>").count(), 1);

        both.sections = vec![usual];
        let alone = render(&both);
        assert!(alone.contains(&format!("{heading} with async-channel</h3>")), "{alone}");
    }

    #[test]
    fn a_base_that_failed_in_part_is_named_beside_its_ratios() {
        let mut tokio = row(PING_PONG, RuntimeName::Tokio, ChannelKind::Shared, &[1, 1]);
        tokio.outcomes.push(Outcome::Failed("sum".to_owned()));
        let ours = row(PING_PONG, RuntimeName::Quadrille, ChannelKind::Shared, &[1, 1, 1]);
        let page = render(&report(&[tokio, ours]));
        assert_eq!(page.matches("tokio failed in 1 of 3 runs").count(), 2, "{page}");
    }

    #[test]
    fn a_ratio_that_is_now_below_and_now_above_one_is_not_tinted() {
        let tokio = row(PING_PONG, RuntimeName::Tokio, ChannelKind::Shared, &[100, 100, 100]);
        let ours = row(PING_PONG, RuntimeName::Quadrille, ChannelKind::Shared, &[50, 80, 110]);
        let page = render(&report(&[tokio, ours]));
        let cell = "<td title=\"0.50 to 1.10 in 3 repetitions\">0.80</td>";
        assert!(page.contains(cell), "{page}");
    }

    #[test]
    fn the_mean_is_of_times_an_operation_alone_and_says_of_how_many() {
        let rows = |runtime, figures| [100, figures].map(|ns| row(PING_PONG, runtime, ChannelKind::Shared, &[ns]));
        let [base, [smol, slower]] =
            [(RuntimeName::Tokio, 100), (RuntimeName::Smol, 400)].map(|(name, ns)| rows(name, ns));
        let mut report = report(&[base[0].clone(), smol]);
        let section = |rows: &[Row], metric| Section::new(&PING_PONG, Body::Tasks, rows, metric);
        report
            .sections
            .push(section(&[base[0].clone(), slower], Metric::PerOperation));
        report.sections.push(section(&base[..1], Metric::PerOperation));
        report.sections.push(section(&base[..1], Metric::Cpu));
        let page = render(&report);
        let expected = "geometric mean of the times an operation</th><td>1.00 <small>of 3</small></td><td>2.00 <small>of 2</small></td>";
        assert!(page.contains(expected), "{page}");
        report
            .sections
            .retain(|section| section.metric != Metric::PerOperation.name());
        assert!(!render(&report).contains("geometric mean"));
    }

    #[test]
    fn a_run_is_repeated_by_the_program_with_its_allocator() {
        let rows = [RuntimeName::Tokio, RuntimeName::TokioMimalloc]
            .map(|runtime| row(PING_PONG, runtime, ChannelKind::Shared, &[1]));
        let page = render(&report(&rows));
        for program in ["quadrille", "quadrille-mimalloc"] {
            assert_eq!(page.matches(&format!("<pre>{program} run-one ")).count(), 1, "{page}");
        }
    }

    #[test]
    fn text_is_never_markup() {
        let page = page();
        for foreign in ["<script", "<b>", "a & b", "\"a &amp; b\""] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.contains("FAILED: sum &lt;b&gt;3&lt;/b&gt; &amp; not 4"));
        assert!(page.contains("&quot;a &amp; b&quot;"));
        assert!(page.contains("quadrille compare &#39;&lt;script&gt;&#39;"));
    }

    #[test]
    fn variables_that_change_a_run_are_named() {
        let mut report = report(&[row(PING_PONG, RuntimeName::Tokio, ChannelKind::Shared, &[1])]);
        let expected = "<dt>environment</dt><dd>none set of those that change a run</dd>";
        assert!(render(&report).contains(expected));
        report.environment.variables = ["GOGC=off", "QUADRILLE_PIN=<0>"].map(str::to_owned).to_vec();
        let expected = "<dt>environment</dt><dd>GOGC=off, QUADRILLE_PIN=&lt;0&gt;</dd>";
        assert!(render(&report).contains(expected));
    }

    #[test]
    fn nothing_is_loaded_from_anywhere() {
        let page = page();
        for foreign in ["http", "//", "src=", "url(", "@import", "<link", "<script"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn every_element_that_is_opened_is_closed() {
        let page = page();
        for element in [
            "html", "head", "body", "header", "section", "figure", "div", "svg", "table", "thead", "tbody", "tfoot",
            "tr", "td", "details", "summary", "dl", "dt", "dd", "pre", "p", "h1", "h2", "h3", "a", "small", "style",
            "title",
        ] {
            let opened = page.matches(&format!("<{element}>")).count() + page.matches(&format!("<{element} ")).count();
            assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
            assert!(opened > 0, "{element}");
        }
    }

    #[test]
    fn warnings_stand_at_the_top() {
        let mut report = report(&[row(PING_PONG, RuntimeName::Tokio, ChannelKind::Shared, &[1])]);
        assert!(!render(&report).contains("class=\"warning\""));
        report.complete = false;
        report.environment.build = "debug";
        let page = render(&report);
        assert!(page.contains("Not complete") && page.contains("Debug build"), "{page}");
        assert!(self::page().contains(">1 row failed: "));
    }

    #[test]
    fn a_row_that_failed_is_counted_once_however_many_figures_it_has() {
        let rows = [RuntimeName::Tokio, RuntimeName::Smol].map(|runtime| {
            let mut row = row(PING_PONG, runtime, ChannelKind::Shared, &[1]);
            row.outcomes.push(Outcome::Failed("sum".to_owned()));
            row
        });
        let mut report = report(&rows);
        for metric in [Metric::Cpu, Metric::LongestWait] {
            let section = Section::new(&PING_PONG, Body::Tasks, &rows, metric);
            report.sections.push(section);
        }
        assert!(render(&report).contains(">2 rows failed: "));
    }
}
