//! Every scheduling decision of quadrille, as pure functions over plain views.
//!
//! A policy answers *where* and *when*, never *whether*: any answer is safe and live, because the mechanism checks
//! bounds, claims idle workers exactly and looks at every queue before it parks.
//!
//! **Architecture Invariant:** no atomics, cells, clocks, seeding, I/O or unsafe in this crate. Time and randomness are
//! arguments, so that the runtime and a simulator run the very same code.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod config;
mod gate;
mod migration_cap;
mod numa;
mod place;
mod plan;
mod rng;
mod units;
mod view;
mod wake_cost;
mod worker_set;

pub use config::{
    Adversary, Aggregation, CapMode, Config, ConfigError, IdleFilter, LazyCounters, MigrationCap,
    Mode, Numa, OnContention, Skip, Steal, WakeCost, WakeGroups,
};
pub use gate::{Gates, Level};
pub use migration_cap::TaskPolicy;
pub use place::{Claim, Placement, Policy};
pub use plan::{GroupPlan, LlcPlan, NodePlan, Plan, PlanError, PlanOptions, WorkerPlan};
pub use quadrille_topology::{CoreId, GroupSize, Grouping, LlcId, NodeId, PuId};
pub use rng::Rng;
pub use units::{InvalidSpan, Nanos, Tick};
pub use view::{SpawnView, UnparkView, WakeView};
pub use worker_set::{GROUP_LEN_MAX, GroupId, GroupMask, WorkerId};
