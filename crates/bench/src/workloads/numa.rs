//! numa: four tasks on one cache line, two read one word of it, two write the other.
//!
//! After the program with which Barry Song measured clusters that share a cache: it is slow where the four run far from
//! each other. His loops are deleted by an optimiser, so here the words are atomic, read and written relaxed, without a
//! locked operation. A task yields now and then, so that all take part where there are fewer workers. An operation is
//! one turn of one task's loop. Verified: each writer adds one to the readers' word when it has done its turns, so the
//! readers' sums lie between what they are without and with all of that, and in the end both words are what so many
//! writers leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::adapters::Runtime;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::workloads::gate::{Gate, gate};

/// Readers, and writers.
const EACH: usize = 2;

/// Turns between two yields.
const STRETCH: usize = 10_000;

/// One line.
#[repr(align(64))]
struct Line {
    x: AtomicU32,
    y: AtomicU32,
}

/// Runs it once: `turns` turns a task.
///
/// # Errors
/// [`Stop::Failed`] if a reader saw what nobody wrote, or the writers left what they could not.
pub async fn run<R: Runtime>(runtime: R, turns: usize) -> Result<Measured, Stop> {
    let line = Arc::new(Line {
        x: AtomicU32::new(1),
        y: AtomicU32::new(0),
    });
    let (opener, gate) = gate();
    let readers: Vec<_> = (0..EACH)
        .map(|_| runtime.spawn(read::<R>(Arc::clone(&line), turns, gate.clone())))
        .collect();
    let writers: Vec<_> = (0..EACH)
        .map(|_| runtime.spawn(write::<R>(Arc::clone(&line), turns, gate.clone())))
        .collect();
    drop(gate);
    opener.all_ready(2 * EACH).await?;
    let meter = Meter::start(&runtime);
    opener.open();
    let mut sum = 0;
    for reader in readers {
        sum += reader.await;
    }
    for writer in writers {
        writer.await;
    }
    let measured = meter.stop(&runtime, (2 * EACH * turns) as u64);
    // Ordering: Relaxed; the writers were joined.
    let (x, y) = (line.x.load(Ordering::Relaxed), line.y.load(Ordering::Relaxed));
    check(sum, turns, x, y).map(|()| measured)
}

/// Whether the readers' sum and the last values are what `turns` turns of each can give.
fn check(sum: u64, turns: usize, x: u32, y: u32) -> Result<(), Stop> {
    let all = (EACH * turns) as u64;
    let ended = 1 + EACH as u64;
    // Writers may lose increments, so there is no least value but one.
    if (all..=all * ended).contains(&sum) && u64::from(x) == ended && (1..=all).contains(&u64::from(y)) {
        Ok(())
    } else {
        Err(Stop::failed(format!(
            "the readers' sum over {turns} turns each is {sum}, the last values are {x} and {y}"
        )))
    }
}

async fn read<R: Runtime>(line: Arc<Line>, turns: usize, gate: Gate) -> u64 {
    gate.pass().await;
    let mut sum = 0;
    for turn in 0..turns {
        // Ordering: Relaxed; the cost of the line is the question, nothing depends on the value.
        sum += u64::from(line.x.load(Ordering::Relaxed));
        if turn % STRETCH == 0 {
            R::yield_now().await;
        }
    }
    sum
}

async fn write<R: Runtime>(line: Arc<Line>, turns: usize, gate: Gate) {
    gate.pass().await;
    for turn in 0..turns {
        // Ordering: Relaxed, and a load and a store, which may lose an increment, as in the original.
        let value = line.y.load(Ordering::Relaxed);
        line.y.store(value.wrapping_add(1).max(1), Ordering::Relaxed);
        if turn % STRETCH == 0 {
            R::yield_now().await;
        }
    }
    // Ordering: Relaxed; read again when the writers were joined.
    line.x.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_writers_cannot_have_left_is_a_failure() {
        // Between nobody's end and everybody's was seen.
        assert!(check(20, 10, 3, 20).is_ok());
        assert!(check(60, 10, 3, 1).is_ok());
        for (sum, x, y) in [
            (19, 3, 20),
            (61, 3, 20),
            (20, 1, 20),
            (20, 2, 20),
            (20, 3, 0),
            (20, 3, 21),
        ] {
            assert!(check(sum, 10, x, y).is_err(), "{sum} {x} {y}");
        }
    }
}
