//! stream: one long task a worker goes through arrays of its own that no cache holds: copy, scale, add, triad.
//!
//! After McCalpin's STREAM. What a scheduler can do here is to leave the tasks alone, one a worker and far from each
//! other; a task yields between two passes. An operation is a cache line (64 bytes) moved. Verified by every value in
//! the arrays, when the time has been taken: to read them all costs what a good part of a pass does.

use crate::adapters::Runtime;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::workloads::gate::{Gate, gate};

/// Bytes that a pass moves for each element: 16 for copy and scale, 24 for add and triad.
const BYTES_A_PASS: usize = 16 + 16 + 24 + 24;

/// The scalar.
const SCALAR: f64 = 3.0;

/// Runs it once: `tasks` tasks with three arrays of `elements` each, `passes` times.
///
/// # Errors
/// [`Stop::Failed`] if a value is wrong.
pub async fn run<R: Runtime>(runtime: R, tasks: usize, elements: usize, passes: usize) -> Result<Measured, Stop> {
    let (opener, gate) = gate();
    let joins: Vec<_> = (0..tasks)
        .map(|_| runtime.spawn(task::<R>(elements, passes, gate.clone())))
        .collect();
    drop(gate);
    opener.all_ready(tasks).await?;
    let meter = Meter::start(&runtime);
    opener.open();
    let mut done = Vec::with_capacity(tasks);
    for join in joins {
        done.push(join.await);
    }
    let measured = meter.stop(&runtime, lines(tasks, elements, passes));
    // In tasks again: with many workers it is much to read for one.
    let checks: Vec<_> = done
        .into_iter()
        .map(|arrays| runtime.spawn(async move { arrays.check() }))
        .collect();
    let mut result = Ok(());
    for check in checks {
        result = result.and(check.await);
    }
    result.map(|()| measured)
}

/// Cache lines that are moved.
pub(super) fn lines(tasks: usize, elements: usize, passes: usize) -> u64 {
    (tasks * elements * passes * BYTES_A_PASS / 64).max(1) as u64
}

async fn task<R: Runtime>(elements: usize, passes: usize, gate: Gate) -> Arrays {
    // Made, and touched, by the task that uses them: on its node.
    let mut arrays = Arrays::new(elements);
    gate.pass().await;
    for _ in 0..passes {
        arrays.pass();
        R::yield_now().await;
    }
    arrays
}

/// The three arrays of STREAM.
pub(super) struct Arrays {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    expected: [f64; 3],
}

impl Arrays {
    pub(super) fn new(elements: usize) -> Self {
        let [a, b, c] = [0.5, 0.25, 0.0].map(|value| vec![value; elements]);
        Self {
            a,
            b,
            c,
            expected: [0.5, 0.25, 0.0],
        }
    }

    /// copy, scale, add, triad.
    pub(super) fn pass(&mut self) {
        let Self { a, b, c, .. } = self;
        c.copy_from_slice(a);
        for (b, c) in b.iter_mut().zip(&*c) {
            *b = SCALAR * c;
        }
        for (c, (a, b)) in c.iter_mut().zip(a.iter().zip(&*b)) {
            *c = a + b;
        }
        for (a, (b, c)) in a.iter_mut().zip(b.iter().zip(&*c)) {
            *a = b + SCALAR * c;
        }
        let [a, ..] = self.expected;
        let b = SCALAR * a;
        let c = a + b;
        self.expected = [b + SCALAR * c, b, c];
    }

    /// Compares all values with what the passes give, to the bit: the operations are the same.
    pub(super) fn check(&self) -> Result<(), Stop> {
        for (array, expected) in [&self.a, &self.b, &self.c].into_iter().zip(self.expected) {
            let is_wrong = |value: &&f64| value.to_bits() != expected.to_bits();
            if let Some(value) = array.iter().find(is_wrong) {
                return Err(Stop::failed(format!(
                    "an array holds {value}, the passes give {expected}"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_gives_the_values_that_are_expected() {
        let mut arrays = Arrays::new(10);
        arrays.pass();
        assert_eq!((arrays.a[3], arrays.b[3], arrays.c[3]), (7.5, 1.5, 2.0));
        arrays.pass();
        assert_eq!(arrays.check(), Ok(()));
    }

    #[test]
    fn a_value_that_the_passes_do_not_give_is_refused() {
        for (array, expected) in [
            "an array holds 8, the passes give 7.5",
            "an array holds 2, the passes give 1.5",
            "an array holds 2.5, the passes give 2",
        ]
        .into_iter()
        .enumerate()
        {
            for index in 0..10 {
                let mut arrays = Arrays::new(10);
                arrays.pass();
                [&mut arrays.a, &mut arrays.b, &mut arrays.c][array][index] += 0.5;
                assert_eq!(arrays.check(), Err(Stop::failed(expected)), "element {index}");
            }
        }
    }

    #[test]
    fn lines_are_bytes_by_64() {
        assert_eq!(lines(2, 64, 10), 2 * 80 * 10);
    }
}
