//! hackbench --threads: groups of senders and receivers that are threads; see
//! [`hackbench`](crate::workloads::hackbench).

use super::gate::{Gate, gate};
use super::wire::ThreadWire;
use crate::adapters::blocking::ThreadRuntime;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::spec::Hackbench;
use crate::workloads::hackbench::{check_count, check_sum, stamp};
use crate::workloads::progress::Progress;

/// Runs it once.
///
/// # Errors
/// [`Stop::Failed`] if a thread cannot be made, or a message was lost or changed; what the wire refuses.
pub fn run<R: ThreadRuntime, W: ThreadWire>(
    runtime: R,
    wire: &W,
    params: Hackbench,
    report_progress: bool,
) -> Result<Measured, Stop> {
    let (opener, gate) = gate::<R>(2 * params.groups * params.fds);
    let progress = Progress::start(report_progress, params.groups * params.fds);
    let mut joins = Vec::with_capacity(2 * params.groups * params.fds);
    for _ in 0..params.groups {
        let mut ends = Vec::with_capacity(params.fds);
        for _ in 0..params.fds {
            let (sender, receiver) = wire.connect()?;
            ends.push(sender);
            let gate = gate.clone();
            joins.push(runtime.spawn(move || receive::<R, W>(receiver, &params, gate)));
        }
        for _ in 0..params.fds {
            let (ends, message) = (ends.clone(), wire.message());
            let (gate, progress) = (gate.clone(), progress.clone());
            joins.push(runtime.spawn(move || send::<R, W>(&ends, message, params.loops, gate, &progress)));
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
fn send<R: ThreadRuntime, W: ThreadWire>(
    receivers: &[W::Sender],
    mut message: W::Message,
    loops: usize,
    gate: Gate<R>,
    progress: &Progress,
) -> Result<u64, Stop> {
    gate.pass();
    for index in 0..loops {
        progress.before_loop(index, loops);
        message.as_mut()[0] = stamp(index);
        for receiver in receivers {
            W::send(receiver, &message)?;
        }
    }
    Ok(0)
}

/// A receiver. How many messages it has received.
fn receive<R: ThreadRuntime, W: ThreadWire>(
    mut receiver: W::Receiver,
    params: &Hackbench,
    gate: Gate<R>,
) -> Result<u64, Stop> {
    gate.pass();
    let count = params.messages_per_receiver();
    let mut sum = 0;
    for _ in 0..count {
        sum += u64::from(W::receive(&mut receiver)?);
    }
    check_sum(sum, params).map(|()| count)
}
