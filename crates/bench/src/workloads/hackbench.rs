//! hackbench: groups of senders and receivers, every sender to every receiver of its group.
//!
//! As in the program, `fds` senders and `fds` receivers make a group, and each receiver has one wire that all senders
//! of its group write to. A sender writes, `loops` times, one message to each receiver in turn; a receiver reads
//! `fds * loops` messages one at a time. Time runs from the start signal, which everybody waits for, to the last join.
//!
//! In process the wire is a bounded channel. Its default bound is what a pipe of 64 KiB holds: 655 messages of 100
//! bytes. Each message is copied in and copied out.
//!
//! Verified: every receiver's count, and the sum over a stamp in each message, which differs from loop to loop. A stamp
//! is checked only if messages cannot be torn apart, which the kernel promises up to PIPE_BUF (4096 bytes).

use crate::adapters::{Runtime, Sent};
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};
use crate::spec::{Hackbench, Transport};
use crate::workloads::gate::{Gate, gate};
use crate::workloads::progress::Progress;
use crate::workloads::wire::Wire;

/// The largest message that several writers may write to one pipe without mixing their bytes.
const PIPE_BUF: usize = 4096;

/// Runs it once.
///
/// # Errors
/// [`Stop::Failed`] if a message was lost or changed; what the wire refuses.
pub async fn run<R: Runtime, W: Wire>(
    runtime: R,
    wire: W,
    params: Hackbench,
    report_progress: bool,
) -> Result<Measured, Stop> {
    let (opener, gate) = gate();
    let progress = Progress::start(report_progress, params.groups * params.fds);
    let mut senders = Vec::new();
    let mut receivers = Vec::new();
    for _ in 0..params.groups {
        let mut ends = Vec::new();
        for _ in 0..params.fds {
            let (sender, receiver) = wire.connect()?;
            ends.push(sender);
            receivers.push(runtime.spawn(receive::<W>(receiver, params, gate.clone())));
        }
        for _ in 0..params.fds {
            let task = send::<W>(
                ends.clone(),
                wire.message(),
                params.loops,
                gate.clone(),
                progress.clone(),
            );
            senders.push(runtime.spawn(task));
        }
    }
    drop(gate);
    opener.all_ready(senders.len() + receivers.len()).await?;

    let meter = Meter::start(&runtime);
    opener.open();
    let mut first_failure = Ok(());
    for sender in senders {
        first_failure = first_failure.and(sender.await);
    }
    let mut received = 0;
    for receiver in receivers {
        match receiver.await {
            Ok(count) => received += count,
            Err(stop) => first_failure = first_failure.and(Err(stop)),
        }
    }
    let measured = meter.stop(&runtime, params.messages());
    first_failure?;
    check_count(received, &params).map(|()| measured)
}

/// Compares the number of messages that were received with those that were sent.
pub(super) fn check_count(received: u64, params: &Hackbench) -> Result<(), Stop> {
    if received == params.messages() {
        Ok(())
    } else {
        Err(Stop::failed(format!(
            "{received} messages received, {} sent",
            params.messages()
        )))
    }
}

/// The stamp of a sender's loop.
pub(super) fn stamp(index: usize) -> u8 {
    u8::try_from(index % 251).expect("below 251")
}

async fn send<W: Wire>(
    receivers: Vec<W::Sender>,
    mut message: W::Message,
    loops: usize,
    gate: Gate,
    progress: Progress,
) -> Result<(), Stop> {
    gate.pass().await;
    for index in 0..loops {
        progress.before_loop(index, loops);
        message.as_mut()[0] = stamp(index);
        for receiver in &receivers {
            W::send(receiver, &message).await.sent()?;
        }
    }
    Ok(())
}

async fn receive<W: Wire>(mut receiver: W::Receiver, params: Hackbench, gate: Gate) -> Result<u64, Stop> {
    gate.pass().await;
    let count = params.messages_per_receiver();
    let mut sum = 0;
    for _ in 0..count {
        sum += u64::from(W::receive(&mut receiver).await?);
    }
    check_sum(sum, &params).map(|()| count)
}

/// Compares the sum of the stamps of one receiver's messages with what was sent to it.
pub(super) fn check_sum(sum: u64, params: &Hackbench) -> Result<(), Stop> {
    let expected = (0..params.loops).map(|index| u64::from(stamp(index))).sum::<u64>() * params.fds as u64;
    let torn = params.transport != Transport::Channel && params.size > PIPE_BUF;
    if sum == expected || torn {
        Ok(())
    } else {
        Err(Stop::failed(format!(
            "a receiver's {} messages sum up to {sum}, not {expected}",
            params.messages_per_receiver()
        )))
    }
}
