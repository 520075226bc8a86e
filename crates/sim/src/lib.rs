//! A deterministic discrete-event simulator that runs quadrille's scheduling policies, unchanged, on machines of
//! hundreds of hardware threads.
//!
//! The decisions are those of `quadrille-policy`, asked through the same views as in the runtime: there is no copy of
//! one here. What is simulated is everything around them: hardware threads, cache lines, locks, queues, sleeping and
//! waking, each at a [`Cost`]. Two [`Model`]s of a scheduler can be run:
//!
//! - *shipped*: the runtime, with its slots, deques, groups, injectors and the protocol by which workers sleep.
//!   With `shipped-scan` its wakers go from worker to worker instead of asking the idle masks;
//! - *kernel*: one locked run queue a CPU, as in Linux 6.5, to see whether published curves appear.
//!
//! Same machine, costs, configuration, model, workload and seed give the same run to the last event
//! ([`Report::trace_hash`]). Times are simulated nanoseconds; claims from a simulator are orderings and ratios, never
//! seconds.
//!
//! ```
//! use quadrille_sim::{Config, Cost, Hackbench, Machine, Model, Nanos, Simulation};
//!
//! let machine: Machine = "llc:2 l2:4".parse()?;
//! let workload: Hackbench = "g=2,f=4".parse()?;
//! let report = Simulation::new(machine, Cost::default(), Config::default(), Model::Shipped, workload, 1)?
//!     .run(Nanos::from_millis(2));
//! println!("{:.0} messages a second, {} polls", report.throughput(), report.total().polls);
//! assert!(report.done > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Architecture Invariant:** no threads inside of a run, no wall clock, hash tables, or randomness but that of the
//! seed. Only [`reproduce`] runs whole simulations side by side, and adds them up in the order of their seeds.

#![forbid(unsafe_code)]

mod busy;
mod channel;
mod cost;
mod engine;
mod histogram;
mod kernel;
mod kin;
mod line;
mod machine;
mod memory;
mod metrics;
mod outcome;
pub mod reproduce;
mod scheduler;
mod shipped;
mod simulation;
mod space;
mod state_lines;
mod trace;
mod workload;
mod world;

pub use cost::{Cost, CostError};
pub use histogram::Histogram;
pub use machine::{Machine, MachineError};
pub use metrics::Counters;
pub use outcome::{QueueWork, Report};
pub use quadrille_policy::{Config, Nanos};
pub use scheduler::{Change, Model};
pub use simulation::{Simulation, SimulationError};
pub use workload::{
    ChannelId, ChannelSpec, Context, Hackbench, Kin, Kinship, MemoryId, MemorySpec, NewTask, OldSchbench, Rpc,
    Schbench, Setup, Sharing, Step, Stream, Table, TaskId, Touch, Transport, Workload, parse_workload,
};
