//! hackbench --threads: groups of senders and receivers that are threads; see
//! [`hackbench`](crate::workloads::hackbench).

use std::hint::black_box;

use super::gate::{Gate, gate};
use crate::adapters::blocking::{ThreadChannel, ThreadRuntime};
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::spec::Hackbench;
use crate::workloads::hackbench::{check_count, check_sum, stamp};
use crate::workloads::progress::Progress;

/// Runs it once, over channels of messages of `SIZE` bytes.
///
/// # Errors
/// [`Stop::Failed`] if a thread cannot be made, or a message was lost or changed.
pub fn run<R: ThreadRuntime, C: ThreadChannel, const SIZE: usize>(
    runtime: R,
    params: Hackbench,
    report_progress: bool,
) -> Result<Measured, Stop> {
    let (opener, gate) = gate::<R>(2 * params.groups * params.fds);
    let progress = Progress::start(report_progress, params.groups * params.fds);
    let mut joins = Vec::with_capacity(2 * params.groups * params.fds);
    for _ in 0..params.groups {
        let mut ends = Vec::with_capacity(params.fds);
        for _ in 0..params.fds {
            let (sender, receiver) = C::bounded::<[u8; SIZE]>(params.capacity);
            ends.push(sender);
            let gate = gate.clone();
            joins.push(runtime.spawn(move || receive::<R, C, SIZE>(receiver, &params, gate)));
        }
        for _ in 0..params.fds {
            let (ends, gate, progress) = (ends.clone(), gate.clone(), progress.clone());
            joins.push(runtime.spawn(move || send::<R, C, SIZE>(&ends, params.loops, gate, &progress)));
        }
    }
    let joins = opener.all_ready(joins)?;

    let meter = Meter::start(&runtime);
    opener.open(&joins);
    let mut received = Ok(0);
    for join in joins {
        let count = R::join(join);
        received = received.and_then(|sum: u64| count.map(|count| sum + count));
    }
    let measured = meter.stop(&runtime, params.messages());
    check_count(received?, &params).map(|()| measured)
}

/// A sender; it receives nothing.
fn send<R: ThreadRuntime, C: ThreadChannel, const SIZE: usize>(
    receivers: &[C::Sender<[u8; SIZE]>],
    loops: usize,
    gate: Gate<R>,
    progress: &Progress,
) -> Result<u64, Stop> {
    gate.pass();
    let mut message = [0; SIZE];
    for index in 0..loops {
        progress.before_loop(index, loops);
        message[0] = stamp(index);
        for receiver in receivers {
            // The message may change at once, so this copies all of it.
            C::send(receiver, *black_box(&message))?;
        }
    }
    Ok(0)
}

/// A receiver. How many messages it has received.
fn receive<R: ThreadRuntime, C: ThreadChannel, const SIZE: usize>(
    mut receiver: C::Receiver<[u8; SIZE]>,
    params: &Hackbench,
    gate: Gate<R>,
) -> Result<u64, Stop> {
    gate.pass();
    let count = params.messages_per_receiver();
    let mut sum = 0;
    for _ in 0..count {
        let Some(message) = C::recv(&mut receiver) else {
            return Err(Stop::failed("the senders were gone before the last message"));
        };
        sum += u64::from(black_box(&message)[0]);
    }
    check_sum(sum, params).map(|()| count)
}
