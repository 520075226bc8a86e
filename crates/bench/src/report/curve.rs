//! Load curves: one figure at several loads, as a table with a column for each and as a plot.

use std::fmt::Write as _;

use super::chart::class;
use super::page::escape;
use super::{Section, Summary};
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

/// A table for each figure of a load curve: a row a runtime, a column a load, and the ratio to the base at the highest.
#[must_use]
pub fn curve_tables(sections: &[Section]) -> Vec<(String, Table)> {
    figures(sections)
        .into_iter()
        .map(|(_, points)| (title(&points), table(&points)))
        .collect()
}

/// The heading without the load.
pub(super) fn title(points: &[&Section]) -> String {
    let title = points.first().map_or("", |section| section.title.as_str());
    title
        .split_once(", ")
        .map_or_else(|| title.to_owned(), |(_, rest)| format!("load: {rest}"))
}

fn table(points: &[&Section]) -> Table {
    let loads = points
        .iter()
        .map(|section| format!("{} %", section.load_percent.unwrap_or(0)));
    let base = points.first().and_then(|section| section.bases().first().copied());
    let ratio_at = |percent: u32| format!("ratio to {} at {percent} %", base.unwrap_or("-"));
    let highest = points.last().and_then(|section| section.load_percent).unwrap_or(0);
    let header: Vec<String> = ["runtime".to_owned()]
        .into_iter()
        .chain(loads)
        .chain([ratio_at(highest)])
        .collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = Table::new(&header, 1);
    let runtimes = points.first().map_or(0, |section| section.rows.len());
    for index in 0..runtimes {
        let rows: Vec<&Summary> = points.iter().filter_map(|section| section.rows.get(index)).collect();
        let Some(last) = rows.last() else { continue };
        if let Some(remark) = rows.iter().find_map(|row| row.remark.clone()) {
            table.push_remark(vec![last.label()], remark);
            continue;
        }
        let cells = rows
            .iter()
            .map(|row| median(row).map_or_else(|| "-".to_owned(), figure));
        let ratio = base.and_then(|base| last.ratios.get(base));
        let ratio = ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        table.push([last.label()].into_iter().chain(cells).chain([ratio]).collect());
    }
    table
}

fn median(row: &Summary) -> Option<f64> {
    row.figure.map(|spread| spread.median)
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
        let class = class(first.spec.runtime.family());
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
            "<li class=\"{class}\"><svg viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect width=\"10\" height=\"10\"/></svg>{}</li>",
            escape(&first.label())
        );
    }
    out.push_str("</svg>\n");
    out + &key + "</ul>\n"
}

/// From loads and figures to coordinates; decades of nanoseconds upwards.
struct Axes {
    lowest: f64,
    highest: f64,
}

impl Axes {
    const LEFT: f64 = 44.0;
    const RIGHT: f64 = WIDTH - 8.0;
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
    use crate::spec::{Body, ChannelKind, Metric, RuntimeName, Spec, Workload};

    fn sections() -> Vec<Section> {
        [(10, 200_000, 210_000), (100, 900_000, 4_000_000)]
            .into_iter()
            .flat_map(|(percent, p50, p99)| {
                let workload = Workload::Load {
                    percent,
                    work_us: 200,
                    millis: 1,
                };
                let row = |runtime, factor: u64| Row {
                    spec: Spec {
                        workload,
                        body: Body::Tasks,
                        runtime,
                        channel: ChannelKind::None,
                        workers: 2,
                        progress: false,
                    },
                    outcomes: vec![Outcome::Measured(Measured {
                        ops: 1,
                        counters: Counters::from([
                            ("p50_ns".to_owned(), p50 * factor),
                            ("p99_ns".to_owned(), p99 * factor),
                        ]),
                        ..Measured::default()
                    })],
                };
                let rows = [row(RuntimeName::Quadrille, 1), row(RuntimeName::Tokio, 2)];
                [Metric::P50, Metric::P99].map(|metric| Section::new(&workload, Body::Tasks, &rows, metric))
            })
            .collect()
    }

    #[test]
    fn a_table_has_a_row_a_runtime_and_a_column_a_load() {
        let tables = curve_tables(&sections());
        assert_eq!(tables.len(), 2);
        let (title, table) = &tables[1];
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
    fn a_plot_has_a_line_a_runtime_and_decades() {
        let sections = sections();
        let plot = plot(&figures(&sections)[0].1);
        assert_eq!(plot.matches("<polyline").count(), 2);
        assert_eq!(plot.matches("<circle").count(), 4);
        assert!(plot.contains(">100 us<") && plot.contains(">10 ms<"), "{plot}");
        assert_eq!(plot.matches("<li class").count(), 2);
    }
}
