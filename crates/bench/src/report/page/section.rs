//! The part of the page that one workload has: bars or curves, and, folded away, figures, counters and how to repeat a
//! run.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{escape, name};
use crate::child::WITH_MIMALLOC;
use crate::report::{Section, Summary, cell, chart, curve, ratio, switches};
use crate::table::{Table, figure, thousands};

/// One section: bars, then figures, counters and how to repeat a row, folded away.
pub(super) fn workload(out: &mut String, index: usize, section: &Section) {
    let unit = match section.metric {
        bytes if bytes.ends_with("bytes") => "B",
        "wake_ups" => "times",
        _ => "ns",
    };
    let _ = writeln!(
        out,
        "<section id=\"s{index}\">\n<h2>{}</h2>\n<p class=\"soft\">{} runs each, interleaved. A bar ends at the median; the line spans all \
         runs, a tick each, whose title is its figure; a slanted gap cuts off what is beyond; dashed: the median of the base.</p>",
        escape(&section.title),
        section.repetitions
    );
    note(out, section);
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

fn note(out: &mut String, section: &Section) {
    if let Some(note) = section.note() {
        let _ = writeln!(out, "<p class=\"soft\">{}</p>", escape(&note));
    }
}

/// The load curves, a plot a figure; then the points one by one, folded away.
pub(super) fn curves(out: &mut String, first: usize, sections: &[Section]) {
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
        note(out, section);
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
                cells.extend(bases.iter().map(|base| ratio(row, base) + &extremes(row, base)));
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

/// Between which ratios that of the repetitions is the median, small behind it.
fn extremes(row: &Summary, base: &str) -> String {
    row.ratio_spreads.get(base).map_or_else(String::new, |ratios| {
        format!(" <small>{:.2} to {:.2}</small>", ratios.spread.min, ratios.spread.max)
    })
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
        if let Ok(spec) = serde_json::to_string(&row.spec) {
            let program = if row.spec.runtime.name.uses_mimalloc() {
                WITH_MIMALLOC
            } else {
                "quadrille"
            };
            let _ = writeln!(out, "<pre>{program} run-one '{}'</pre>", escape(&spec));
        }
    }
    out.push_str("</details>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
