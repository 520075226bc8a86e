//! `quadrille hackbench`: one run on each runtime asked for, with all that explains its figure.

use std::io::Write;

use super::Error;
use super::contenders::{contenders, settle};
use super::progress_bar::{OF_ONE_RUN, progress_bar};
use crate::child::Launcher;
use crate::cli::{HackbenchArgs, default_workers};
use crate::environment::conditions;
use crate::moves::{self, Distance};
use crate::outcome::{Measured, Outcome};
use crate::report::{channel_name, title};
use crate::spec::{Body, ChannelKind, Contender, Family, Metric, RuntimeName, Spec, Transport, Workload};
use crate::table::{Table, figure, thousands};

/// Steps of the progress bar.
const STEPS: u64 = 1000;

/// Runs hackbench on one runtime after the other.
///
/// # Errors
/// [`Error::Usage`] for parameters and policies that cannot be; [`Error::Failed`] if a run failed or is not supported.
pub fn run(args: &HackbenchArgs, out: &mut dyn Write) -> Result<(), Error> {
    let params = args.params().map_err(Error::Usage)?;
    let workers = args.workers.unwrap_or_else(default_workers);
    let launcher = Launcher::new(std::env::current_exe()?, None);
    let (workload, body) = (Workload::Hackbench(params), args.body());
    let title = title(&workload, body, Metric::PerOperation);
    let own = args.own_channel || body == Body::Threads;
    let specs = contenders(&args.runtimes).into_iter().map(|runtime| Spec {
        workload,
        body,
        channel: channel(runtime.name, params.transport, own),
        workers: runtime.name.workers(workers),
        runtime,
        progress: true,
    });
    let mut specs: Vec<Spec> = specs.collect();
    settle(&mut specs)?;
    writeln!(out, "{}\n{title}", conditions(workers))?;

    let mut results: Vec<(Contender, f64)> = Vec::new();
    let mut failed = false;
    for spec in specs {
        let outcome = run_with_progress(&launcher, &spec);
        writeln!(out, "\n{} ({})", spec.runtime, wire_name(&spec, params.transport))?;
        match outcome {
            Outcome::Measured(measured) => {
                print(out, &measured)?;
                results.push((spec.runtime, measured.ns_per_op()));
            }
            Outcome::Unsupported(reason) => {
                failed = true;
                writeln!(out, "  not run: {reason}")?;
            }
            Outcome::Failed(message) => {
                failed = true;
                writeln!(out, "  FAILED: {message}")?;
            }
        }
        out.flush()?;
    }
    print_ratios(out, &results, body.base())?;
    if failed { Err(Error::Failed) } else { Ok(()) }
}

fn channel(runtime: RuntimeName, transport: Transport, own: bool) -> ChannelKind {
    match (transport, runtime.family()) {
        (Transport::Pipe | Transport::Socket, _) => ChannelKind::None,
        (Transport::Channel, Family::Go | Family::Hackbench) => ChannelKind::Own,
        (Transport::Channel, _) if own => ChannelKind::Own,
        (Transport::Channel, _) => ChannelKind::Shared,
    }
}

fn wire_name(spec: &Spec, transport: Transport) -> &'static str {
    match transport {
        Transport::Channel => channel_name(spec),
        Transport::Pipe => "pipes",
        Transport::Socket => "AF_UNIX sockets",
    }
}

fn run_with_progress(launcher: &Launcher, spec: &Spec) -> Outcome {
    let bar = progress_bar(STEPS, OF_ONE_RUN);
    bar.set_message(spec.runtime.to_string());
    // A bar is a thing for terminals; elsewhere the run need not report.
    let spec = Spec {
        progress: !bar.is_hidden(),
        ..spec.clone()
    };
    let mut has_begun = false;
    let outcome = launcher.run(&spec, &mut |fraction| {
        // What came before, the start and the warm-up, says nothing about how long the rest takes.
        if !has_begun {
            bar.reset_elapsed();
            has_begun = true;
        }
        bar.set_position(steps(fraction));
    });
    bar.finish_and_clear();
    outcome
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a fraction of 1000, for the eye; the cast saturates"
)]
fn steps(fraction: f64) -> u64 {
    (fraction * STEPS as f64) as u64
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a run stay far below 2^53")]
fn print(out: &mut dyn Write, measured: &Measured) -> Result<(), Error> {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let rate = 1e9 / measured.ns_per_op();
    writeln!(out, "  time          {:.3} s", seconds(measured.wall_ns))?;
    writeln!(out, "  messages      {}", thousands(&measured.ops.to_string()))?;
    writeln!(out, "  messages/s    {}", thousands(&format!("{rate:.0}")))?;
    writeln!(out, "  ns a message  {}", figure(measured.ns_per_op()))?;
    writeln!(
        out,
        "  CPU-seconds   {:.3} (user {:.3}, system {:.3})",
        seconds(measured.user_ns + measured.sys_ns),
        seconds(measured.user_ns),
        seconds(measured.sys_ns)
    )?;
    writeln!(
        out,
        "  switches      {} voluntary, {} involuntary",
        measured.vcsw, measured.ivcsw
    )?;
    let others = measured.counters.iter().filter(|(name, _)| !moves::is_counter(name));
    let longest = others.clone().map(|(name, _)| name.len()).max();
    let width = longest.unwrap_or(0).max("ns a message".len());
    for (name, count) in others {
        writeln!(out, "  {name:width$}  {}", thousands(&count.to_string()))?;
    }
    if measured.counters.keys().any(|name| moves::is_counter(name)) {
        write!(out, "{}", table_of_moves(measured))?;
    }
    Ok(())
}

/// Why tasks ran on another worker than before, by how far they came.
fn table_of_moves(measured: &Measured) -> Table {
    let [group, llc, node, machine] = Distance::ALL.map(Distance::name);
    let mut table = Table::new(&["moves by", group, llc, node, machine], 1);
    for cause in moves::CAUSES {
        let count = |distance| moves::by_cause(&measured.counters, cause, distance).unwrap_or(0);
        let counts = Distance::ALL.map(|distance| thousands(&count(distance).to_string()));
        table.push(std::iter::once(cause.to_owned()).chain(counts).collect());
    }
    table
}

/// Ratios to `base` if it ran, else to the first.
fn print_ratios(out: &mut dyn Write, results: &[(Contender, f64)], base: RuntimeName) -> Result<(), Error> {
    let base = results
        .iter()
        .find(|(runtime, _)| runtime.name == base)
        .or(results.first());
    let Some((base_name, base)) = base.filter(|_| results.len() > 1) else {
        return Ok(());
    };
    writeln!(
        out,
        "\ntime, as a ratio to {} (single runs; `quadrille compare` repeats them)",
        base_name
    )?;
    let names: Vec<String> = results.iter().map(|(runtime, _)| runtime.to_string()).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    for (name, (_, ns_per_op)) in names.iter().zip(results) {
        writeln!(out, "  {name:<width$}  {:.2}", ns_per_op / base)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_is_that_of_the_bar() {
        for (fraction, expected) in [(0.0, 0), (0.25, 250), (0.9996, 999), (1.0, STEPS), (f64::NAN, 0)] {
            assert_eq!(steps(fraction), expected, "{fraction}");
        }
    }
}
