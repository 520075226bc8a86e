//! The runtime's own steps: from one task to the next, and a channel's operations.

use quadrille::sync::mpmc;
use quadrille::task::yield_now;
use quadrille::{BuildError, Runtime};

use super::{Effort, Measured, least};

/// Tasks that yield in turn: as many as a busy server's worker has, more than the first cache holds.
const TASKS: u32 = 1000;

/// Messages that a channel holds: sent, then received, by one task that never waits.
const MESSAGES: u32 = 16;

/// What a worker does for each task, and a channel for each message. Not what the simulator charges for `poll` and
/// `channel_op`, in which more is; for information. By one worker, which is not pinned.
pub fn measure(effort: Effort) -> Vec<Measured> {
    let built = Runtime::builder().worker_threads(1).build();
    let measured = |measure: fn(&Runtime, Effort) -> u64| {
        let runtime = built.as_ref().map_err(BuildError::to_string)?;
        Ok(measure(runtime, effort))
    };
    vec![
        Measured::note(
            "yield",
            measured(a_yield),
            format!("a yield of one of {TASKS} tasks, with its way through the deque, ns"),
        ),
        Measured::note(
            "channel_free",
            measured(an_operation),
            "sending or receiving a message without waiting, ns",
        ),
    ]
}

fn a_yield(runtime: &Runtime, effort: Effort) -> u64 {
    let each = effort.operations.div_ceil(TASKS);
    let yields = move || async move {
        for _ in 0..each {
            yield_now().await;
        }
    };
    let batch = || {
        let round = async move {
            let tasks: Vec<_> = (0..TASKS).map(|_| quadrille::spawn(yields())).collect();
            for task in tasks {
                task.await.expect("nothing panics here");
            }
        };
        runtime.block_on(runtime.spawn(round)).expect("nor here");
    };
    least(effort, each * TASKS, batch)
}

fn an_operation(runtime: &Runtime, effort: Effort) -> u64 {
    let rounds = effort.operations.div_ceil(2 * MESSAGES);
    let batch = || {
        let round = async move {
            let (sender, receiver) = mpmc::bounded(MESSAGES as usize);
            for _ in 0..rounds {
                for message in 0..MESSAGES {
                    sender.send(message).await.expect("there is a receiver");
                }
                for _ in 0..MESSAGES {
                    receiver.recv().await.expect("there is a message");
                }
            }
        };
        runtime.block_on(runtime.spawn(round)).expect("nothing panics here");
    };
    least(effort, rounds * 2 * MESSAGES, batch)
}
