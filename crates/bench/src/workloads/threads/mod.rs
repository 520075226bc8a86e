//! The workloads of threads: what those beside this folder do with futures, with functions that wait.
//!
//! Same names, parameters, order of steps and verification, so that a runtime's threads compare with its tasks too.

pub mod gate;
pub mod hackbench;
pub mod mixed;
pub mod ping_pong;
pub mod schbench;
pub mod serve;
pub mod skynet;
pub mod sleepers;
pub mod spawn_join;
pub mod wire;
pub mod yields;
