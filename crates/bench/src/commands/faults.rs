//! `quadrille faults`: servers on quadrille whose clients break off, and what is left of them afterwards.

use std::io::Write;

use super::Error;
use crate::adapters::quadrille::Quadrille;
use crate::cli::{FaultsArgs, default_workers};
use crate::environment::conditions;
use crate::faults::load::{READY, Tally};
use crate::faults::script::{Manner, Part};
use crate::faults::server::{Look, Servers};
use crate::faults::verdict::{GROWTH_BYTES, GROWTH_PERCENT, Seen};
use crate::faults::{Order, PATIENCE};
use crate::outcome::Stop;
use crate::peer::Peer;
use crate::process::{allow_files, wait_for_rest};
use crate::spec::{CONNECTIONS_MAX, Contender, RuntimeName};
use crate::table::{Table, thousands};

/// Descriptors a connection: its own, and those before it that the server has yet to close.
const FDS_EACH: u64 = 4;

/// Descriptors besides.
const OTHER_FDS: u64 = 64;

/// The longest time: a year.
const SECONDS_MAX: usize = 365 * 24 * 60 * 60;

/// Runs servers and load, prints what was done and what is left, and a sentence for each thing that failed.
///
/// # Errors
/// [`Error::Failed`] if anything failed; [`Error::Usage`] if there cannot be so many connections or workers, or for so
/// long.
pub fn run(args: &FaultsArgs, out: &mut dyn Write) -> Result<(), Error> {
    let workers = args.workers.unwrap_or_else(default_workers);
    check(args, workers).map_err(Error::Usage)?;
    allow_files(args.connections as u64 * FDS_EACH + OTHER_FDS).map_err(Error::Usage)?;
    writeln!(out, "{}", conditions(workers))?;
    writeln!(
        out,
        "faults: {} connections at a time for {} s, seed {}; echo and http on quadrille",
        args.connections, args.seconds, args.seed
    )?;
    out.flush()?;
    let seen = match stand(args, workers) {
        Ok(seen) => seen,
        Err(Stop::Failed(message) | Stop::Unsupported(message)) => {
            writeln!(out, "FAILED: {message}")?;
            return Err(Error::Failed);
        }
    };
    print(out, &seen)?;
    let failures = seen.failures();
    for failure in &failures {
        writeln!(out, "FAILED: {failure}")?;
    }
    if failures.is_empty() {
        writeln!(
            out,
            "all tasks ended, all descriptors closed, memory within {GROWTH_PERCENT} % and {} MiB, every byte that was owed came",
            GROWTH_BYTES >> 20
        )?;
        Ok(())
    } else {
        Err(Error::Failed)
    }
}

/// Checks what is reckoned with before anything is started.
fn check(args: &FaultsArgs, workers: usize) -> Result<(), String> {
    for (flag, value, max) in [
        ("--seconds", args.seconds, SECONDS_MAX),
        ("--connections", args.connections, CONNECTIONS_MAX),
    ] {
        if value > max {
            return Err(format!("{flag} {value}: expected at most {max}"));
        }
    }
    Contender::new(RuntimeName::Quadrille).check_workers(workers)
}

/// Puts servers under the load, in two parts, and looks before, between and after.
fn stand(args: &FaultsArgs, workers: usize) -> Result<Seen, Stop> {
    let servers = Servers::start(Quadrille::start(workers, &Contender::new(RuntimeName::Quadrille))?)?;
    let order = Order {
        echo: servers.echo,
        http: servers.http,
        connections: args.connections,
        millis: args.seconds as u64 * 1000,
        seed: args.seed,
    };
    let mut load = Peer::start("fault-load", &order)?;
    load.expect(READY)?;
    // Both listen.
    wait_for_rest(PATIENCE).map_err(Stop::failed)?;
    let before = servers.look()?;
    let mut tally = Tally::default();
    let mut look_after_a_part = || {
        load.go()?;
        let line = load.line()?;
        tally.add(load.parse(&line)?);
        servers.look_when_all_ended(before)
    };
    let (early, late) = (look_after_a_part()?, look_after_a_part()?);
    Ok(Seen {
        before,
        early,
        late,
        panics: servers.panics(),
        tally,
    })
}

fn print(out: &mut dyn Write, seen: &Seen) -> Result<(), Error> {
    let mut table = Table::new(&["connections that", "echo", "http"], 1);
    for manner in Manner::ALL {
        let counts = [false, true].map(|http| Part { http, manner }).map(|part| {
            let count = seen.tally.count(part).to_string();
            if part.exists() {
                thousands(&count)
            } else {
                "-".to_owned()
            }
        });
        table.push(std::iter::once(manner.name().to_owned()).chain(counts).collect());
    }
    write!(out, "{table}")?;
    let mut table = Table::new(&["without a connection", "tasks", "descriptors", "resident KiB"], 1);
    let Seen {
        before, early, late, ..
    } = seen;
    for (when, look) in [
        ("before the first", before),
        ("after a fifth of the time", early),
        ("at the end", late),
    ] {
        let Look {
            tasks,
            descriptors,
            resident_bytes,
        } = look;
        let kibibytes = thousands(&(resident_bytes >> 10).to_string());
        table.push(vec![
            when.to_owned(),
            tasks.to_string(),
            descriptors.to_string(),
            kibibytes,
        ]);
    }
    write!(out, "{table}")?;
    Ok(())
}
