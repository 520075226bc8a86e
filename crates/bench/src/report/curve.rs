//! Load curves: one figure at several loads, as a table with a column for each and as a plot.

use std::fmt::Write as _;

use super::chart::class;
use super::page::escape;
use super::{Section, Summary};
use crate::moves::Distance;
use crate::spec::Metric;
use crate::table::{Table, figure};

/// Room of the plot in its own coordinates; small, so that its text is readable on a phone.
const WIDTH: f64 = 360.0;

/// The same upwards.
const HEIGHT: f64 = 240.0;

/// The figures that a series of load points has, each with its sections in order of load.
pub(super) fn figures(sections: &[Section]) -> Vec<(&'static str, Vec<&Section>)> {
    let mut figures: Vec<(&str, Vec<&Section>)> = Vec::new();
    for section in sections {
        match figures.iter_mut().find(|(metric, _)| *metric == section.metric) {
            Some((_, points)) => points.push(section),
            None => figures.push((section.metric, vec![section])),
        }
    }
    figures
}

/// The tables of a load curve: one a figure with a row a runtime and a column a load, and the ratio to the base at the
/// highest; the moves in one.
#[must_use]
pub fn curve_tables(sections: &[Section]) -> Vec<(String, Table)> {
    let (moves, others): (Vec<_>, Vec<_>) = figures(sections).into_iter().partition(|(metric, _)| is_moves(metric));
    let mut tables: Vec<(String, Table)> = others
        .iter()
        .map(|(_, points)| (title(points), table(points)))
        .collect();
    tables.extend(table_of_moves(&moves));
    tables
}

/// Those of [`curve_tables`] whose figures are not plotted, because less of them is not better.
pub(super) fn tables_beside_plots(sections: &[Section]) -> Vec<(String, Table)> {
    let beside: Vec<Section> = sections
        .iter()
        .filter(|section| !section.is_compared)
        .cloned()
        .collect();
    curve_tables(&beside)
}

fn is_moves(metric: &str) -> bool {
    Distance::ALL
        .iter()
        .any(|distance| Metric::Moves(*distance).name() == metric)
}

/// The heading without the load.
pub(super) fn title(points: &[&Section]) -> String {
    let title = points.first().map_or("", |section| section.title.as_str());
    title
        .split_once(", ")
        .map_or_else(|| title.to_owned(), |(_, rest)| format!("load: {rest}"))
}

/// An empty table with a column a load, and `last`.
fn empty_table(points: &[&Section], first: &[&str], last: Option<String>) -> Table {
    let loads = points
        .iter()
        .map(|section| format!("{} %", section.load_percent.unwrap_or(0)));
    let header: Vec<String> = first
        .iter()
        .map(|&name| name.to_owned())
        .chain(loads)
        .chain(last)
        .collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    Table::new(&header, first.len())
}

/// The rows of the runtimes, each with its points in order of load.
fn runtimes<'a>(points: &'a [&'a Section]) -> impl Iterator<Item = Vec<&'a Summary>> {
    let count = points.first().map_or(0, |section| section.rows.len());
    (0..count).map(|index| points.iter().filter_map(|section| section.rows.get(index)).collect())
}

fn cells(rows: &[&Summary]) -> impl Iterator<Item = String> {
    rows.iter()
        .map(|row| median(row).map_or_else(|| "-".to_owned(), figure))
}

fn table(points: &[&Section]) -> Table {
    let base = points.last().and_then(|section| section.bases().into_iter().next());
    let highest = points.last().and_then(|section| section.load_percent).unwrap_or(0);
    let last = base.as_ref().map(|base| format!("ratio to {base} at {highest} %"));
    let mut table = empty_table(points, &["runtime"], last);
    for rows in runtimes(points) {
        let Some(last) = rows.last() else { continue };
        let remark = rows.iter().find_map(|row| row.remark.clone());
        if let Some(remark) = &remark
            && rows.iter().all(|row| median(row).is_none())
        {
            table.push_remark(vec![last.label()], remark.clone());
            continue;
        }
        let ratio = base.as_ref().map(|base| {
            let ratio = last.ratios.get(base).filter(|_| last.remark.is_none());
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
        });
        table.push([last.label()].into_iter().chain(cells(&rows)).chain(ratio).collect());
        // One load that failed leaves the others: its cell is empty, and the reason below.
        if let Some(remark) = remark {
            table.push_remark(vec![String::new()], remark);
        }
    }
    table
}

/// The moves of who counts them, a row a distance; nothing if nobody does.
fn table_of_moves(moves: &[(&str, Vec<&Section>)]) -> Option<(String, Table)> {
    let (_, nearest) = moves.first()?;
    let title = title(nearest);
    let (title, _) = title.split_once("; ")?;
    let mut table = empty_table(nearest, &["runtime", "from a worker"], None);
    let mut counts = false;
    for index in 0..nearest.first()?.rows.len() {
        for ((_, points), distance) in moves.iter().zip(Distance::ALL) {
            let Some(rows) = runtimes(points).nth(index) else {
                continue;
            };
            if rows.iter().all(|row| median(row).is_none()) {
                continue;
            }
            let names = [rows[0].label(), distance.name().to_owned()];
            table.push(names.into_iter().chain(cells(&rows)).collect());
            counts = true;
        }
    }
    counts.then(|| (format!("{title}; moves of tasks a second, by how far"), table))
}

/// The median of a row, all of whose runs were right: as in the other tables a failure stands in place of the figure.
fn median(row: &Summary) -> Option<f64> {
    match (&row.remark, row.figure) {
        (None, Some(spread)) => Some(spread.median),
        _ => None,
    }
}

/// The plot of one figure: load to the right, the figure upwards, each step ten times the one below.
pub(super) fn plot(points: &[&Section]) -> String {
    let medians = || {
        points
            .iter()
            .flat_map(|section| &section.rows)
            .filter_map(median)
            .filter(|median| *median > 0.0)
    };
    let lowest = medians().fold(f64::INFINITY, f64::min).log10().floor();
    let highest = medians().fold(0.0, f64::max).log10().ceil();
    if !lowest.is_finite() || !highest.is_finite() {
        return "<p class=\"soft\">No figures.</p>\n".to_owned();
    }
    let axes = Axes {
        lowest,
        highest: highest.max(lowest + 1.0),
    };
    let told = escape(&title(points));
    let mut out = format!(
        "<svg class=\"curve\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{told}\"><title>{told}</title>\n"
    );
    axes.draw(&mut out, points);
    let runtimes = points.first().map_or(0, |section| section.rows.len());
    let mut key = String::from("<ul class=\"key\">");
    for index in 0..runtimes {
        let rows = points
            .iter()
            .filter_map(|section| Some((section.load_percent?, section.rows.get(index)?)));
        let Some((_, first)) = rows.clone().next() else {
            continue;
        };
        let class = format!("{}{}", class(first.spec.runtime.name.family()), stroke(points, index));
        let places: Vec<(f64, f64)> = rows
            .filter_map(|(percent, row)| Some((axes.x(percent), axes.y(median(row)?))))
            .collect();
        let line: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(out, "<g class=\"{class}\"><polyline points=\"{}\"/>", line.join(" "));
        for (x, y) in places {
            let _ = write!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"/>");
        }
        out.push_str("</g>\n");
        let _ = write!(
            key,
            "<li class=\"{class}\"><svg viewBox=\"0 0 28 10\" aria-hidden=\"true\"><line x2=\"28\" y1=\"5\" y2=\"5\"/></svg>{}</li>",
            escape(&first.label())
        );
    }
    out.push_str("</svg>\n");
    out + &key + "</ul>\n"
}

/// A class that tells a line from those of the same colour before it: contenders of one family.
fn stroke(points: &[&Section], index: usize) -> &'static str {
    let rows = points.first().map_or(&[][..], |section| &section.rows);
    let family = |row: &Summary| row.spec.runtime.name.family();
    let before = rows[..index].iter().filter(|row| family(row) == family(&rows[index]));
    ["", " dashed", " dotted", " dash-dotted"][before.count() % 4]
}

/// From loads and figures to coordinates; decades of nanoseconds upwards.
struct Axes {
    lowest: f64,
    highest: f64,
}

impl Axes {
    /// Room for `100 ms`, which is 42 wide, and what parts it from the line.
    const LEFT: f64 = 50.0;
    /// Room for half of `100`.
    const RIGHT: f64 = WIDTH - 12.0;
    const TOP: f64 = 10.0;
    const BOTTOM: f64 = HEIGHT - 24.0;

    fn x(&self, percent: u32) -> f64 {
        Self::LEFT + f64::from(percent) / 100.0 * (Self::RIGHT - Self::LEFT)
    }

    fn y(&self, figure: f64) -> f64 {
        let share = (figure.max(f64::MIN_POSITIVE).log10() - self.lowest) / (self.highest - self.lowest);
        Self::BOTTOM - share.clamp(0.0, 1.0) * (Self::BOTTOM - Self::TOP)
    }

    fn draw(&self, out: &mut String, points: &[&Section]) {
        let mut decade = self.lowest;
        while decade <= self.highest {
            let y = self.y(10f64.powf(decade));
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                Self::LEFT,
                Self::RIGHT,
                Self::LEFT - 5.0,
                y + 4.0,
                time(10f64.powf(decade))
            );
            decade += 1.0;
        }
        for percent in points.iter().filter_map(|section| section.load_percent) {
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{percent}</text>",
                self.x(percent),
                HEIGHT - 8.0
            );
        }
    }
}

/// A power of ten of nanoseconds, for people.
fn time(nanos: f64) -> String {
    match nanos {
        nanos if nanos >= 1e9 => format!("{} s", nanos / 1e9),
        nanos if nanos >= 1e6 => format!("{} ms", nanos / 1e6),
        nanos if nanos >= 1e3 => format!("{} us", nanos / 1e3),
        nanos => format!("{nanos} ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Counters, Measured, Outcome};
    use crate::report::Row;
    use crate::spec::{Body, ChannelKind, Contender, RuntimeName, Spec, Workload};

    fn sections() -> Vec<Section> {
        [(10, 200_000, 210_000), (100, 900_000, 4_000_000)]
            .into_iter()
            .flat_map(|(percent, p50, p99)| {
                let workload = Workload::Load {
                    percent,
                    work_us: 200,
                    millis: 1,
                };
                let row = |runtime: RuntimeName, factor: u64| Row {
                    spec: Spec {
                        workload,
                        body: Body::Tasks,
                        runtime: runtime.into(),
                        channel: ChannelKind::None,
                        workers: 2,
                        progress: false,
                    },
                    outcomes: vec![Outcome::Measured(Measured {
                        ops: 600,
                        wall_ns: 2_000_000_000 * factor,
                        counters: counters(runtime, p50 * factor, p99 * factor),
                        ..Measured::default()
                    })],
                };
                let rows = [row(RuntimeName::Quadrille, 1), row(RuntimeName::Tokio, 2)];
                let metrics = [Metric::Throughput, Metric::P50, Metric::P99]
                    .into_iter()
                    .chain(Distance::ALL.map(Metric::Moves));
                metrics
                    .map(|metric| Section::new(&workload, Body::Tasks, &rows, metric))
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    /// Latencies, and quadrille's moves: for each request one by waking and two by stealing behind the last-level
    /// cache.
    fn counters(runtime: RuntimeName, p50: u64, p99: u64) -> Counters {
        let latencies = [("p50_ns", p50), ("p99_ns", p99)];
        let moves = [
            ("moves_wake_llc", 600),
            ("moves_steal_llc", 1200),
            ("moves_steal_node", 0),
        ];
        let counts = moves.iter().filter(|_| runtime == RuntimeName::Quadrille);
        let all = latencies.iter().chain(counts);
        all.map(|&(name, count)| (name.to_owned(), count)).collect()
    }

    #[test]
    fn a_table_has_a_row_a_runtime_and_a_column_a_load() {
        let tables = curve_tables(&sections());
        assert_eq!(tables.len(), 4);
        let (title, table) = &tables[2];
        assert_eq!(
            title,
            "load: 200 us of work a request; from when it was due: what 1 in 100 exceeds, in ns"
        );
        let text = table.to_string();
        let line = |name| {
            text.lines()
                .find(|line| line.trim_start().starts_with(name))
                .unwrap()
                .split_whitespace()
        };
        assert_eq!(
            line("quadrille").collect::<Vec<_>>(),
            ["quadrille", "210,000", "4,000,000", "0.50"]
        );
        assert!(
            text.contains("10 %") && text.contains("ratio to tokio at 100 %"),
            "{text}"
        );
    }

    #[test]
    fn throughput_and_moves_have_no_ratios() {
        let sections = sections();
        let tables = tables_beside_plots(&sections);
        let [(throughput, requests), (moves, by_distance)] = &tables[..] else {
            panic!("{tables:?}")
        };
        assert_eq!(throughput, "load: 200 us of work a request; requests a second");
        let expected = "  runtime    10 %  100 %
  quadrille   300    300
  tokio       150    150
";
        assert_eq!(requests.to_string(), expected);
        assert_eq!(
            moves,
            "load: 200 us of work a request; moves of tasks a second, by how far"
        );
        let text = by_distance.to_string();
        let expected = "  runtime    from a worker   10 %  100 %
  quadrille  in the LLC       900    900
  quadrille  in the node    0.000  0.000
";
        assert_eq!(text, expected);
        assert!(
            sections
                .iter()
                .all(|section| section.is_compared != section.rows[0].ratios.is_empty())
        );
    }

    #[test]
    fn a_load_that_failed_leaves_the_others() {
        let mut sections = sections();
        let failed = &mut sections[0].rows[1];
        (failed.figure, failed.remark) = (None, Some("FAILED: lost".to_owned()));
        let text = curve_tables(&sections)[0].1.to_string();
        let expected = "  runtime    10 %  100 %
  quadrille   300    300
  tokio         -    150
             FAILED: lost
";
        assert_eq!(text, expected);
        for section in &mut sections {
            let row = &mut section.rows[1];
            (row.figure, row.remark) = (None, Some("not run: absent".to_owned()));
        }
        let text = curve_tables(&sections)[0].1.to_string();
        assert!(text.ends_with("  tokio      not run: absent\n"), "{text}");
    }

    #[test]
    fn a_load_that_failed_in_a_single_run_has_no_figure_either() {
        let mut sections = sections();
        for section in &mut sections[7..] {
            let row = &mut section.rows[0];
            row.samples.push(None);
            row.remark = Some("FAILED: lost".to_owned());
        }
        let (_, table) = &curve_tables(&sections)[1];
        let expected = "  runtime       10 %     100 %  ratio to tokio at 100 %
  quadrille  200,000         -                        -
             FAILED: lost
  tokio      400,000 1,800,000                     1.00
";
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&table.to_string()), words(expected));
        let plot = plot(&figures(&sections)[1].1);
        assert_eq!(plot.matches("<circle").count(), 3, "{plot}");
    }

    #[test]
    fn who_counts_no_moves_has_no_table_of_them() {
        let mut sections = sections();
        for section in &mut sections {
            section.rows.remove(0);
        }
        let titles: Vec<String> = curve_tables(&sections).into_iter().map(|(title, _)| title).collect();
        assert_eq!(titles.len(), 3, "{titles:?}");
    }

    #[test]
    fn a_plot_has_a_line_a_runtime_and_decades() {
        let sections = sections();
        let plot = plot(&figures(&sections)[1].1);
        assert_eq!(plot.matches("<polyline").count(), 2);
        assert_eq!(plot.matches("<circle").count(), 4);
        assert!(plot.contains(">100 us<") && plot.contains(">10 ms<"), "{plot}");
        assert_eq!(plot.matches("<li class").count(), 2);
        assert!(
            !plot.contains("dashed"),
            "a family with one line has a solid one:\n{plot}"
        );
    }

    #[test]
    fn lines_of_one_colour_have_different_strokes() {
        let mut sections = sections();
        for section in &mut sections {
            let first = &section.rows[0];
            let others = ["groups=off", "groups=on"].map(|policy| {
                let contender: Contender = format!("quadrille:{policy}").parse().unwrap();
                let mut row = first.clone();
                row.runtime = contender.to_string();
                row.spec.runtime = contender;
                row
            });
            section.rows.extend(others);
        }
        let plot = plot(&figures(&sections)[1].1);
        for (class, name) in [
            ("quadrille", "quadrille"),
            ("tokio", "tokio"),
            ("quadrille dashed", "quadrille:groups=off"),
            ("quadrille dotted", "quadrille:groups=on"),
        ] {
            assert!(plot.contains(&format!("<g class=\"{class}\">")), "{class}:\n{plot}");
            let key = plot
                .split("<li ")
                .find(|entry| entry.contains(&format!("</svg>{name}</li>")));
            assert!(
                key.is_some_and(|entry| entry.starts_with(&format!("class=\"{class}\""))),
                "{plot}"
            );
        }
    }
}
