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

mod adversary;
mod aggregation;
mod config;
mod gate;
mod idle_filter;
mod lazy_counters;
mod migration_cap;
mod numa;
mod place;
mod plan;
mod policy;
mod rng;
#[cfg(test)]
mod testing;
mod units;
mod view;
mod wake_cost;
mod worker_set;

pub use aggregation::{SetPolicy, SetView};
pub use config::{
    Adversary, Aggregation, CapMode, Config, ConfigError, IdleFilter, LazyCounters, MigrationCap,
    Mode, Numa, OnContention, Skip, Steal, WakeCost, WakeGroups,
};
pub use gate::{Gates, Level};
pub use idle_filter::Utilisation;
pub use lazy_counters::{LazyCounter, LazyRule};
pub use migration_cap::TaskPolicy;
pub use place::{Claim, Placement};
pub use plan::{GroupPlan, LlcPlan, NodePlan, Plan, PlanError, PlanOptions, WorkerPlan};
pub use policy::{Active, Policy};
pub use quadrille_topology::{CoreId, GroupSize, Grouping, LlcId, NodeId, PuId};
pub use rng::Rng;
pub use units::{InvalidSpan, Nanos, Tick};
pub use view::{RemoteStealView, SpawnView, UnparkView, WakeView};
pub use worker_set::{GROUP_LEN_MAX, GroupId, GroupMask, WorkerId};
