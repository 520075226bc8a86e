//! schbench as it is since 2023: workers that ask their messenger, and then serve a request of their own.
//!
//! A worker for each worker of the runtime posts to the one messenger, which answers at once with a time stamp; how
//! long it takes until the worker runs is its wake-up latency. Then its request begins: it sleeps for 100 us, as if for
//! the network, multiplies matrices that fill 256 KiB five times, and asks again. The second latency is that of a
//! request.
//!
//! Of schbench's lock for each processor there is none here (its `-L`): it shows who is pre-empted while he computes,
//! and no task is. Verified by the number of requests, and by the sum of the products.

use std::hint::black_box;
use std::time::Instant;

use crate::adapters::{Channel, Received, Runtime, Sent};
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::spec::SchbenchRequests;
use crate::workloads::gate::{Gate, gate};
use crate::workloads::samples::Samples;
use crate::workloads::schbench::answer;

/// A worker's matrices.
#[derive(Debug)]
pub(super) struct Matrices {
    side: usize,
    a: Vec<u64>,
    b: Vec<u64>,
    product: Vec<u64>,
}

impl Matrices {
    /// Three that take `kib` KiB together.
    pub(super) fn new(kib: usize) -> Self {
        let side = (kib * 1024 / 3 / size_of::<u64>()).isqrt().max(1);
        let numbers = |from: u64| (from..).take(side * side).map(|number| number % 7).collect();
        Self {
            side,
            a: numbers(0),
            b: numbers(3),
            product: vec![0; side * side],
        }
    }

    /// Multiplies the two, row by column, as schbench does.
    fn multiply(&mut self) {
        let side = self.side;
        for row in 0..side {
            for column in 0..side {
                let mut sum = 0;
                for index in 0..side {
                    sum += self.a[row * side + index] * self.b[index * side + column];
                }
                self.product[row * side + column] = sum;
            }
        }
    }

    /// Multiplies them `operations` times.
    pub(super) fn work(&mut self, operations: usize) {
        for _ in 0..operations {
            black_box(&mut *self).multiply();
        }
    }

    /// The sum of the product's numbers, and what it must be: the sum of a column of the one times that of the row of
    /// the other that it meets.
    fn sums(&self) -> (u64, u64) {
        let column = |index| self.a.iter().skip(index).step_by(self.side).sum::<u64>();
        let row = |index| self.b[index * self.side..][..self.side].iter().sum::<u64>();
        let expected = (0..self.side).map(|index| column(index) * row(index)).sum();
        (self.product.iter().sum(), expected)
    }
}

/// What the workers have seen.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    pub(super) wakes: Samples,
    pub(super) requests: Samples,
    /// The sum of a product, where it was wrong, and what it should have been.
    wrong: Option<(u64, u64)>,
}

impl Latencies {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self {
            wakes: Samples::with_capacity(count),
            requests: Samples::with_capacity(count),
            wrong: None,
        }
    }

    /// Looks at the last product.
    pub(super) fn check(&mut self, matrices: &Matrices) {
        let (sum, expected) = matrices.sums();
        if sum != expected {
            self.wrong = Some((sum, expected));
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.wakes.merge(other.wakes);
        self.requests.merge(other.requests);
        self.wrong = self.wrong.or(other.wrong);
    }

    /// The run with its quantiles, if nothing is missing.
    pub(super) fn finish(self, measured: Measured) -> Result<Measured, Stop> {
        if let Some((sum, expected)) = self.wrong {
            return Err(Stop::failed(format!(
                "a product's numbers sum up to {sum}, not {expected}"
            )));
        }
        if self.wakes.len() as u64 != measured.ops || self.requests.len() as u64 != measured.ops {
            return Err(Stop::failed(format!(
                "{} wake-ups and {} requests, {} expected",
                self.wakes.len(),
                self.requests.len(),
                measured.ops
            )));
        }
        let measured = self.requests.into_requests(measured);
        Ok(self.wakes.into(measured))
    }
}

/// Runs it once, with `count` workers.
///
/// # Errors
/// [`Stop::Failed`] if a request is missing, or a product is wrong.
pub async fn run<R: Runtime, C: Channel>(runtime: R, count: usize, params: SchbenchRequests) -> Result<Measured, Stop> {
    let (opener, gate) = gate();
    let (posts, post_office) = C::bounded::<usize>(count);
    let mut wakers = Vec::new();
    let mut workers = Vec::new();
    for index in 0..count {
        let (waker, wakes) = C::bounded::<Instant>(1);
        wakers.push(waker);
        workers.push(runtime.spawn(worker::<R, C>(index, posts.clone(), wakes, params, gate.clone())));
    }
    drop((posts, gate));
    let messenger = runtime.spawn(answer::<C, Instant>(post_office, wakers));
    opener.all_ready(count).await?;
    let meter = Meter::start(&runtime);
    opener.open();
    let mut latencies = Latencies::with_capacity(count * params.requests);
    for worker in workers {
        latencies.merge(worker.await);
    }
    messenger.await;
    let measured = meter.stop(&runtime, (count * params.requests) as u64);
    latencies.finish(measured)
}

async fn worker<R: Runtime, C: Channel>(
    index: usize,
    posts: C::Sender<usize>,
    mut wakes: C::Receiver<Instant>,
    params: SchbenchRequests,
    gate: Gate,
) -> Latencies {
    let mut latencies = Latencies::with_capacity(params.requests);
    let mut matrices = Matrices::new(params.kib);
    gate.pass().await;
    for _ in 0..params.requests {
        if C::send(&posts, index).await.sent().is_err() {
            break;
        }
        let Some(stamp) = C::recv(&mut wakes).await.value() else {
            break;
        };
        latencies.wakes.add_since(stamp);
        let begin = Instant::now();
        R::sleep(params.sleep()).await;
        matrices.work(params.operations);
        latencies.requests.add_since(begin);
    }
    latencies.check(&matrices);
    latencies
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_worker_has_the_matrices_of_schbench() {
        assert_eq!(Matrices::new(256).side, 104);
        assert_eq!(Matrices::new(0).side, 1);
    }

    #[test]
    fn a_product_that_is_wrong_or_missing_fails() {
        let mut matrices = Matrices::new(8);
        let (nothing, expected) = matrices.sums();
        assert!(nothing == 0 && expected > 0);
        matrices.work(2);
        let (sum, expected) = matrices.sums();
        assert_eq!(sum, expected);
        let seen = |matrices: &Matrices| {
            let mut latencies = Latencies::default();
            latencies.wakes.add(Duration::from_nanos(5));
            latencies.requests.add(Duration::from_nanos(7));
            latencies.check(matrices);
            latencies
        };
        let measured = |ops| Measured {
            ops,
            ..Measured::default()
        };
        let right = seen(&matrices).finish(measured(1)).unwrap();
        assert_eq!((right.counters["p50_ns"], right.counters["request_p99_ns"]), (5, 7));
        let missing = format!("{:?}", seen(&matrices).finish(measured(2)).unwrap_err());
        assert!(missing.contains("1 wake-ups and 1 requests, 2 expected"), "{missing}");
        matrices.product[3] += 1;
        let wrong = format!("{:?}", seen(&matrices).finish(measured(1)).unwrap_err());
        assert!(
            wrong.contains(&format!("sum up to {}, not {expected}", expected + 1)),
            "{wrong}"
        );
    }
}
