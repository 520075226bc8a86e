//! The load: as many threads as connections at a time, each of which plays one script after the other.
//!
//! Threads that block, and nothing of the runtime: a fault of the runtime must not hide itself here.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::script::{Part, Script};
use super::{Order, client};
use crate::workloads::random::Random;

/// The longest pause of a thread between two connections, in microseconds.
const PAUSE_US_MAX: u64 = 5000;

/// Failures that are told; after so many the load ends early.
const FAILURES_MAX: usize = 8;

/// What the load says when it is there.
pub const READY: &str = "ready";

/// What the load has done in a part of its time: a line of JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Connections that were played to their end.
    pub played: Vec<(Part, u64)>,
    /// What servers owed and did not do, a line each.
    pub failures: Vec<String>,
}

impl Tally {
    /// How many connections played `part`.
    #[must_use]
    pub fn count(&self, part: Part) -> u64 {
        let of_part = self.played.iter().filter(|(played, _)| *played == part);
        of_part.map(|(_, count)| count).sum()
    }

    /// Takes over what another has done.
    pub fn add(&mut self, other: Self) {
        self.played.extend(other.played);
        self.failures.extend(other.failures);
    }
}

/// Carries an order out, a part of its time for each line that comes in.
///
/// # Errors
/// One line: the server's process cannot be talked to, or a thread cannot be made.
pub fn run(order: &Order, input: &mut dyn BufRead, output: &mut dyn Write) -> Result<(), String> {
    let say = |error: io::Error| format!("the fault load cannot talk to the server's process: {error}");
    writeln!(output, "{READY}").and_then(|()| output.flush()).map_err(say)?;
    for (number, duration) in (0..).zip(order.parts()) {
        if input.read_line(&mut String::new()).map_err(say)? == 0 {
            return Err("the server's process is gone".to_owned());
        }
        let tally = part(order, number, duration)?;
        let json = serde_json::to_string(&tally).map_err(|error| error.to_string())?;
        writeln!(output, "{json}").and_then(|()| output.flush()).map_err(say)?;
    }
    Ok(())
}

/// Keeps all connections busy for `duration`, then waits for their ends.
fn part(order: &Order, number: u64, duration: Duration) -> Result<Tally, String> {
    let tally = Shared {
        played: Mutex::default(),
        failures: Mutex::default(),
        ends: AtomicBool::new(false),
        end: Instant::now() + duration,
    };
    thread::scope(|scope| {
        for index in 0..order.connections {
            // Any two differ, also of neighbouring seeds.
            let seed = Random::new(order.seed ^ number << 32 ^ (index as u64) << 40).number();
            let tally = &tally;
            let started = thread::Builder::new().spawn_scoped(scope, move || tally.play(order, index, seed));
            if let Err(error) = started {
                // Ordering: Relaxed; a hint, the scope joins.
                tally.ends.store(true, Ordering::Relaxed);
                return Err(format!("cannot start thread {index} of the fault load: {error}"));
            }
        }
        Ok(())
    })?;
    Ok(tally.into())
}

/// What the threads of a part share.
struct Shared {
    played: Mutex<BTreeMap<Part, u64>>,
    failures: Mutex<Vec<String>>,
    /// Whether there are enough failures.
    ends: AtomicBool,
    end: Instant,
}

impl Shared {
    /// Plays scripts until the end, and one at least: the first of each thread is fixed, so that every part is played.
    fn play(&self, order: &Order, index: usize, seed: u64) {
        let mut random = Random::new(seed);
        let parts = Part::all();
        let mut part = parts[index % parts.len()];
        // Ordering: Relaxed; a hint.
        while !self.ends.load(Ordering::Relaxed) {
            let script = Script::draw(part, &mut random);
            let address = if part.http { order.http } else { order.echo };
            match client::play(address, &script, &mut random) {
                Ok(()) => *self.played.lock().expect(UNPOISONED).entry(part).or_default() += 1,
                Err(reason) => self.fail(index, part, &reason),
            }
            if Instant::now() >= self.end {
                return;
            }
            thread::sleep(Duration::from_micros(random.between(0, PAUSE_US_MAX)));
            part = parts[usize::try_from(random.number()).unwrap_or(usize::MAX) % parts.len()];
        }
    }

    fn fail(&self, index: usize, part: Part, reason: &str) {
        let (server, manner) = (part.server(), part.manner.name());
        let failure = format!("thread {index}, one of those to {server} that {manner}: {reason}");
        let mut failures = self.failures.lock().expect(UNPOISONED);
        failures.push(failure);
        if failures.len() >= FAILURES_MAX {
            // Ordering: Relaxed; a hint, the scope joins.
            self.ends.store(true, Ordering::Relaxed);
        }
    }
}

/// Why no lock here is poisoned.
const UNPOISONED: &str = "nothing panics under it";

impl From<Shared> for Tally {
    fn from(shared: Shared) -> Self {
        Self {
            played: shared.played.into_inner().expect(UNPOISONED).into_iter().collect(),
            failures: shared.failures.into_inner().expect(UNPOISONED),
        }
    }
}
