//! A row as a plot: published curves dashed with hollow marks, simulated ones solid.
//!
//! 1. The scale of the values covers every curve and "no difference"; it is logarithmic if ratios span more than a
//!    factor of eight.
//! 2. Points lie along the axis by their numbers (or the logarithms of these), cases at equal distances.
//! 3. Everything is written from back to front: grid, frame, curves, legend.

use std::fmt::{self, Write as _};

use super::Row;
use super::curve::{Axis, Curve, Unit};

const WIDTH: f64 = 720.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 44.0;
const PLOT_HEIGHT: f64 = 280.0;
const AXIS_HEIGHT: f64 = 48.0;
const LEGEND_LINE: f64 = 20.0;
const STYLE: &str = "text{font:12px sans-serif;fill:#222}.title{font-size:14px;font-weight:bold}.x{text-anchor:middle}\
.y{text-anchor:end}.grid{stroke:#ddd}.none{stroke:#888;stroke-dasharray:2 3}.frame{fill:none;stroke:#555}\
.curve{fill:none;stroke-width:2}.published{stroke-dasharray:7 4}";

/// Colours that people with any colour vision tell apart (Okabe and Ito).
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
];

/// Draws the row as an SVG document: the simulated curves beside the published ones, with a legend.
#[must_use]
pub fn svg(row: &Row) -> String {
    let mut out = String::new();
    // A `String` takes whatever is written to it.
    let _ = write_document(&mut out, row);
    out
}

struct Line {
    curve: Curve,
    is_published: bool,
    colour: &'static str,
}

/// A simulated curve that is named like a published one has its colour.
fn lines(row: &Row) -> Vec<Line> {
    let published = row.figure.published.iter().map(|published| (published.curve(), true));
    let simulated = row.curves.iter().map(|curve| (curve.clone(), false));
    let mut names: Vec<String> = Vec::new();
    let mut colour = |name: &str| {
        let known = names.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        COLOURS[index % COLOURS.len()]
    };
    published
        .chain(simulated)
        .map(|(curve, is_published)| Line {
            colour: colour(&curve.name),
            curve,
            is_published,
        })
        .collect()
}

fn write_document(out: &mut String, row: &Row) -> fmt::Result {
    let lines = lines(row);
    let scale = Scale::covering(&lines, row.figure.unit);
    let legend_top = TOP + PLOT_HEIGHT + AXIS_HEIGHT;
    let legend_lines = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let height = legend_top + LEGEND_LINE * f64::from(legend_lines) + 8.0;
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">"#
    )?;
    let title = format!("Row {}: {}", row.figure.row, row.figure.title);
    writeln!(out, "<title>{}</title>\n<style>{STYLE}</style>", Escaped(&title))?;
    writeln!(out, r##"<path fill="#fff" d="M0 0h{WIDTH}v{height}H0z"/>"##)?;
    writeln!(
        out,
        r#"<text class="title" x="{LEFT}" y="24">{}</text>"#,
        Escaped(&title)
    )?;
    write_grid(out, row, &scale)?;
    for line in &lines {
        write_curve(out, line, &row.figure.axis, &scale)?;
    }
    for (index, line) in (0_u16..).zip(&lines) {
        write_legend(out, line, legend_top + LEGEND_LINE * f64::from(index))?;
    }
    writeln!(out, "</svg>")
}

/// From values to heights.
struct Scale {
    unit: Unit,
    log: bool,
    low: f64,
    high: f64,
}

impl Scale {
    fn covering(lines: &[Line], unit: Unit) -> Self {
        let values = lines
            .iter()
            .flat_map(|line| line.curve.values.iter().flatten().copied());
        let finite = values.filter(|value| value.is_finite());
        let (low, high) = finite.fold((unit.neutral(), unit.neutral()), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let log = unit == Unit::Ratio && low > 0.0 && high / low > 8.0;
        if log {
            return Self {
                unit,
                log,
                low: low / 1.3,
                high: high * 1.3,
            };
        }
        let margin = ((high - low) * 0.08).max(0.02);
        // Ratios are drawn from zero, so that heights can be compared.
        let low = if unit == Unit::Ratio { 0.0 } else { low - margin };
        Self {
            unit,
            log,
            low,
            high: high + margin,
        }
    }

    fn y(&self, value: f64) -> f64 {
        let share = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        TOP + PLOT_HEIGHT * (1.0 - share.clamp(0.0, 1.0))
    }

    /// Round values, about six of them.
    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let decades = [
                0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0,
            ];
            return decades
                .into_iter()
                .filter(|tick| (self.low..=self.high).contains(tick))
                .collect();
        }
        let rough = (self.high - self.low) / 6.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        let first = (self.low / step).ceil();
        (0_u16..64)
            .map(|index| (first + f64::from(index)) * step)
            .take_while(|tick| *tick <= self.high)
            .collect()
    }

    fn tick_text(&self, tick: f64) -> String {
        match self.unit {
            Unit::Ratio => format!("{}", (tick * 1000.0).round() / 1000.0),
            // Adding zero turns a negative zero into a positive one.
            Unit::Percent => format!("{} %", (tick * 10.0).round() / 10.0 + 0.0),
        }
    }
}

/// Where point `index` lies from left to right.
fn x(axis: &Axis, index: usize) -> f64 {
    const INSET: f64 = 28.0;
    let width = WIDTH - LEFT - RIGHT - 2.0 * INSET;
    let place = |index: usize| match axis {
        Axis::Numbers { log: true, .. } => axis.position(index).ln(),
        Axis::Numbers { .. } | Axis::Cases { .. } => axis.position(index),
    };
    let (first, last) = (place(0), place(axis.len() - 1));
    let share = if last > first {
        (place(index) - first) / (last - first)
    } else {
        0.5
    };
    LEFT + INSET + width * share
}

fn write_grid(out: &mut String, row: &Row, scale: &Scale) -> fmt::Result {
    let axis = &row.figure.axis;
    let right = WIDTH - RIGHT;
    for tick in scale.ticks() {
        let y = scale.y(tick);
        writeln!(out, r#"<path class="grid" d="M{LEFT} {y:.1}H{right}"/>"#)?;
        let text = scale.tick_text(tick);
        writeln!(
            out,
            r#"<text class="y" x="{}" y="{:.1}">{text}</text>"#,
            LEFT - 6.0,
            y + 4.0
        )?;
    }
    let neutral = scale.y(scale.unit.neutral());
    writeln!(out, r#"<path class="none" d="M{LEFT} {neutral:.1}H{right}"/>"#)?;
    let bottom = TOP + PLOT_HEIGHT;
    for index in 0..axis.len() {
        let x = x(axis, index);
        writeln!(out, r#"<path class="frame" d="M{x:.1} {bottom}v5"/>"#)?;
        let label = axis.label(index);
        writeln!(
            out,
            r#"<text class="x" x="{x:.1}" y="{}">{}</text>"#,
            bottom + 18.0,
            Escaped(&label)
        )?;
    }
    let middle = f64::midpoint(LEFT, right);
    writeln!(
        out,
        r#"<text class="x" x="{middle}" y="{}">{}</text>"#,
        bottom + 36.0,
        Escaped(axis.name())
    )?;
    writeln!(
        out,
        r#"<path class="frame" d="M{LEFT} {TOP}H{right}V{bottom}H{LEFT}z"/>"#
    )
}

fn write_curve(out: &mut String, line: &Line, axis: &Axis, scale: &Scale) -> fmt::Result {
    let points: Vec<(f64, f64)> = (0..axis.len())
        .filter_map(|index| line.curve.at(index).map(|value| (x(axis, index), scale.y(value))))
        .collect();
    let path: String = points
        .iter()
        .enumerate()
        .map(|(index, (x, y))| format!("{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' }))
        .collect();
    if !path.is_empty() {
        writeln!(
            out,
            r#"<path class="curve{}" stroke="{}" d="{path}"/>"#,
            published_class(line),
            line.colour
        )?;
    }
    for (x, y) in points {
        write_mark(out, line, x, y)?;
    }
    Ok(())
}

fn published_class(line: &Line) -> &'static str {
    if line.is_published { " published" } else { "" }
}

fn write_mark(out: &mut String, line: &Line, x: f64, y: f64) -> fmt::Result {
    let fill = if line.is_published { "#fff" } else { line.colour };
    writeln!(
        out,
        r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" fill="{fill}" stroke="{}" stroke-width="2"/>"#,
        line.colour
    )
}

fn write_legend(out: &mut String, line: &Line, y: f64) -> fmt::Result {
    let from = LEFT + 8.0;
    let middle = y + 8.0;
    writeln!(
        out,
        r#"<path class="curve{}" stroke="{}" d="M{from} {middle}h36"/>"#,
        published_class(line),
        line.colour
    )?;
    write_mark(out, line, from + 18.0, middle)?;
    let kind = if line.is_published { "published" } else { "simulated" };
    writeln!(
        out,
        r#"<text x="{}" y="{}">{kind}: {}</text>"#,
        from + 46.0,
        y + 12.0,
        Escaped(&line.curve.name)
    )
}

/// Text between tags: markup characters as entities.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::published;
    use crate::reproduce::tests::row;

    #[test]
    fn both_kinds_of_curve_are_drawn() {
        let picture = svg(&row(
            "A",
            vec![Curve::new("shipped <model>", [1.0, 1.0, 1.1, 1.2, 1.5])],
        ));
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
        assert!(picture.contains("published: hackbench time"));
        assert!(picture.contains("simulated: shipped &lt;model&gt;"));
        // Two curves of five points, and a mark for each in the legend.
        assert_eq!(picture.matches("<circle").count(), 2 * 5 + 2);
        assert_eq!(picture.matches(r#"class="curve published""#).count(), 2);
    }

    #[test]
    fn gaps_are_left_out_and_all_rows_can_be_drawn() {
        let gap = Curve::with_gaps("gain", vec![None, Some(1.0), None, Some(2.0)]);
        let picture = svg(&row("D", vec![gap]));
        assert_eq!(picture.matches("<circle").count(), 4 + 2 + 2);
        for figure in published::figures() {
            let picture = svg(&row(figure.row, Vec::new()));
            assert!(!picture.contains("NaN") && !picture.contains("inf"), "{}", figure.row);
        }
    }

    #[test]
    fn scales_cover_their_curves() {
        let line = |values: [f64; 3]| Line {
            curve: Curve::new("", values),
            is_published: false,
            colour: "",
        };
        let wide = Scale::covering(&[line([0.5, 1.0, 32.0])], Unit::Ratio);
        assert!(wide.log);
        assert_eq!(wide.ticks(), [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]);
        let narrow = Scale::covering(&[line([1.0, 1.2, 1.5])], Unit::Ratio);
        assert!(!narrow.log && narrow.low == 0.0 && narrow.high > 1.5);
        assert_eq!(narrow.ticks(), [0.0, 0.5, 1.0, 1.5]);
        let percent = Scale::covering(&[line([-5.0, 0.0, 35.0])], Unit::Percent);
        assert!(percent.low < -5.0 && percent.high > 35.0);
        assert_eq!(percent.ticks(), [0.0, 10.0, 20.0, 30.0]);
        assert_eq!(percent.tick_text(-0.0), "0 %");
        assert!(percent.y(35.0) < percent.y(0.0) && percent.y(0.0) < percent.y(-5.0));
    }
}
