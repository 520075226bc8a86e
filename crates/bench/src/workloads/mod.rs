//! The workloads: each written once, generic over the runtime and the channel, each verifying its result.
//!
//! A workload's function runs inside a task, sets everything up, measures its timed part with a
//! [`Meter`](crate::meter::Meter) and returns the figures, or a [`Stop`](crate::outcome::Stop) that says what was
//! wrong. Workloads of threads ([`threads`]) do the same in blocking style. All follow the programs they are named
//! after, so that their results compare.

pub mod bare;
pub mod block_on;
pub mod blocking;
pub mod broadcast;
pub mod chain;
pub mod fairness;
pub mod fib;
pub mod gate;
pub mod hackbench;
pub mod idle;
pub mod load;
pub mod mixed;
pub mod numa;
pub mod ping_pong;
pub mod pipe;
pub mod progress;
pub mod random;
#[cfg(test)]
mod refused;
pub mod samples;
pub mod schbench;
pub mod schbench_requests;
pub mod serve;
pub mod skynet;
pub mod spawn_join;
pub mod spawn_remote;
pub mod stream;
pub mod tbench;
pub mod threads;
pub mod timers;
pub mod wire;
pub mod yields;
