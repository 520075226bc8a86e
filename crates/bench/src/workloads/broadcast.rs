//! broadcast: one task sends numbers to all others, and lets them run after each batch.
//!
//! A chat room, or a feed that everybody has subscribed to. The sender waits while so many messages are on their way
//! that one could be lost. Verified by the sum that each receiver has.

use crate::adapters::broadcast::Broadcast;
use crate::meter::Meter;
use crate::outcome::{Measured, Stop};

/// Messages that the channel keeps.
const CAPACITY: usize = 1024;

/// The sender asks after so many messages how far behind the last receiver is, or after each batch if that is longer.
const ASK_AFTER: usize = 64;

/// Messages that are sent before the others run, at most.
pub const BATCH_MAX: usize = CAPACITY / 2;

/// Runs it once, inside a task.
///
/// # Errors
/// [`Stop::Failed`] if a receiver has lost a message or has another sum.
pub async fn run<R: Broadcast>(runtime: R, receivers: usize, messages: usize, batch: usize) -> Result<Measured, Stop> {
    let (sender, ends) = R::broadcast(CAPACITY, receivers);
    let meter = Meter::start(&runtime);
    let tasks: Vec<_> = ends.into_iter().map(|end| runtime.spawn(sum_of::<R>(end))).collect();
    let ask_after = ASK_AFTER.next_multiple_of(batch);
    for number in 1..=messages {
        R::send_all(&sender, number as u64 - 1)?;
        if number % batch == 0 {
            R::yield_now().await;
        }
        while number % ask_after == 0 && R::behind(&sender) > CAPACITY - ask_after {
            R::yield_now().await;
        }
    }
    drop(sender);
    let mut sums = Vec::with_capacity(receivers);
    for task in tasks {
        sums.push(task.await?);
    }
    let measured = meter.stop(&runtime, (messages * receivers) as u64);
    check(&sums, messages).map(|()| measured)
}

async fn sum_of<R: Broadcast>(mut receiver: R::FromOne) -> Result<u64, Stop> {
    let mut sum = 0;
    while let Some(message) = R::recv(&mut receiver).await? {
        sum += message;
    }
    Ok(sum)
}

fn check(sums: &[u64], messages: usize) -> Result<(), Stop> {
    let expected = (0..messages as u64).sum::<u64>();
    match sums.iter().find(|&&sum| sum != expected) {
        None => Ok(()),
        Some(sum) => Err(Stop::failed(format!(
            "the numbers that a receiver has sum to {sum}, and should to {expected}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_without_a_message_is_noticed() {
        assert!(check(&[6, 6], 4).is_ok());
        let failed = format!("{:?}", check(&[6, 5], 4));
        assert!(failed.contains("sum to 5, and should to 6"), "{failed}");
    }
}
