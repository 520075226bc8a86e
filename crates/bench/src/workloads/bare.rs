//! The bare work of a workload, on one thread, without any runtime: the floor under every row, but for those of
//! servers.
//!
//! What must be done whoever schedules: a task is a future in a box that is polled once, a message is copied into a
//! ring and out of it, a yield is a pass through a queue, a sleep is an entry of a heap, a server of streams a loop
//! around one epoll. fib and skynet are plain recursion, without a box for each call. Where tasks wait for more than
//! each other, the time, and such clients, there is no floor.

use std::collections::VecDeque;
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::adapters::Counts;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::sizes::{BySize, by_size};
use crate::spec::{Hackbench, Transport, Workload};
use crate::workloads::{chain, fib, hackbench, serve, skynet, spawn_join, stream, timers};

/// No runtime.
#[derive(Clone, Copy, Debug)]
struct Bare;

impl Counts for Bare {}

/// Runs the bare work of `workload`, after a warm-up.
///
/// # Errors
/// [`Stop::Unsupported`] if one thread alone can't do it; [`Stop::Failed`] if a result is wrong.
pub fn run(workload: Workload) -> Result<Measured, Stop> {
    if let Some(warm_up) = workload.warm_up() {
        once(warm_up)?;
    }
    once(workload)
}

fn once(workload: Workload) -> Result<Measured, Stop> {
    match workload {
        Workload::SpawnJoin { tasks, batch } | Workload::SpawnRemote { tasks, batch } => spawn_and_join(tasks, batch),
        Workload::BlockOn { tasks } => spawn_and_join(tasks, 1),
        Workload::Chain { depth, rounds } => chain(depth * rounds),
        Workload::Fib { number, rounds } => fibonacci(number, rounds),
        Workload::Skynet { leaves } => tree(leaves),
        Workload::Yield { tasks, yields, rounds } => yields_in_turn(tasks, yields, rounds),
        Workload::PingPong { pairs, round_trips } => there_and_back(pairs, round_trips),
        Workload::Hackbench(params) if params.transport == Transport::Channel => by_size(params.size, Rings(params)),
        Workload::Stream { elements, passes } => arrays(elements, passes),
        Workload::Timers {
            tasks,
            sleeps,
            from_us,
            to_us,
        } => timers::in_one_thread(&Bare, tasks, sleeps, (from_us, to_us)),
        Workload::Serve(params) => serve::without_runtime(&Bare, params),
        _ => Err(Stop::unsupported(
            "one thread alone cannot do it: somebody waits for others",
        )),
    }
}

/// Polls a boxed future that is ready at once.
fn poll_once<T>(mut future: Pin<Box<dyn Future<Output = T> + Send>>) -> Option<T> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// A batch of boxes, then all polled, as a batch of tasks is.
fn spawn_and_join(tasks: usize, batch: usize) -> Result<Measured, Stop> {
    let batches = (tasks / batch).max(1);
    let mut boxes: Vec<Pin<Box<dyn Future<Output = u64> + Send>>> = Vec::with_capacity(batch);
    let mut sum = 0;
    let meter = Meter::start(&Bare);
    for _ in 0..batches {
        for index in 0..batch as u64 {
            boxes.push(Box::pin(async move { black_box(index) }));
        }
        sum += boxes.drain(..).filter_map(poll_once).sum::<u64>();
    }
    let measured = meter.stop(&Bare, (batches * batch) as u64);
    spawn_join::check(sum, batches, batch).map(|()| measured)
}

/// A box that is polled before the next is made.
fn chain(links: usize) -> Result<Measured, Stop> {
    let meter = Meter::start(&Bare);
    let mut count = 0;
    for index in 0..links {
        count += poll_once(Box::pin(async move { u64::from(black_box(index) < links) })).unwrap_or(0);
    }
    let measured = meter.stop(&Bare, links as u64);
    chain::check(count, measured.ops).map(|()| measured)
}

fn fibonacci(number: usize, rounds: usize) -> Result<Measured, Stop> {
    fn call(number: usize) -> u64 {
        if number < 2 {
            return number as u64;
        }
        call(black_box(number) - 1) + call(number - 2)
    }
    let meter = Meter::start(&Bare);
    let sum = (0..rounds).map(|_| call(number)).sum();
    let measured = meter.stop(&Bare, fib::spawned(number) * rounds as u64);
    fib::check(sum, number, rounds).map(|()| measured)
}

fn tree(leaves: usize) -> Result<Measured, Stop> {
    fn node(first: u64, leaves: u64) -> u64 {
        if leaves == 1 {
            return black_box(first);
        }
        let below = leaves / skynet::CHILDREN as u64;
        (0..skynet::CHILDREN as u64)
            .map(|child| node(first + child * below, below))
            .sum()
    }
    let meter = Meter::start(&Bare);
    let sum = node(0, leaves as u64);
    let measured = meter.stop(&Bare, skynet::tasks(leaves));
    skynet::check(sum, leaves).map(|()| measured)
}

/// Counters that go round in a queue until each is at its end.
fn yields_in_turn(tasks: usize, yields: usize, rounds: usize) -> Result<Measured, Stop> {
    let all = tasks * yields * rounds;
    let meter = Meter::start(&Bare);
    let mut passes = 0;
    for _ in 0..rounds {
        let mut queue: VecDeque<Box<usize>> = (0..tasks).map(|_| Box::new(0)).collect();
        while let Some(mut done) = queue.pop_front() {
            if *done < yields {
                *done += 1;
                passes += 1;
                queue.push_back(done);
            }
        }
    }
    let measured = meter.stop(&Bare, all as u64);
    if passes == all {
        Ok(measured)
    } else {
        Err(Stop::failed(format!("{passes} passes of {all}")))
    }
}

/// Each pair's number, through two places that hold one.
fn there_and_back(pairs: usize, round_trips: usize) -> Result<Measured, Stop> {
    let mut places: Vec<[Option<u64>; 2]> = vec![[None, None]; pairs];
    let mut numbers = vec![0u64; pairs];
    let meter = Meter::start(&Bare);
    for _ in 0..round_trips {
        for ([there, back], number) in places.iter_mut().zip(&mut numbers) {
            *there = black_box(Some(*number));
            *back = black_box(there.take().map(|number| number + 1));
            *number = back.take().unwrap_or(0);
        }
    }
    let measured = meter.stop(&Bare, (pairs * round_trips) as u64);
    if numbers.iter().all(|&number| number == round_trips as u64) {
        Ok(measured)
    } else {
        Err(Stop::failed("a number did not count its round trips"))
    }
}

/// hackbench with a ring for each receiver: everybody's messages in, everybody's messages out.
struct Rings(Hackbench);

impl BySize for Rings {
    fn run<const SIZE: usize>(self) -> Result<Measured, Stop> {
        let params = self.0;
        let mut rings: Vec<VecDeque<[u8; SIZE]>> = (0..params.groups * params.fds)
            .map(|_| VecDeque::with_capacity(params.fds))
            .collect();
        let mut sums = vec![0u64; rings.len()];
        let mut message = [0; SIZE];
        let mut received = 0;
        let meter = Meter::start(&Bare);
        for index in 0..params.loops {
            message[0] = hackbench::stamp(index);
            for (ring, sum) in rings.iter_mut().zip(&mut sums) {
                for _ in 0..params.fds {
                    ring.push_back(*black_box(&message));
                }
                while let Some(message) = ring.pop_front() {
                    *sum += u64::from(black_box(&message)[0]);
                    received += 1;
                }
            }
        }
        let measured = meter.stop(&Bare, params.messages());
        for sum in sums {
            hackbench::check_sum(sum, &params)?;
        }
        hackbench::check_count(received, &params).map(|()| measured)
    }
}

fn arrays(elements: usize, passes: usize) -> Result<Measured, Stop> {
    let mut arrays = stream::Arrays::new(elements);
    let meter = Meter::start(&Bare);
    for _ in 0..passes {
        arrays.pass();
    }
    let measured = meter.stop(&Bare, stream::lines(1, elements, passes));
    arrays.check().map(|()| measured)
}
