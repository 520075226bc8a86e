//! Every constant of the scheduler, with unit, default and origin.
//!
//! A policy is a section of [`Config`] with a `mode` of its own. `off` for all of them is [`Config::baseline`], a plain
//! work-stealing scheduler, and the one that every comparison is made against. The protocol by which workers park and
//! are woken is no policy and has no switch.
//!
//! Ratios and utilisations are in 1/1024. Where a constant comes from is said at the field; messages to the Linux
//! kernel mailing list are named by Message-Id and resolve at `https://lore.kernel.org/lkml/<id>/`. *Ours* is a value
//! that nobody else has measured: *measured* if we have, *assumed* if it is a start to sweep from.
//!
//! # What is no constant
//!
//! Sizes of tables and of words (which sets, wakers and runs are remembered, how many members a group's mask has), and
//! the weights of moving averages, which are shifts: a quarter, an eighth for the cost of waking and for probes, a
//! 256th for what is forgotten of it, a half for contention, of which a look counts as a second at most and nothing is
//! left after 100 periods without another. They bound what a policy can know, not what it does about it; each is
//! explained where it stands.
//!
//! # What `auto` means
//!
//! | policy | `auto` is on |
//! |---|---|
//! | [`WakeGroups`] | with more than 4 workers in more than one group, two of them behind one last-level cache |
//! | [`IdleFilter`] | while wake groups are |
//! | [`Aggregation`] | while wake groups are, with more than one last-level cache |
//! | [`MigrationCap`] | while wake groups are; it binds from `light_load` on in any mode |
//! | [`LazyCounters`] | with more than 4 workers |
//! | [`Numa`] | with more than one last-level cache |
//! | [`Steal::gates`] | with more than 4 workers |
//! | [`WakeCost`] | always |
//! | [`Solo`] | with 2 to 4 workers behind one last-level cache, while wake groups are off |
//! | [`Overtake`] | always |

mod overtake;
mod sections;
mod solo;
mod text;
mod threads;
mod timers;
mod validate;

use alloc::string::String;
use core::fmt;

use crate::{Nanos, PlanOptions};

pub use overtake::Overtake;
pub use sections::{
    Adversary, Aggregation, CapMode, IdleFilter, LazyCounters, MigrationCap, Mode, Numa, OnContention, Skip, Steal,
    WakeCost, WakeGroups,
};
pub use solo::Solo;
pub use threads::{Bind, Pin};
pub use timers::Timers;

/// Every constant of the scheduler.
///
/// All fields are public; change some by struct update, or from text (which `QUADRILLE_POLICY` holds):
///
/// ```
/// use quadrille_policy::{Config, MigrationCap, Mode, Nanos, WakeCost};
///
/// let config = Config {
///     migration_cap: MigrationCap { window: Nanos::from_millis(2), ..MigrationCap::default() },
///     wake_cost: WakeCost { mode: Mode::Off, ..WakeCost::default() },
///     ..Config::default()
/// };
/// assert_eq!(config, "cap-window=2ms,wake-cost=off".parse()?);
/// assert_eq!(config.to_string(), "cap-window=2ms,wake-cost=off");
/// # Ok::<(), quadrille_policy::ConfigError>(())
/// ```
///
/// # Text form
///
/// `name=value` separated by commas; the first may instead be `default` or `baseline`, which is what the rest changes.
/// `Display` writes what differs from the default. An unknown name is answered with the list of names. `cap` takes its
/// constants too: `cap=adaptive:1ms`, `cap=fixed:1:2ms` (quota, window). The last of a name's values counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Spinning of a worker that has announced itself idle, before it sleeps, at most. Default 50 us, 0 (never) to 1 s.
    /// Ours, assumed: about what parking and being woken again costs on a virtual machine. The last one that is awake
    /// may spin for as long before it does so, too ([`IdleFilter::publish_delay`]), and so may a thread in `block_on`,
    /// and one of the pool for blocking work, where that leaves a CPU for whom they wait for.
    pub spin_max: Nanos,
    /// After so many spins in a row that nobody has ended by a wake-up a worker, or a thread outside, spins only now
    /// and then ([`Spins`](crate::Spins)). Default 8, 1 to 255, which is nearly never. Ours, assumed.
    pub spin_vain: u8,
    /// Of so many sleeps then, one is preceded by a spin. Default 16, 1 (each, so that nothing is left out) to 255.
    /// Ours, assumed.
    pub spin_probe: u8,
    /// Between two polls for readiness without a wait, by whoever runs tasks behind a cache, at least. Default 200 us,
    /// 0 to 1 s. Ours, measured with pipes between hundreds of tasks: polled each 20 us, 2 CPUs pass a tenth less,
    /// because each event of a task that is about to run anyway is brought and dealt with, and each 50 us 3 to 7 in a
    /// hundred; from 200 us on nothing changes. A worker without tasks does not wait for it.
    pub poll_interval: Nanos,
    /// So long after the last poll one of a worker that has run out of tasks, without a wait and before it goes to
    /// sleep, is not early but late ([`DryPolls`](crate::DryPolls)). Default 20 us, 0 to 1 s. Ours, measured with
    /// servers of 64 connections whose clients ask again at once: with 200 us, as between tasks, they sleep 3 to 15
    /// times as often, and take 1.05 to 1.15 times the CPU a request.
    pub poll_dry: Nanos,
    /// Of the polls that would come sooner than `poll_dry`, so many are left out after one in vain
    /// ([`DryPolls`](crate::DryPolls)). Default 15, 0 (each one polls) to 254; 255: none comes sooner, and no late one
    /// is left out. Ours, assumed; measured with a server of one connection: with 0 it polls 2.0 times a request in
    /// place of 1.1, and answers 0.88 to 0.97 of the requests.
    pub poll_early: u8,
    /// After so many in a row in vain that came later than `poll_dry`, as many are left out after each one in vain as
    /// of the early ones ([`DryPolls`](crate::DryPolls)). Default 8, 1 to 254; 255: none is left out. Ours, measured
    /// with a server of one connection whose requests take longer than `poll_dry`: it polls 1.09 times a request in
    /// place of 1.87. With 1, some of those of 64 connections would be left out as well.
    pub poll_vain: u8,
    /// For how long a worker that drains its injector on the heels of who fills it puts off the next look, so that more
    /// comes together ([`Coalescing`](crate::Coalescing)). Default 1 us, 0 (never) to 100 us. Ours, measured with
    /// batches of 1,000 short tasks from outside: 500 ns to 4 us take 0.6 to 0.7 of the time with two workers, and 0.5
    /// to 0.7 of the CPU.
    pub coalesce: Nanos,
    /// How often the sentinel, a parked worker with a timeout, looks at all queues while somebody runs. Default 500 us,
    /// 20 us to 1 s. Ours, assumed.
    pub sentinel_interval: Nanos,
    /// Polls of tasks out of the LIFO slot in a row before the deque has its turn, while such streaks are shorter than
    /// `slot_time` on average. Default 3, 1 or more; the cap and its value are tokio's.
    pub slot_polls_max: u32,
    /// How long after the beginning of a streak a woken task may still join it by way of the slot, where streaks are
    /// longer on average. Default 10 us, 0 to 1 s; with that `slot_polls_max` decides for all streaks up to a second.
    /// The clock is read once for as many tasks as take an eighth of it on average, 16 at most. Ours, measured.
    pub slot_time: Nanos,
    /// While a task waits for another's end: tasks that have not begun which a worker takes from the back of its deque,
    /// the newest first, before the front has its turn. Default 64, 0 (none) or more. Ours, measured: a tree of a
    /// million tasks takes 2.4 times as long with 8, and 0.7 of it with 128, by which others would wait twice as long.
    pub join_polls_max: u32,
    /// Operations on the runtime's resources a poll before the task, or the future of a `block_on`, must yield. Default
    /// 128 (tokio's), 1 or more; 255 is no limit, and nothing is counted then, so that [`solo`](Config::solo) has
    /// nothing to go by.
    pub budget: u8,
    /// Tasks a worker takes before it looks at the injector and the group's queues again. Default 61 (Go's and tokio's:
    /// a prime, so that it does not beat with a program's own periods), 1 or more.
    pub global_interval: u32,
    /// How often a worker reads the clock between two tasks and looks at the queues that it shares, at least, while
    /// tasks take as long as they did before. While they take longer than an eighteenth of it: for how long those
    /// queues go on, at most, after each look that comes after the deque's tasks. Default 100 us, 1 us to 1 s. Ours,
    /// assumed.
    pub look_up: Nanos,
    /// Other workers at which a busy one looks in a `sentinel_interval` while nobody is idle, whether they are stuck,
    /// at most. Default 8, 1 to 4096. Ours, assumed.
    pub observed: u32,
    /// Seed of every pseudo-random choice. Default 0x5EED, any number.
    pub seed: u64,
    /// Policy 1: into which queue a woken task goes.
    pub wake_groups: WakeGroups,
    /// Policy 2: whether a waker looks for an idle worker beyond the task's group.
    pub idle_filter: IdleFilter,
    /// Policy 3: which last-level cache tasks that share data prefer.
    pub aggregation: Aggregation,
    /// Policy 4: how often a wake may move a task out of its group.
    pub migration_cap: MigrationCap,
    /// Policy 5: when a worker's counts become visible to others.
    pub lazy_counters: LazyCounters,
    /// Policy 6: when a task may start on, or be taken from, another node.
    pub numa: Numa,
    /// How eagerly a worker without work looks at far queues.
    pub steal: Steal,
    /// When whatever one of the policies skips is done after all.
    pub skip: Skip,
    /// Whether a worker is unparked only if that is expected to pay.
    pub wake_cost: WakeCost,
    /// Whether one worker goes on alone where that gets more done.
    pub solo: Solo,
    /// Whether short tasks go before long ones that have waited for longer.
    pub overtake: Overtake,
    /// Which worker of a cache has its timers.
    pub timers: Timers,
    /// Which worker starts a user-level thread.
    pub bind: Bind,
    /// Where workers are pinned one to one, and when one that is bound may run in more places.
    pub pin: Pin,
    /// For tests of the mechanism: silly answers. Default none.
    pub adversary: Adversary,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            spin_max: Nanos::from_micros(50),
            spin_vain: 8,
            spin_probe: 16,
            poll_interval: Nanos::from_micros(200),
            poll_dry: Nanos::from_micros(20),
            poll_early: 15,
            poll_vain: 8,
            coalesce: Nanos::from_micros(1),
            sentinel_interval: Nanos::from_micros(500),
            slot_polls_max: 3,
            slot_time: Nanos::from_micros(10),
            join_polls_max: 64,
            budget: 128,
            global_interval: 61,
            look_up: Nanos::from_micros(100),
            observed: 8,
            seed: 0x5EED,
            wake_groups: WakeGroups::default(),
            idle_filter: IdleFilter::default(),
            aggregation: Aggregation::default(),
            migration_cap: MigrationCap::default(),
            lazy_counters: LazyCounters::default(),
            numa: Numa::default(),
            steal: Steal::default(),
            skip: Skip::default(),
            wake_cost: WakeCost::default(),
            solo: Solo::default(),
            overtake: Overtake::default(),
            timers: Timers::default(),
            bind: Bind::default(),
            pin: Pin::default(),
            adversary: Adversary::None,
        }
    }
}

impl Config {
    /// Plain work stealing: every policy off. Wakes go to the waker's slot or deque, or to an injector from outside;
    /// one parked worker is woken unless somebody searches; searches look everywhere.
    #[must_use]
    pub fn baseline() -> Self {
        let mut config = Self::default();
        config.timers.looks = 0;
        config.wake_groups.mode = Mode::Off;
        config.idle_filter.mode = Mode::Off;
        config.aggregation.mode = Mode::Off;
        config.migration_cap.mode = CapMode::Off;
        config.lazy_counters.mode = Mode::Off;
        config.numa.mode = Mode::Off;
        config.steal.gates = Mode::Off;
        config.wake_cost.mode = Mode::Off;
        config.solo.mode = Mode::Off;
        config.overtake.mode = Mode::Off;
        config
    }

    /// How a [`Plan`](crate::Plan) for this configuration is compiled; `workers` as in [`PlanOptions`].
    #[must_use]
    pub fn plan_options(&self, workers: Option<u16>) -> PlanOptions {
        PlanOptions {
            workers,
            grouping: quadrille_topology::Grouping {
                size: self.wake_groups.group_size,
                merge_small_l2: self.wake_groups.merge_small_l2,
            },
            map: self.wake_groups.map.clone(),
            near: None,
        }
    }
}

/// A configuration that makes no sense, or a text that is none; says which field, its value and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    message: String,
    kind: ErrorKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorKind {
    Syntax,
    Range,
}

impl ConfigError {
    /// Whether a text could not be read: an unknown name, or a value of the wrong kind.
    #[must_use]
    pub fn is_syntax(&self) -> bool {
        self.kind == ErrorKind::Syntax
    }

    /// Whether a value lies outside its range.
    #[must_use]
    pub fn is_range(&self) -> bool {
        self.kind == ErrorKind::Range
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for ConfigError {}
