//! stream: one long task a worker goes through arrays of its own that no cache holds: copy, scale, add, triad.
//!
//! After McCalpin's STREAM. What a scheduler can do here is to leave the tasks alone, one a worker and far from each
//! other; a task yields between two passes. An operation is a cache line (64 bytes) moved. Verified by the values in
//! the arrays.

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
    let mut result = Ok(());
    for join in joins {
        result = result.and(join.await);
    }
    let measured = meter.stop(&runtime, lines(tasks, elements, passes));
    result.map(|()| measured)
}

/// Cache lines that are moved.
pub(super) fn lines(tasks: usize, elements: usize, passes: usize) -> u64 {
    (tasks * elements * passes * BYTES_A_PASS / 64).max(1) as u64
}

async fn task<R: Runtime>(elements: usize, passes: usize, gate: Gate) -> Result<(), Stop> {
    // Made, and touched, by the task that uses them: on its node.
    let mut arrays = Arrays::new(elements);
    gate.pass().await;
    for _ in 0..passes {
        arrays.pass();
        R::yield_now().await;
    }
    arrays.check()
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

    /// Compares the first and the last values with what the passes give, to the bit: the operations are the same.
    pub(super) fn check(&self) -> Result<(), Stop> {
        let are_right = [&self.a, &self.b, &self.c]
            .iter()
            .zip(self.expected)
            .all(|(array, expected)| {
                let is_right = |value: Option<&f64>| value.is_some_and(|value| value.to_bits() == expected.to_bits());
                is_right(array.first()) && is_right(array.last())
            });
        if are_right {
            Ok(())
        } else {
            Err(Stop::failed("an array holds a value that the passes do not give"))
        }
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
        let wrong = Stop::failed("an array holds a value that the passes do not give");
        for index in [0, 9] {
            for array in 0..3 {
                let mut arrays = Arrays::new(10);
                arrays.pass();
                [&mut arrays.a, &mut arrays.b, &mut arrays.c][array][index] += 0.5;
                assert_eq!(arrays.check(), Err(wrong.clone()), "array {array}, element {index}");
            }
        }
    }

    #[test]
    fn lines_are_bytes_by_64() {
        assert_eq!(lines(2, 64, 10), 2 * 80 * 10);
    }
}
