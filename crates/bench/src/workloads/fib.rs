//! fib: Fibonacci numbers by fork and join, the usual test of fine-grained parallelism.
//!
//! Each call above the leaves spawns one of its two calls, does the other itself, and joins. What is measured is the
//! task: there is no work in it. Verified by the number that comes out.

use std::future::Future;
use std::pin::Pin;

use crate::adapters::Runtime;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};

/// Runs it once: `rounds` times the `number`th Fibonacci number. An operation is a task that was spawned.
///
/// # Errors
/// [`Stop::Failed`] if the number is wrong.
pub async fn run<R: Runtime>(runtime: R, number: usize, rounds: usize) -> Result<Measured, Stop> {
    let meter = Meter::start(&runtime);
    let mut sum = 0;
    for _ in 0..rounds {
        sum += fork(runtime, number).await;
    }
    let measured = meter.stop(&runtime, spawned(number) * rounds as u64);
    check(sum, number, rounds).map(|()| measured)
}

/// Boxed, because it awaits its like.
fn fork<R: Runtime>(runtime: R, number: usize) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if number < 2 {
            return number as u64;
        }
        let spawned = runtime.spawn(fork(runtime, number - 1));
        let own = fork(runtime, number - 2).await;
        own + spawned.await
    })
}

/// The `number`th Fibonacci number; F(0) = 0, F(1) = 1.
pub(super) fn fibonacci(number: usize) -> u64 {
    (0..number).fold((0, 1), |(a, b), _| (b, a + b)).0
}

/// Tasks spawned: one for each call that is no leaf, of which there are F(n + 1) - 1.
pub(super) fn spawned(number: usize) -> u64 {
    (fibonacci(number + 1) - 1).max(1)
}

/// Compares the sum of all rounds with what it must be.
pub(super) fn check(sum: u64, number: usize, rounds: usize) -> Result<(), Stop> {
    let expected = fibonacci(number) * rounds as u64;
    if sum == expected {
        Ok(())
    } else {
        Err(Stop::failed(format!("the numbers sum up to {sum}, not {expected}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_tasks_are_those_of_the_tree() {
        assert_eq!([0, 1, 2, 10, 25].map(fibonacci), [0, 1, 1, 55, 75_025]);
        assert_eq!((spawned(3), spawned(25)), (2, 121_392));
    }
}
