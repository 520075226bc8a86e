//! `compare --html`: one page that needs nothing else, no network, no script, no other file.
//!
//! First the ratios, as the answer most readers come for; then each section with bars, figures and counters; last what a
//! sceptic wants: machine, versions, commit, command, and how to repeat any single run. Colours follow the reader's
//! preference for light or dark; on a narrow screen names stand above their bars and tables scroll by themselves.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{Report, Section, Summary, cell, ratio, switches};
use super::{chart, curve};
use crate::environment::Environment;
use crate::spec::{Body, ChannelKind, Spec};
use crate::table::{Table, figure, thousands};

const STYLE: &str = include_str!("page.css");

/// A ratio this far from 1 is shown as a difference; less is noise.
const NOISE: f64 = 0.05;

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
        ratios(&mut out, report, body);
    }
    let mut index = 0;
    while let Some(section) = report.sections.get(index) {
        if section.load_percent.is_none() {
            workload(&mut out, index, section);
            index += 1;
            continue;
        }
        let points = report.sections[index..].iter();
        let end = index + points.take_while(|section| section.load_percent.is_some()).count();
        curves(&mut out, index, &report.sections[index..end]);
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

/// Whether a row stands in the table of own channels rather than in that of the channel that all share.
fn is_own(row: &Summary) -> bool {
    row.spec.body == Body::Tasks && row.spec.channel == ChannelKind::Own
}

/// The tables of ratios of one body: first what all do the same way, then each with its own channel.
fn ratios(out: &mut String, report: &Report, body: Body) {
    let of_body = || {
        report
            .sections
            .iter()
            .enumerate()
            .filter(|(_, section)| section.body == body && section.is_compared)
    };
    let Some(base) = of_body().find_map(|(_, section)| section.bases().into_iter().next()) else {
        return;
    };
    let _ = writeln!(
        out,
        "<section class=\"ratios\" id=\"ratios-{bodies}\">\n<h2>{} of {bodies}, as ratios to {}</h2>\n<p class=\"soft\">Medians of the ratios \
         within each repetition. Tinted where they differ by more than {:.0} %.</p>",
        if of_body().count() == 1 {
            "The workload"
        } else {
            "All workloads"
        },
        escape(&base),
        NOISE * 100.0,
        bodies = body.name()
    );
    for own in [false, true] {
        let mut runtimes: Vec<&str> = Vec::new();
        for row in of_body()
            .flat_map(|(_, section)| &section.rows)
            .filter(|row| is_own(row) == own)
        {
            if !runtimes.contains(&row.runtime.as_str()) {
                runtimes.push(&row.runtime);
            }
        }
        if runtimes.is_empty() {
            continue;
        }
        if own {
            let _ = writeln!(
                out,
                "<h3>Each with its own channel, still as ratios to {} with async-channel</h3>",
                escape(&base)
            );
        }
        let sections = of_body().filter(|(_, section)| section.rows.iter().any(|row| is_own(row) == own));
        ratio_table(out, sections, &runtimes, own);
    }
    out.push_str("</section>\n");
}

fn ratio_table<'a>(
    out: &mut String,
    sections: impl Iterator<Item = (usize, &'a Section)>,
    runtimes: &[&str],
    own: bool,
) {
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr><th class=\"name\">workload</th>");
    for runtime in runtimes {
        let _ = write!(out, "<th class=\"runtime\">{}</th>", name(runtime));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let mut found: Vec<Vec<f64>> = vec![Vec::new(); runtimes.len()];
    for (index, section) in sections {
        let _ = write!(
            out,
            "<tr><th scope=\"row\"><a href=\"#s{index}\">{}</a></th>",
            escape(&section.title)
        );
        let base = section.bases().into_iter().next().unwrap_or_default();
        for (runtime, found) in runtimes.iter().zip(&mut found) {
            let row = section
                .rows
                .iter()
                .find(|row| row.runtime == *runtime && is_own(row) == own);
            let ratio = row
                .filter(|row| row.remark.is_none())
                .and_then(|row| row.ratios.get(&base));
            found.extend(ratio);
            out.push_str(&ratio_cell(ratio.copied()));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n<tfoot><tr><th>geometric mean of these</th>");
    for ratios in &found {
        out.push_str(&ratio_cell(geometric_mean(ratios)));
    }
    out.push_str("</tr></tfoot>\n</table></div>\n");
}

fn ratio_cell(ratio: Option<f64>) -> String {
    match ratio {
        Some(ratio) if ratio < 1.0 - NOISE => format!("<td class=\"better\">{ratio:.2}</td>"),
        Some(ratio) if ratio > 1.0 + NOISE => format!("<td class=\"worse\">{ratio:.2}</td>"),
        Some(ratio) => format!("<td>{ratio:.2}</td>"),
        None => "<td>-</td>".to_owned(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a handful of rows")]
fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    // A count of none is no part of it: beside it all others would be.
    let logarithms: Vec<f64> = ratios
        .iter()
        .filter(|ratio| **ratio > 0.0)
        .map(|ratio| ratio.ln())
        .collect();
    let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
    (!logarithms.is_empty()).then(|| mean.exp())
}

/// One section: bars, then figures, counters and how to repeat a row, folded away.
fn workload(out: &mut String, index: usize, section: &Section) {
    let unit = match section.metric {
        bytes if bytes.ends_with("bytes") => "B",
        "wake_ups" => "times",
        _ => "ns",
    };
    let _ = writeln!(
        out,
        "<section id=\"s{index}\">\n<h2>{}</h2>\n<p class=\"soft\">{} runs each, interleaved. A bar ends at the median; the line spans all \
         runs, a tick each; dashed: the base.</p>",
        escape(&section.title),
        section.repetitions
    );
    if let Some(note) = section.note() {
        let _ = writeln!(out, "<p class=\"soft\">{}</p>", escape(&note));
    }
    out.push_str(&chart::bars(
        &section.rows,
        section.bases().first().map(String::as_str),
        unit,
    ));
    figures(out, section);
    counters(out, section);
    repeat(out, section);
    out.push_str("</section>\n");
}

/// The load curves, a plot a figure; then the points one by one, folded away.
fn curves(out: &mut String, first: usize, sections: &[Section]) {
    for (_, points) in curve::figures(sections) {
        if points.iter().any(|point| !point.is_compared) {
            continue;
        }
        let _ = writeln!(
            out,
            "<section class=\"load\">\n<h2>{}</h2>\n<p class=\"soft\">To the right: hundredths of full load. Each step upwards is ten times \
             the one below.</p>",
            escape(&curve::title(&points))
        );
        out.push_str(&curve::plot(&points));
        out.push_str("</section>\n");
    }
    for (title, table) in curve::tables_beside_plots(sections) {
        let _ = writeln!(out, "<section class=\"load\">\n<h2>{}</h2>", escape(&title));
        out.push_str(&plain_table(&table));
        out.push_str("</section>\n");
    }
    out.push_str("<section>\n<h2>The points of the load curves</h2>\n");
    for (index, section) in sections.iter().enumerate().filter(|(_, section)| section.is_compared) {
        let _ = writeln!(out, "<h3 id=\"s{}\">{}</h3>", first + index, escape(&section.title));
        figures(out, section);
        counters(out, section);
        repeat(out, section);
    }
    out.push_str("</section>\n");
}

/// A table as it is printed.
fn plain_table(table: &Table) -> String {
    let mut out = "<div class=\"scroll\"><table>\n<thead>".to_owned();
    let name = |column| {
        if column < table.left_columns() {
            " class=\"name\""
        } else {
            ""
        }
    };
    let line = |out: &mut String, element: &str, cells: &[String]| {
        out.push_str("<tr>");
        for (column, cell) in cells.iter().enumerate() {
            let _ = write!(out, "<{element}{}>{}</{element}>", name(column), escape(cell));
        }
        out.push_str("</tr>");
    };
    line(&mut out, "th", table.header());
    out.push_str("</thead>\n<tbody>\n");
    for (cells, remark) in table.rows() {
        match remark {
            None => line(&mut out, "td", cells),
            Some(remark) => {
                let rest = table.header().len() - cells.len();
                let names: Vec<String> = cells.iter().map(|cell| escape(cell)).collect();
                let _ = write!(
                    out,
                    "<tr><td class=\"name\">{}</td><td class=\"remark\" colspan=\"{rest}\">{}</td></tr>",
                    names.join(" "),
                    escape(remark)
                );
            }
        }
        out.push('\n');
    }
    out.push_str("</tbody></table></div>\n");
    out
}

fn figures(out: &mut String, section: &Section) {
    let bases = section.bases();
    out.push_str(
        "<details><summary>Figures</summary><div class=\"scroll\"><table>\n<thead><tr><th class=\"name\">runtime</th>\
         <th class=\"name\">channel</th><th>median</th><th>min</th><th>max</th>",
    );
    for base in &bases {
        let _ = write!(out, "<th>ratio to {}</th>", escape(base));
    }
    out.push_str("<th>CPU ns/op</th><th>vol. switches/op</th><th>right runs</th></tr></thead>\n<tbody>\n");
    for row in &section.rows {
        let _ = write!(
            out,
            "<tr><td class=\"name\">{}</td><td class=\"name\">{}</td>",
            escape(&row.label()),
            escape(row.channel)
        );
        match (&row.remark, row.figure) {
            (None, Some(spread)) => {
                let mut cells = [spread.median, spread.min, spread.max].map(figure).to_vec();
                cells.extend(bases.iter().map(|base| ratio(row, base)));
                cells.extend([cell(row.cpu_ns_per_op), switches(row), row.repetitions().to_string()]);
                for cell in cells {
                    let _ = write!(out, "<td>{cell}</td>");
                }
            }
            (remark, _) => {
                let remark = remark.as_deref().unwrap_or("no figures");
                let _ = write!(
                    out,
                    "<td class=\"remark\" colspan=\"{}\">{}</td>",
                    bases.len() + 6,
                    escape(remark)
                );
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div></details>\n");
}

/// What the runtimes counted in the run with the median figure, a column each; nothing if none counts.
fn counters(out: &mut String, section: &Section) {
    let rows: Vec<&Summary> = section.rows.iter().filter(|row| !row.counters.is_empty()).collect();
    let names: BTreeSet<&String> = rows.iter().flat_map(|row| row.counters.keys()).collect();
    if names.is_empty() {
        return;
    }
    out.push_str(
        "<details><summary>Counters of the run with the median figure</summary><div class=\"scroll\"><table>\n\
         <thead><tr><th class=\"name\">counter</th>",
    );
    for row in &rows {
        let _ = write!(
            out,
            "<th class=\"runtime\">{}<br>{}</th>",
            name(&row.runtime),
            escape(row.channel)
        );
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for name in names {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(name));
        for row in &rows {
            let count = row
                .counters
                .get(name)
                .map_or_else(|| "-".to_owned(), |count| thousands(&count.to_string()));
            let _ = write!(out, "<td>{count}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div></details>\n");
}

fn repeat(out: &mut String, section: &Section) {
    out.push_str("<details><summary>Repeat a single run</summary>\n");
    for row in &section.rows {
        // The Go program and the one with mimalloc are started by `compare`; the description is the same.
        if let Ok(spec) = serde_json::to_string(&row.spec) {
            let _ = writeln!(out, "<pre>quadrille run-one '{}'</pre>", escape(&spec));
        }
    }
    out.push_str("</details>\n");
}

fn about(out: &mut String, environment: &Environment) {
    let versions: Vec<String> = environment
        .versions
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let workers = environment.workers.to_string();
    out.push_str("<section id=\"about\">\n<h2>How these figures were made</h2>\n<dl>\n");
    for (term, text) in [
        ("command", &environment.command),
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
    use crate::report::Row;
    use crate::spec::{Metric, RuntimeName, Workload};

    fn environment() -> Environment {
        Environment {
            command: "quadrille compare '<script>'".to_owned(),
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
        assert_eq!(page.matches("quadrille run-one").count(), 5);
        assert!(page.contains("1,234,567"), "counters");
        assert!(page.contains("<td class=\"better\">0.50</td>"), "the shared channel");
        assert!(page.contains("<td class=\"better\">0.20</td>"), "its own channel");
        assert!(page.contains("<td class=\"worse\">10.00</td>"));
    }

    #[test]
    fn a_table_beside_the_plots_has_all_that_is_printed() {
        let mut table = Table::new(&["runtime", "10 %"], 1);
        table.push(vec!["quadrille".to_owned(), "5,000".to_owned()]);
        table.push_remark(vec!["go".to_owned()], "not run: <none>".to_owned());
        let html = plain_table(&table);
        for expected in [
            "<th class=\"name\">runtime</th><th>10 %</th>",
            "<td class=\"name\">quadrille</td><td>5,000</td>",
            "<td class=\"name\">go</td><td class=\"remark\" colspan=\"1\">not run: &lt;none&gt;</td>",
        ] {
            assert!(html.contains(expected), "{expected} is missing in {html}");
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

    #[test]
    fn the_mean_of_a_half_and_a_double_is_one() {
        assert!(geometric_mean(&[0.5, 2.0]).is_some_and(|mean| (mean - 1.0).abs() < 1e-12));
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[0.0, 0.5]), geometric_mean(&[0.5]));
    }
}
