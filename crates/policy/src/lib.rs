//! Every scheduling decision of quadrille, as pure functions over plain views.
//!
//! A policy answers *where* and *when*, never *whether*: any answer is safe and live, because the mechanism checks
//! bounds, claims idle workers exactly and looks at every queue before it parks.
//!
//! | question | asked when | answered by |
//! |---|---|---|
//! | where is it queued, who is claimed? | a task becomes ready, or is new | [`Policy::place_wake`], [`Policy::place_spawn`] |
//! | does a woken task join those that run now? | it goes to its waker's slot | [`Streaks`], [`Policy::joins_streak`] |
//! | is the newest task taken before the oldest? | one waits for another's end | [`Policy::takes_newest`] |
//! | is an idle worker unparked? | work was published | [`Policy::unpark`] |
//! | how long will the last of these wait? | new tasks go to a deque faster than they run | [`Bursts`] |
//! | what does it cost that others want the CPUs? | an unparked worker lies down | [`Contention`] |
//! | does the worker look up from its deque, how much does it take? | before a task | [`Pace`] |
//! | does a long task go behind short ones? | its turn has come | [`Overtaking`] |
//! | is the next look into the injector put off? | a worker drains it faster than it is filled | [`Coalescing`] |
//! | is a far queue looked at, and how much taken? | a worker has nothing to do | [`Gates`], [`LlcPlan::others`], [`Policy::steal_remote`] |
//! | whose deques are looked at, in what order? | a worker has nothing to do | [`Policy::victims`] |
//! | is an idle worker kept for its last task? | that worker parks; another task is woken | [`Reserve`], [`Policy::claimable`] |
//! | is it worth stealing there? | what was stolen is used up | [`Profit`] |
//! | who drains a queue whose own workers are busy? | somebody searches; the sentinel is up | [`Policy::members_are_away`], [`Glances`] |
//! | are events asked for before sleep? | a worker has run dry | [`DryPolls`] |
//! | does it spin, and for how long? | a thread is about to sleep | [`Spins`] |
//! | are a sleeper's timers fired along? | a worker is up for one of its own | [`Policy::fires_for_sleeper`], [`Policy::left_to_first`] |
//! | how late may timers be to expire together? | a worker is about to sleep | [`Policy::timer_slack`] |
//! | is a count published? | tasks switch | [`LazyCounter`], [`BusyCounter`] |
//! | which cache do tasks that share data prefer, and how many come? | once an epoch | [`SetPolicy`], [`Policy::pull`] |
//! | what may leave a cache? | a worker has work to spare | [`Policy::exports`] |
//! | which worker is a thread bound to? | it is about to start; somebody would steal it | [`Policy::binds_elsewhere`], [`Policy::threads_to_steal`], [`Backlog`] |
//! | does one worker go on alone? | a window of measuring has passed | [`Policy::solo`], [`SoloTrial`] |
//!
//! In return the mechanism tells what became of a task: [`Policy::ran`], [`Policy::moved`], [`Policy::stolen`].
//!
//! ```
//! use quadrille_policy::{Config, CouplingView, Nanos, Placement, Plan, Policy, Rng, SetId, WakeView, WorkerId};
//! use quadrille_topology::Topology;
//!
//! let config: Config = "cap=fixed:1:2ms".parse()?;
//! let machine: Topology = "node:2 llc:4 core:8 pu:2".parse()?;
//! let plan = Plan::compile(&machine, &config.plan_options(None))?;
//! let policy = Policy::new(config, plan);
//!
//! let mut task = policy.new_task(None, SetId::NONE);
//! policy.ran(&mut task, WorkerId(70));
//! let view = WakeView {
//!     waker: Some(WorkerId(3)), // on the other node
//!     yielded: false,
//!     slot_empty: true,
//!     now: Nanos::from_millis(12),
//!     waker_run: Nanos::from_micros(90),
//!     home_run: Nanos::from_micros(90),
//!     wake_cost: Nanos::from_micros(5),
//!     home_idle: quadrille_policy::GroupMask(0b0100),
//!     home_queued: 0,
//!     home_oldest: Nanos(0),
//!     llc_util: 300,
//!     llc_has_idle: true,
//!     coupling: CouplingView::default(),
//! };
//! // The task's home worker is the third member of its group, and idle.
//! let (answer, _) = policy.place_wake(&view, &mut task, &mut Rng::new(1));
//! assert!(matches!(answer, Placement::Group { group, .. } if group == task.home));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Architecture Invariant:** no atomics, cells, clocks, seeding, I/O or unsafe in this crate. Time and randomness are
//! arguments, so that the runtime and a simulator run the very same code.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod adversary;
mod aggregation;
mod bind;
mod bursts;
mod busy;
mod cause;
mod coalescing;
mod config;
mod contention;
mod counters;
mod dry_polls;
mod gate;
mod haul;
mod idle_filter;
mod lazy_counters;
mod migration_cap;
mod numa;
mod overtaking;
mod pace;
mod place;
mod plan;
mod policy;
mod rescue;
mod reserve;
mod rng;
mod solo;
mod spins;
mod streaks;
#[cfg(test)]
mod testing;
mod timers;
mod units;
mod victims;
mod view;
mod wake_cost;
mod worker_set;

pub use aggregation::{CouplingView, ExportView, Ledger, LlcView, PullView, SetId, SetPolicy, SetView, Share, Wakees};
pub use bind::Backlog;
pub use bursts::Bursts;
pub use busy::{BusyCounter, BusySum};
pub use cause::Cause;
pub use coalescing::Coalescing;
pub use config::{
    Adversary, Aggregation, Bind, CapMode, Config, ConfigError, IdleFilter, LazyCounters, MigrationCap, Mode, Numa,
    OnContention, Overtake, Pin, Skip, Solo, Steal, Timers, WakeCost, WakeGroups,
};
pub use contention::Contention;
pub use dry_polls::DryPolls;
pub use gate::{Gates, Level};
pub use haul::{Haul, Profit};
pub use idle_filter::{ProbeRate, Search, Utilisation};
pub use lazy_counters::{LazyCounter, LazyRule};
pub use migration_cap::TaskPolicy;
pub use overtaking::Overtaking;
pub use pace::{Found, Pace};
pub use place::{Claim, Placement, Reason};
pub use plan::{GroupMap, GroupPlan, LlcPlan, NodePlan, Plan, PlanError, PlanOptions, WorkerPlan};
pub use policy::{Active, Policy};
pub use quadrille_topology::{CoreId, GroupSize, Grouping, LlcId, NodeId, PuId};
pub use rescue::Glances;
pub use reserve::Reserve;
pub use rng::Rng;
pub use solo::{SoloStep, SoloTally, SoloTrial};
pub use spins::Spins;
pub use streaks::Streaks;
pub use units::{InvalidSpan, Nanos, Tick};
pub use view::{RemoteStealView, SpawnView, UnparkView, WakeView};
pub use worker_set::{GROUP_LEN_MAX, GroupId, GroupMask, WorkerId};
