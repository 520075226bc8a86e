//! numa: four tasks on one cache line, two read one word of it, two write the other.
//!
//! After the program with which Barry Song measured clusters that share a cache: it is slow where the four run far from each other. His loops
//! are deleted by an optimiser, so here the words are atomic, read and written relaxed, without a locked operation. A task yields now and then, so
//! that all take part where there are fewer workers. An operation is one turn of one task's loop. Verified: readers see only what writers could
//! have written.

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
/// [`Stop::Failed`] if a reader saw what nobody wrote, or a writer wrote nothing.
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
    let written = line.y.load(Ordering::Relaxed);
    if sum == (EACH * turns) as u64 && written > 0 {
        Ok(measured)
    } else {
        Err(Stop::failed(format!(
            "the readers' sum is {sum}, the last value written {written}"
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
}
