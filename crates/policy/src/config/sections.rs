//! The sections of a [`Config`](super::Config): one for each policy.

use quadrille_topology::GroupSize;

use crate::{GroupMap, Nanos};

/// Whether a policy is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Never.
    Off,
    /// Always.
    On,
    /// Where it is known to pay (the default); [`Config`](super::Config) says when.
    #[default]
    Auto,
}

impl Mode {
    /// Whether the policy is on, given whether it pays.
    #[must_use]
    pub(crate) const fn resolve(self, pays: bool) -> bool {
        match self {
            Self::Off => false,
            Self::On => true,
            Self::Auto => pays,
        }
    }
}

/// Policy 1, grouped wake queues: a woken task is queued in a group of few workers, by lock from inside the group and
/// through a lock-free mailbox from outside.
///
/// After the series by Mathieu Desnoyers, August 2023 (20230822113133.643238-4-mathieu.desnoyers@efficios.com): the
/// fewer workers may take one queue's lock, the better, and 4 are as good as 1 (hackbench 33, 34, 34, 39, 49 s for 1,
/// 2, 4, 8, 16).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakeGroups {
    /// Default auto.
    pub mode: Mode,
    /// What makes a group. Default: the workers that share a level-2 cache, cut evenly into at most 4, and those behind
    /// a last-level cache of at most 4; a number (1 to 64) cuts each last-level cache in topological order instead, for
    /// experiments.
    pub group_size: GroupSize,
    /// Joins neighbouring small L2s of one last-level cache while the sum is at most 4. Default false.
    pub merge_small_l2: bool,
    /// The groups as listed, whatever they share, for experiments: every worker in one group of at most 64. Default
    /// none.
    pub map: Option<GroupMap>,
    /// What a member does if the group's lock is taken. Default mailbox.
    pub on_contention: OnContention,
    /// Age of a group's mailbox from which a worker of the same last-level cache drains it; if no member is expected
    /// within that, any age will do ([`Policy::members_are_away`](crate::Policy::members_are_away)). Default 50 us, at
    /// most `rescue_any`. Ours, assumed.
    pub rescue_llc: Nanos,
    /// Age of a group's queue from which any worker drains it; while groups are used, the sentinel looks at them as
    /// often as this, until that has proved useless ([`glance_vain`](Self::glance_vain)). Default 200 us, at most 1 s.
    /// Ours, assumed.
    pub rescue_any: Nanos,
    /// Looks of the sentinel in a row that find no group's queue overdue, after which it looks as often as
    /// without groups ([`Config::sentinel_interval`](crate::Config::sentinel_interval)) until it finds one; see
    /// [`Glances`](crate::Glances). Default 8; 0: it always looks as without groups; 255: it never does. Ours.
    pub glance_vain: u8,
    /// Tasks queued a member, mailbox included, beyond which further ones go to the queue of the last-level cache.
    /// Default 2, 1 to 1,000,000. Ours, assumed.
    pub overflow_factor: u32,
    /// A woken task stays with its waker if the runs of its home worker's tasks are at most so many times as long as
    /// waking a worker takes, and those of its waker at most [`waker_runs`](Self::waker_runs) times that. Default 6; 0:
    /// never; at most 1000. The idea is the kernel's (Chen Yu, "sched/fair: Choose the CPU where short task is running
    /// during wake up", 2022; earlier `sched_short_burst` of Android's kernels), where a fixed time decides; the number
    /// is ours, from the simulator.
    pub short_runs: u32,
    /// Runs of its home worker's tasks up to which a woken task stays with its waker, whatever waking somebody takes,
    /// if nobody behind the cache of its home is idle; those of its waker may be [`waker_runs`](Self::waker_runs) times
    /// as long. Default 1 ms; 0: never, nor with [`short_runs`](Self::short_runs) 0; at most 1 s. Ours, from the
    /// simulator.
    pub short_busy: Nanos,
    /// How many times as long the waker's own tasks may run, for which the woken one then waits. Default 4, 1 to 1000.
    /// Ours, from the simulator.
    pub waker_runs: u32,
}

impl Default for WakeGroups {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            group_size: GroupSize::L2,
            merge_small_l2: false,
            map: None,
            on_contention: OnContention::Mailbox,
            rescue_llc: Nanos::from_micros(50),
            rescue_any: Nanos::from_micros(200),
            glance_vain: 8,
            overflow_factor: 2,
            short_runs: 6,
            short_busy: Nanos::from_millis(1),
            waker_runs: 4,
        }
    }
}

/// What a member of a group does if the lock of the group's queue is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnContention {
    /// It pushes into the mailbox like everybody else.
    #[default]
    Mailbox,
    /// It waits for the lock, as the kernel does. For reproducing the kernel's figures.
    Spin,
}

/// Policy 2, the cut-off of the search for idle workers: the busier a last-level cache, the less a waker looks beyond
/// the task's group.
///
/// After Chen Yu's `SIS_UTIL` (20220612163428.849378-1-yu.c.chen@intel.com, Linux 6.0): a search finds the less the
/// more is running, and what it finds is a migration. How a waker looks depends on how often a random probe of two
/// workers succeeds: the idea that a filter pays only where that is rare is Abel Wu's
/// (20220909055304.25171-6-wuyun.abel@bytedance.com). Off: a waker always probes two workers at random.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleFilter {
    /// Default auto. It needs policy 1: without it only `publish_delay` is left of this.
    pub mode: Mode,
    /// Imbalance margin m in percent: the chance of a search is 1 - (u * m/100)^2 from `light_load` on, so there is
    /// none from utilisation u = 100/m on, or `light_load` if that is more. Default 117 (cut-off at 85.5 %), 100 to
    /// 1000. `SIS_UTIL`'s.
    pub cutoff_margin_pct: u16,
    /// How often utilisation is sampled; a sample counts a quarter. Default 1 ms, 100 us to 1 s. Ours, assumed (the
    /// kernel: at each newly idle balance).
    pub sample: Nanos,
    /// How long a worker that has found nothing remains a searcher before it announces itself idle, where this policy
    /// is on, or cost-aware wake, and workers spin. Default 3 us, at most 1 ms. Ours, measured: without it a ping-pong
    /// writes the group's idle word twice a round trip, and a task at a time from outside takes 5 to 8 times as long on
    /// two CPUs. The last one that is awake goes on for two wake-ups as they were measured, `spin_max` at most, where
    /// that has paid lately, as spins have (`spin_vain`, `spin_probe`). A worker does not if its first timer expires
    /// within 20 times as long, or 20 of the longest spins; nor if it would poll for readiness; nor while its clock is
    /// paused.
    pub publish_delay: Nanos,
    /// Share (1/1024) of random probes that meet an idle worker below which a waker looks at the mask of idle groups.
    /// Default 256, at most `probe_above`. Ours, assumed.
    pub mask_below: u16,
    /// Share (1/1024) above which it only probes. Default 512, at most 1024. Ours, assumed.
    pub probe_above: u16,
    /// How often a worker asks itself whether to probe or to look at the mask. Default 10 ms, 100 us to 10 s. Ours,
    /// assumed.
    pub regime: Nanos,
    /// While it looks at the mask, one search of so many probes first, to see whether that has become worth it. Default
    /// 8, 1 to 255. Ours, assumed.
    pub probe_every: u8,
    /// Groups with idle members that a search looks at, at most: the one that the mask names, and further ones if
    /// somebody else was faster there. Default 3, 1 to 64. Ours, assumed.
    pub looks: u8,
    /// Below this utilisation (1/1024) a waker always searches, and a probe that misses is followed by a look at the
    /// mask: at light load nobody waits beside an idle worker. Default 512, at most 1024. Ours, assumed; the kernel's
    /// filter lost 5 to 8 % there.
    pub light_load: u16,
    /// An idle worker is kept for the task that it ran last, if such tasks sleep for at most so long there on average,
    /// until that time has passed ([`Reserve`](crate::Reserve)). Default 0, which is never; at most 1 ms. Worth trying:
    /// 50 us. After `SIS_CACHE` (d49cf5748aa7c6d69580315d2373a9eafa21c21f.1694397335.git.yu.c.chen@intel.com, not
    /// merged), whose limit was the kernel's 500 us.
    pub reserve: Nanos,
}

impl Default for IdleFilter {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            cutoff_margin_pct: 117,
            sample: Nanos::from_millis(1),
            publish_delay: Nanos::from_micros(3),
            mask_below: 256,
            probe_above: 512,
            regime: Nanos::from_millis(10),
            probe_every: 8,
            looks: 3,
            light_load: 512,
            reserve: Nanos(0),
        }
    }
}

/// Policy 3, aggregation: tasks that share data (a coupling set) prefer one last-level cache.
///
/// After cache-aware scheduling by Chen Yu and Tim Chen (cover.1775065312.git.tim.c.chen@linux.intel.com, Linux 7.2).
/// It acts in what thieves of other caches may take and in a pull once an epoch; when a task is woken it decides only
/// between idle workers, because the kernel's first versions bounced tasks between caches there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregation {
    /// Default auto. It needs policy 1, and more than one last-level cache.
    pub mode: Mode,
    /// How often occupancy is halved and the preference looked at. Default 10 ms (the kernel's), 1 ms to 10 s.
    pub epoch: Nanos,
    /// A preference ends when the set has not run for this long: once somebody who ran it again tells of that, an epoch
    /// later at most. What is woken or spawned until then still follows it, since to ask for the time would cost every
    /// wake a line that is written all the while. Default 50 ms (the kernel's 5 epochs), `epoch` to 1,000 s.
    pub ttl: Nanos,
    /// Another cache becomes the preferred one if the set's occupancy there is more than this many times that of the
    /// preferred one. Default 2 (the kernel's), 1 to 16.
    pub hysteresis: u32,
    /// A set has a preference while its running tasks are fewer than this share (1/1024) of the cache's workers.
    /// Default 819 (80 %, the kernel's), at most 1024.
    pub max_set: u16,
    /// Whether a set of more tasks than a cache takes, data that were declared to exceed one, or a cache that is busy,
    /// end aggregation. Default true; false is for reproducing what the kernel's first versions lost.
    pub guards: bool,
    /// A cache fits more tasks below this utilisation (1/1024). Default 512 (the kernel's 50 %), at most 1024.
    pub fit: u16,
    /// A cache is clearly busier than another at more than this ratio (1/1024). Default 1229 (the kernel's 20 % more),
    /// 1024 to 10240.
    pub greater: u16,
    /// Wakes in a row from one other cache that make a task move to its waker's. Default 4, 1 or more. Ours, assumed.
    pub pull_after: u8,
    /// By so many more wakes from another node than from home's, since they were as many, a task moves to its waker's
    /// cache there, if home's runs are neither short nor long ([`WakeGroups::short_runs`], [`WakeGroups::short_busy`])
    /// and that cache is below [`fit`](Self::fit), as all are without [`guards`](Self::guards), or no busier than
    /// home's; none of a declared set that may prefer a cache. Less than `pull_after` is as much as that, which counts
    /// wakes from another node in the same way then. Default 12; 0: none moves for that. Ours, simulated.
    pub drift: u8,
    /// A waker of more different tasks than this of late is wide, and pulls none. Default 4, at most
    /// 64. Ours, assumed: between a server's few partners and the 20 receivers of a hackbench sender.
    pub wide: u32,
    /// Of late: tasks that it has woken are forgotten between one and two of these later. Default 1 s, 1 ms to 1000 s.
    /// Ours, assumed.
    pub wakees_for: Nanos,
    /// Wakes by a task on one worker, for each different task that it has woken there, after which it is known whether
    /// it is wide; until then it pulls none. Default 4, 1 to 1000. Ours, assumed: as many as make a task move, and one
    /// that wakes eight at random passes for one of up to four in one of 300 cases.
    pub known_after: u16,
    /// Tasks that a worker puts up for other caches at once, at most. Default 16, 1 to 4096. Ours, assumed: as many as
    /// the workers of a few groups begin with.
    pub export_batch: u32,
    /// A thief takes only what other caches export until it has found nothing for so long. Default 20 us, at most 1 s.
    /// Ours, assumed; the idea is scx_lavd's last-resort steal.
    pub force_steal_after: Nanos,
    /// A set whose average run is at least this long, and that is seldom woken, is taken to have data of its own and is
    /// spread. Default 1 ms, at most 1 s. Ours, assumed.
    pub spread_slice: Nanos,
    /// Seldom: fewer wakes a second for each task that runs. Default 100, 0 or more; with 50 and fewer nothing is
    /// inferred of a set with one running task, which is woken at least once in two epochs (10 ms each) that are looked
    /// at. Ours, assumed.
    pub spread_wakes: u32,
}

impl Default for Aggregation {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            epoch: Nanos::from_millis(10),
            ttl: Nanos::from_millis(50),
            hysteresis: 2,
            max_set: 819,
            guards: true,
            fit: 512,
            greater: 1229,
            pull_after: 4,
            drift: 12,
            wide: 4,
            wakees_for: Nanos::from_millis(1000),
            known_after: 4,
            export_batch: 16,
            force_steal_after: Nanos::from_micros(20),
            spread_slice: Nanos::from_millis(1),
            spread_wakes: 100,
        }
    }
}

/// Policy 4, the migration cap: in a window, wakes may move a task between groups only so often; then it goes home.
///
/// After the series by Mathieu Desnoyers, September 2023 (20230905171105.1005672-2- and
/// -3-mathieu.desnoyers@efficios.com). It counts group changes only, never refuses a steal or what policy 3 fetches,
/// and gives way when the home group does not get on with its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationCap {
    /// Default auto. It needs policy 1.
    pub mode: CapMode,
    /// The window. Default 1 ms (the kernel series: 2 ms), 10 us to 1 s.
    pub window: Nanos,
    /// Group changes allowed in a window: at most, and to begin with. Default 10 (the kernel series'), 1 to 255.
    pub quota: u8,
    /// A busy home group is good enough, and nothing is searched, while its queue with the new task is no longer than
    /// this many tasks (1/1024) a member. Default 819 (80 %), at most 65535; 0 switches it off. The value is that of
    /// `UTIL_FITS_CAPACITY` (20231019160523.1582101-1-mathieu.desnoyers@efficios.com); queue length instead of
    /// utilisation is ours, assumed.
    pub fits: u16,
    /// Below this utilisation (1/1024) of the home group's last-level cache an idle worker there ends the cap. Default
    /// 512, at most 1024. Ours, assumed.
    pub light_load: u16,
    /// The cap ends when the oldest task in the home group's queue has waited for so long. Default 100 us, at most 1 s.
    /// Ours, assumed.
    pub stalled_home: Nanos,
}

impl Default for MigrationCap {
    fn default() -> Self {
        Self {
            mode: CapMode::Auto,
            window: Nanos::from_millis(1),
            quota: 10,
            fits: 819,
            light_load: 512,
            stalled_home: Nanos::from_micros(100),
        }
    }
}

/// How the quota of the [`MigrationCap`] behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CapMode {
    /// There is no cap.
    Off,
    /// The quota is always the same.
    Fixed,
    /// The quota halves when a window used it up and grows by one when it did not.
    Adaptive,
    /// As adaptive while wake groups are on, else off (the default).
    #[default]
    Auto,
}

/// Policy 5, lazily published counters: a worker tells others a count only if it changed by much and not too often.
///
/// After Aaron Lu's change to Linux 6.7 (20230912065808.2530-2-aaron.lu@intel.com).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LazyCounters {
    /// Default auto. Off: every change is published at once.
    pub mode: Mode,
    /// Between two publications, at least. Default 1 ms (the kernel's), at most 1 s.
    pub interval: Nanos,
    /// A change is published if it exceeds the published count divided by this. Default 64 (the kernel's), 1 or more.
    pub threshold_div: u32,
}

impl Default for LazyCounters {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            interval: Nanos::from_millis(1),
            threshold_div: 64,
        }
    }
}

/// Policy 6, small imbalance: a few tasks stay on one node though another is idle.
///
/// After Barry Song's and Mel Gorman's work for Linux 5.11 to 6.0 (commits 7d2b5dd0bcc4, e496132ebedd, 026b98a93bbd).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numa {
    /// Default auto. On one node with several last-level caches it acts between those, when tasks are stolen.
    pub mode: Mode,
    /// A node with one last-level cache tolerates its number of workers divided by this; one with several, their
    /// number. Default 8 (Linux 6.0; 4 until then), 1 or more.
    pub tolerance_div: u16,
    /// Tasks that a last-level cache keeps to itself on a machine of one node. Default 2, at most 65535. Ours, assumed.
    pub llc_tolerance: u16,
    /// So many tasks queued a worker are no small imbalance, whatever the tolerance. Default 2, 1 to 1,000,000. Ours,
    /// assumed.
    pub queues_up: u32,
    /// Caches of a node at which a worker looks that spawns a task, of its own node's and of one other's; or that wakes
    /// one which might follow its set, or its waker, to another node. Default 4, 1 to 65535, so that neither costs more
    /// on a larger machine. Ours, assumed.
    pub looks: u16,
    /// Differences in idle workers up to this are none. Default 2 (Linux), 0 or more.
    pub min_imbalance: u32,
    /// A worker finds nothing on its own node for so long before it steals from another. Default 50 us, at most 1 s.
    /// Ours, assumed.
    pub steal_after: Nanos,
    /// So many tasks of a set that was declared (a task group) stay on their node together, whatever the tolerance;
    /// later ones of the set are new tasks like any other. Default 4, the most workers that a group has by default; 0
    /// or more; 0: none. Ours: an eighth of a node of 24 workers is 3, which would split four threads that share a
    /// line.
    pub small_set: u32,
}

impl Default for Numa {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            tolerance_div: 8,
            llc_tolerance: 2,
            queues_up: 2,
            looks: 4,
            min_imbalance: 2,
            steal_after: Nanos::from_micros(50),
            small_set: 4,
        }
    }
}

/// How eagerly a worker without work looks at queues beyond its group.
///
/// After Peter Zijlstra's newidle balancing by success ratio (20251107161739.770122091@infradead.org, commit
/// 33cf66d88306): a level where little was found is looked at seldom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steal {
    /// Default auto. Off: every search looks everywhere.
    pub gates: Mode,
    /// Success ratio (1/1024) to begin with. Default 512 (the kernel's), at most 1023.
    pub gate_start: u16,
    /// What moving a task to another core's cache costs all in all: a victim whose stolen tasks run once, for less than
    /// this, is left alone for a while ([`Profit`](crate::Profit)). Default 0, which is never; at most 1 ms. Worth
    /// trying between cores that are far apart: 250 ns, four cache lines there and back.
    pub move_cost: Nanos,
    /// After so many times in a row that it did not pay. Default 2, 1 to 255. Ours, assumed.
    pub cheap_max: u8,
    /// For how long. Default 1 ms, at most 1 s. Ours, assumed.
    pub pause: Nanos,
    /// Tasks that move in one steal or one visit to an injector, at most; each takes a share, of which this is only the
    /// limit. Default 128, 1 to 4096. Ours, measured: with 32 the thieves of a batch of 1000 short tasks come back so
    /// often that it takes 10 % longer.
    pub batch: u32,
    /// Tasks that move out of a group's queue at once, which its other members may want, at most. Default 32, 0
    /// to 4096. Ours, assumed.
    pub group_batch: u32,
}

impl Default for Steal {
    fn default() -> Self {
        Self {
            gates: Mode::Auto,
            gate_start: 512,
            move_cost: Nanos(0),
            cheap_max: 2,
            pause: Nanos::from_millis(1),
            batch: 128,
            group_batch: 32,
        }
    }
}

/// When whatever one of the policies skips is done after all: nothing is skipped for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// Age of the oldest waiting task that ends all skipping. Default 200 us, at most 1 s. Ours, assumed.
    pub max_age: Nanos,
    /// Skips in a row that end it: searches that a gate kept from a level, or that policy 6 spoiled. Default 8, at
    /// most 255. Ours, assumed.
    pub max_count: u8,
}

impl Default for Skip {
    fn default() -> Self {
        Self {
            max_age: Nanos::from_micros(200),
            max_count: 8,
        }
    }
}

/// Cost-aware wake: a worker is unparked if the expected wait of the queued work exceeds the cost of waking.
///
/// The rule was proposed for Go (<https://github.com/golang/go/issues/54622>). Both sides are measured at run time; the
/// constants bound the cost, and say what of it is forgotten and how often a worker looks whether others want the CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakeCost {
    /// Default auto, which is on. Off: one is unparked unless somebody searches.
    pub mode: Mode,
    /// What waking is taken to cost before it was measured, also if that is more than `most`. Default 10 us, at most 1
    /// s. Ours, assumed.
    pub first: Nanos,
    /// What it costs at least, whatever was measured. Default 1 us, at most `most`. Ours, assumed: less than any system
    /// call with a switch of threads takes.
    pub least: Nanos,
    /// What a measurement counts as at most, beside 8 times the average. Default 10 ms, which is longer than a slice of
    /// the kernel's where other programs want the CPU; at most 1 s. Ours, measured: with 100 us a server of 64
    /// connections beside its client, on two CPUs, took 1.16 times the CPU and 1.23 times the time a request, because a
    /// second worker was woken all the time and waited for its turn.
    pub most: Nanos,
    /// What is never forgotten; of what exceeds it a 256th is in each interval of the sentinel, and
    /// [`WakeGroups::short_runs`] does not count it. Default 100 us, at most 1 s. Ours, assumed: more than waking
    /// somebody takes on a virtual machine whose CPUs are free.
    pub kept: Nanos,
    /// At most this often a worker that was unparked looks how long it waits for a CPU until it lies down, which is
    /// part of what waking costs ([`Contention`](crate::Contention)). Default 10 ms, 0 (never) to 1 s. Ours, assumed: a
    /// look is two system calls.
    pub look: Nanos,
    /// What is spawned on a worker is expected to wait for as long as the longest of its recent bursts took; of that
    /// time one part in so many is forgotten at each look up ([`Bursts`](crate::Bursts)). Default 32, 0 (only what is
    /// queued counts) or more. Ours, measured: batches of 1,000 short tasks then take 0.75 to 0.9 of the time on two
    /// CPUs.
    pub burst: u32,
}

impl Default for WakeCost {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            first: Nanos::from_micros(10),
            least: Nanos::from_micros(1),
            most: Nanos::from_millis(10),
            kept: Nanos::from_micros(100),
            look: Nanos::from_millis(10),
            burst: 32,
        }
    }
}

/// Silly answers, for tests of the mechanism: whatever is answered, every task must still run once and soon.
///
/// Any but `None` puts all placements into the hands of the adversary and turns
/// [`Policy::groups_on`](crate::Policy::groups_on) on, and, even where they are off by their modes,
/// [`Overtake`](crate::Overtake) and with several workers [`Solo`](crate::Solo), with whose steps it plays as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Adversary {
    /// Sensible answers.
    #[default]
    None,
    /// Everything is queued in worker 0's group, for worker 0.
    AlwaysWorkerZero,
    /// Anything that the mechanism understands; who is claimed may even be nobody, or no member of the group.
    Random,
    /// Everything is queued in the group that is farthest from the task's home.
    Farthest,
}
