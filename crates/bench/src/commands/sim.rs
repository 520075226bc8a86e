//! `quadrille sim`: a workload on a simulated machine.

use std::io::Write;

use quadrille_sim::{Histogram, Nanos, Report, Simulation, parse_workload};
use serde_json::{Value, json};

use super::Error;
use super::out_file::{open_both, write_around};
use crate::cli::SimArgs;
use crate::table::thousands;

/// Runs the simulation and prints what it has come to.
///
/// # Errors
/// [`Error::Usage`] for a workload or configuration that cannot be simulated; that or [`Error::Output`] if a file
/// cannot be written; [`Error::Failed`] if tasks wait for each other for ever.
pub fn run(args: &SimArgs, out: &mut dyn Write) -> Result<(), Error> {
    let workload = parse_workload(&args.workload).map_err(Error::Usage)?;
    if args.limit == Nanos(0) {
        return Err(Error::Usage("--for 0ns: expected a time above zero".to_owned()));
    }
    let (machine, cost, config) = (args.machine.clone(), args.cost.clone(), args.policy.clone());
    let simulation = Simulation::new(machine, cost, config, args.model, workload, args.seed)
        .map_err(|error| Error::Usage(error.to_string()))?;
    let simulation = if args.trace.is_some() {
        simulation.with_trace()
    } else {
        simulation
    };
    let [mut json, mut trace] = open_both(["--json", "--trace"], [args.json.as_deref(), args.trace.as_deref()])?;
    let report = simulation.run(args.limit);
    let json = json.iter_mut().map(|file| (file, format!("{:#}\n", to_json(&report))));
    let trace = trace.iter_mut().zip(report.trace.clone());
    write_around(json.chain(trace), || {
        print(out, &report)?;
        Ok(out.flush()?)
    })?;
    if report.stalled > 0 { Err(Error::Failed) } else { Ok(()) }
}

fn print(out: &mut dyn Write, report: &Report) -> Result<(), Error> {
    let workers = report.workers.len();
    writeln!(out, "machine:  {} ({workers} workers)", report.machine)?;
    writeln!(out, "workload: {}", report.workload)?;
    writeln!(
        out,
        "model:    {}, policy {}, costs {}, seed {}",
        report.model, report.config, report.cost, report.seed
    )?;
    writeln!(
        out,
        "\n{} {} in {} of simulated time: {} a second",
        separated(report.done),
        report.unit,
        report.time,
        separated(rounded(report.throughput()))
    )?;
    if report.stalled > 0 {
        writeln!(out, "STALLED: {} tasks wait for each other for ever", report.stalled)?;
    }
    print_times(out, "ready to run", &report.ready_to_run)?;
    print_times(out, report.unit, &report.samples)?;
    writeln!(out, "idle: {:.1} % of worker time", report.idle_share() * 100.0)?;
    writeln!(
        out,
        "trace: {:016x} ({} events)\n",
        report.trace_hash,
        separated(report.events)
    )?;
    let done = report.done.max(1) as f64;
    for (name, value) in report.total().iter().filter(|(_, value)| *value != 0) {
        writeln!(
            out,
            "  {name:<22} {:>20} {:>12.5} a unit",
            separated(value),
            value as f64 / done
        )?;
    }
    Ok(())
}

fn print_times(out: &mut dyn Write, name: &str, times: &Histogram) -> Result<(), Error> {
    if times.count() > 0 {
        let [p50, p99] = [0.5, 0.99].map(|share| times.quantile(share));
        writeln!(
            out,
            "{name}: median {p50}, p99 {p99}, mean {}, max {}",
            times.mean(),
            times.max()
        )?;
    }
    Ok(())
}

fn separated(number: u64) -> String {
    thousands(&number.to_string())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate: not negative, far below 2^63"
)]
fn rounded(rate: f64) -> u64 {
    rate.round() as u64
}

fn to_json(report: &Report) -> Value {
    let times = |times: &Histogram| {
        json!({
            "count": times.count(),
            "mean_ns": times.mean().0,
            "p50_ns": times.quantile(0.5).0,
            "p99_ns": times.quantile(0.99).0,
            "max_ns": times.max().0,
        })
    };
    let counters: serde_json::Map<_, _> = report
        .total()
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    json!({
        "machine": report.machine,
        "workers": report.workers.len(),
        "workload": report.workload,
        "model": report.model,
        "policy": report.config,
        "cost": report.cost,
        "seed": report.seed,
        "done": report.done,
        "unit": report.unit,
        "time_ns": report.time.0,
        "throughput": report.throughput(),
        "finished": report.finished,
        "stalled": report.stalled,
        "events": report.events,
        "queue": {
            "entered": report.queue.entered,
            "deferred": report.queue.deferred,
            "near_max": report.queue.near_max,
        },
        "idle_share": report.idle_share(),
        "ready_to_run": times(&report.ready_to_run),
        "samples": times(&report.samples),
        "counters": counters,
        "trace_hash": format!("{:016x}", report.trace_hash),
    })
}
