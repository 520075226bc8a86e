//! `quadrille sim report`: simulated curves beside published ones, as tables, plots and JSON.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use quadrille_sim::reproduce::expected::Expected;
use quadrille_sim::reproduce::published::Figure;
use quadrille_sim::reproduce::rows::{Effort, Lab};
use quadrille_sim::reproduce::table::{Overview, Table};
use quadrille_sim::reproduce::{Row, curve::Curve, published, svg::svg};
use serde_json::{Value, json};

use super::Error;
use super::out_file::{OutFile, write_around};
use crate::cli::SimReportArgs;

/// Simulates the rows asked for, prints each as soon as it is there, and writes plots and JSON.
///
/// A missed claim is a result, not a failure. With `--check` it is one, if the claim is known to be met, and so is the
/// reverse.
///
/// # Errors
/// [`Error::Usage`] if a row cannot be simulated; that or [`Error::Output`] if a file cannot be written;
/// [`Error::Failed`] if `--check` finds a row that differs.
pub fn run(args: &SimReportArgs, out: &mut dyn Write) -> Result<(), Error> {
    let figures = if args.rows.is_empty() {
        published::figures()
    } else {
        args.rows.clone()
    };
    // First of all: it is made for plots, and the report may go there, too.
    if let Some(folder) = &args.svg {
        fs::create_dir_all(folder)
            .map_err(|error| Error::Usage(format!("cannot write {}: {error}", folder.display())))?;
        for figure in &figures {
            let plot = plot(folder, figure);
            let was_there = plot.exists();
            OutFile::open(&plot)?;
            if !was_there {
                // Else an empty one would be left of a row that is not reached.
                let _ = fs::remove_file(&plot);
            }
        }
    }
    let mut json = args.json.as_deref().map(OutFile::open).transpose()?;
    let lab = Lab {
        cost: args.cost.clone().unwrap_or_default(),
        effort: if args.quick { Effort::Quick } else { Effort::Full },
    };
    // Where nobody reads any more what is printed, files are still written.
    let mut unread = writeln!(out, "costs: {}, calibrated on row A alone\n", lab.cost).err();
    let bar = progress_bar(figures.len() as u64);
    let mut rows = Vec::new();
    for figure in figures {
        bar.set_message(format!("row {}", figure.row));
        if json.is_none() && args.svg.is_none() && unread.is_some() {
            break;
        }
        let row = lab.simulate(figure).map_err(|error| Error::Usage(error.to_string()))?;
        if unread.is_none() {
            unread = bar
                .suspend(|| writeln!(out, "{}", Table(&row)).and_then(|()| out.flush()))
                .err();
        }
        bar.inc(1);
        if let Some(folder) = &args.svg {
            OutFile::open(&plot(folder, figure))?.write(&svg(&row))?;
        }
        rows.push(row);
    }
    bar.finish_and_clear();
    let json = json
        .iter_mut()
        .map(|file| (file, format!("{:#}\n", document(&lab, &rows))));
    write_around(json, || match unread {
        Some(error) => Err(error.into()),
        None => Ok(write!(out, "{}", Overview(&rows)).and_then(|()| out.flush())?),
    })?;
    if args.check { check(&rows, out) } else { Ok(()) }
}

/// The file of a row's plot.
fn plot(folder: &Path, figure: &Figure) -> PathBuf {
    folder.join(format!("{}.svg", figure.file_stem()))
}

/// Holds rows against what is known of them, and prints in what each differs that does.
fn check(rows: &[Row], out: &mut dyn Write) -> Result<(), Error> {
    let expected = Expected::recorded().map_err(|error| Error::Usage(format!("expected.txt: {error}")))?;
    let differences: Vec<String> = rows.iter().filter_map(|row| expected.differs(row)).collect();
    if differences.is_empty() {
        writeln!(
            out,
            "  checked: every claim is met or missed as expected, by the same values"
        )?;
        return Ok(());
    }
    for difference in &differences {
        writeln!(out, "  DIFFERS  {difference}")?;
    }
    Err(Error::Failed)
}

/// A bar on stderr; invisible if that is not a terminal.
fn progress_bar(rows: u64) -> ProgressBar {
    let bar = ProgressBar::new(rows);
    match ProgressStyle::with_template("{bar:30} {pos}/{len} rows: {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// The report as JSON: costs, and every row with curves, claims and verdicts.
fn document(lab: &Lab, rows: &[Row]) -> Value {
    let rows: Vec<Value> = rows.iter().map(row_value).collect();
    json!({
        "costs": lab.cost.to_string(),
        "quick": lab.effort == Effort::Quick,
        "rows": rows,
    })
}

fn row_value(row: &Row) -> Value {
    let figure = row.figure;
    let points: Vec<String> = (0..figure.axis.len()).map(|index| figure.axis.label(index)).collect();
    let published: Vec<Value> = figure
        .published
        .iter()
        .map(|published| curve_value(&published.curve()))
        .collect();
    let simulated: Vec<Value> = row.curves.iter().map(curve_value).collect();
    let claims = row.findings().into_iter().map(|finding| {
        json!({
            "claim": finding.asked.text,
            "of": finding.asked.of,
            "met": finding.verdict.met,
            "because": finding.verdict.because,
        })
    });
    json!({
        "row": figure.row,
        "title": figure.title,
        "experiment": figure.experiment,
        "reading": figure.reading,
        "sources": figure.sources,
        "axis": figure.axis.name(),
        "points": points,
        "published": published,
        "simulated": simulated,
        "conditions": row.conditions,
        "claims": claims.collect::<Vec<_>>(),
        "standing": row.standing().name(),
        "note": row.remark,
    })
}

fn curve_value(curve: &Curve) -> Value {
    json!({ "name": curve.name, "values": curve.values })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command, SimCommand};
    use crate::commands::unread::{FirstLine, assert_unread};

    #[test]
    fn the_document_has_curves_and_verdicts() {
        let row = Row {
            figure: published::figure("J").expect("row J"),
            curves: vec![Curve::with_gaps("time", vec![Some(1.0), Some(0.8), None])],
            conditions: vec!["a machine".to_owned()],
            remark: String::new(),
        };
        let document = document(&Lab::default(), &[row]);
        assert_eq!(document["costs"], "default");
        let row = &document["rows"][0];
        assert_eq!(row["row"], "J");
        assert_eq!(row["points"][1], "1 in 2 ms");
        assert_eq!(row["simulated"][0]["values"], json!([1.0, 0.8, null]));
        assert_eq!(row["published"][0]["values"][0], 1.0);
        assert_eq!(
            (&row["standing"], &row["claims"][0]["met"]),
            (&json!("missed"), &json!(false))
        );
        assert_eq!(
            row["claims"][0]["because"],
            "nothing was simulated at 10 in 2 ms, adaptive"
        );
    }

    /// The check of row J as it is recorded, but for the time.
    fn checked(time: [f64; 3]) -> (bool, String) {
        let row = Row {
            figure: published::figure("J").expect("row J"),
            curves: vec![
                Curve::new("time", time),
                Curve::new("migrations", [1.0, 0.11, 0.13]),
                Curve::new("shipped model, time", [1.0, 1.01, 1.03]),
                Curve::new("shipped model, migrations", [1.0, 0.7, 0.7]),
            ],
            conditions: Vec::new(),
            remark: String::new(),
        };
        let mut out = Vec::new();
        let result = check(&[row], &mut out);
        assert!(matches!(result, Ok(()) | Err(Error::Failed)), "{result:?}");
        (result.is_ok(), String::from_utf8(out).expect("text"))
    }

    #[test]
    fn the_document_is_written_although_nobody_reads_what_is_printed() {
        let file = std::env::temp_dir().join(format!("quadrille-unread-report-{}.json", std::process::id()));
        let args = [
            "quadrille",
            "sim",
            "report",
            "A",
            "--quick",
            "--json",
            file.to_str().unwrap(),
        ];
        let Command::Sim(sim) = Cli::try_parse_from(args).unwrap().command else {
            panic!("{args:?}");
        };
        let Some(SimCommand::Report(args)) = sim.command else {
            panic!("{args:?}");
        };
        let printed = run(&args, &mut FirstLine::read());
        let written = fs::read_to_string(&file).unwrap();
        fs::remove_file(file).unwrap();
        assert_unread(&printed);
        let document: Value = serde_json::from_str(&written).unwrap();
        assert_eq!(document["rows"].as_array().map(Vec::len), Some(1), "{document}");
    }

    /// Row J is met in the report.
    #[test]
    fn a_row_that_was_met_and_is_missed_or_has_other_values_fails_the_check() {
        let (passes, said) = checked([1.0, 0.78, 0.85]);
        assert!(passes && said.contains("as expected, by the same values"), "{said}");
        let (passes, said) = checked([1.0, 0.78, 0.86]);
        assert!(
            !passes && said.ends_with("\n  was time: 1.00 | 0.78 | 0.85\n  is  time: 1.00 | 0.78 | 0.86\n"),
            "{said}"
        );
        let (passes, said) = checked([1.0, 1.2, 1.2]);
        assert!(
            !passes && said.starts_with("  DIFFERS  row J was met and is half: "),
            "{said}"
        );
    }
}
