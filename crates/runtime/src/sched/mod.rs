//! The scheduler: mechanism only. Where a task goes and who is woken is asked of `quadrille-policy`; that nothing is
//! lost is argued in `README.md` beside this file, whose labels the comments cite.

mod alarms;
mod arrival;
mod bind;
pub(crate) mod bound;
mod contended;
pub(crate) mod context;
mod coupling;
pub(crate) mod departure;
mod dry;
mod far;
pub(crate) mod idle;
pub(crate) mod in_place;
mod latch;
pub(crate) mod load;
mod lookout;
#[cfg(all(test, quadrille_loom))]
mod loom;
mod outside;
mod overtake;
pub(crate) mod park;
mod poll;
pub(crate) mod publish;
pub(crate) mod queue;
mod reserve;
pub(crate) mod rings;
mod run_delay;
mod schedule;
mod search;
mod sets;
pub(crate) mod shutdown;
mod solo;
pub(crate) mod stats;
#[cfg(all(test, not(quadrille_loom)))]
pub(crate) mod still;
mod streaks;
mod theft;
mod timers;
mod unpark;
mod unwind;
mod view;
mod wake_cost;
#[cfg(all(test, not(quadrille_loom)))]
mod wake_lines;
mod watch;
pub(crate) mod worker;

use std::sync::{Arc, Weak};
use std::task::Waker;

use crossbeam_utils::CachePadded;
use quadrille_policy::{Nanos, Plan, Policy, WorkerId};

use self::departure::Departures;
use self::in_place::Relief;
use self::latch::Latch;
use self::load::Loads;
use self::outside::Outside;
use self::park::Sleepers;
use self::queue::export::ExportQueue;
use self::queue::group::GroupQueue;
use self::queue::injector::Injector;
use self::queue::local::{Local, Stealer};
use self::queue::mailbox::Mailbox;
use self::queue::slot::Slot;
use self::sets::Sets;
use self::shutdown::{Running, Terminated};
use self::solo::Solo;
use self::stats::{ForeignCounters, WorkerCounters};
use self::wake_cost::MeasuredWake;
use crate::blocking::Pool;
use crate::branches::chance::BlockOns;
use crate::primitives::{AtomicU32, AtomicU64, Ordering, StaticU64};
use crate::reactor::ring::Rings;
use crate::signal::Hubs;
use crate::stress::{self, Mutex, StaticMutex};
use crate::task::Runnable;
use crate::task::registry::Registry;
use crate::thread::note::Notes;
use crate::thread::roll::Names;
use crate::thread::stack::Stacks;
use crate::time::clock::Clock;
use crate::time::store::Store;

pub(crate) use self::schedule::schedule;
pub(crate) use self::streaks::waits_for_a_task;

/// Members of a group, by their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Members {
    group: usize,
    bits: u64,
}

/// What others may see of a worker.
#[derive(Debug)]
pub(crate) struct WorkerShared {
    pub(crate) slot: Slot<Runnable>,
    pub(crate) stealer: Stealer,
    /// Its bound threads that others have woken (B).
    pub(super) bound: Mailbox<Runnable>,
    /// Its bound threads that were ever suspended and have not ended, and its bound tasks. One writer.
    pub(super) living: AtomicU32,
    /// The tasks among them.
    pub(super) living_tasks: AtomicU32,
    /// What those wait for.
    pub(crate) notes: Notes,
    pub(crate) counters: WorkerCounters,
    /// On lines of their own: others read them with every wake-up, while the worker writes all the rest with every
    /// task.
    told: CachePadded<Told>,
    /// What was set here and has not expired. On lines of their own: its worker writes them with every timer.
    pub(crate) timers: CachePadded<Store<Waker>>,
}

/// What a worker tells others of itself now and then, for their decisions.
#[derive(Debug, Default)]
struct Told {
    /// When it was last unparked, by the unparker's clock; zero once it has looked.
    unparked_at: AtomicU64,
    /// Average run of a task there, ns; zero: unknown.
    average_run: AtomicU64,
    /// Until when its deque is left to it, because stealing from it doesn't pay, or it goes on alone; by the clock.
    spared_until: AtomicU64,
    /// Until when other tasks' wakers leave it alone while it is idle (policy 2); by the clock.
    reserved_until: AtomicU64,
}

impl Told {
    /// Tells the average run of a task if it is not about what was told last: others compare it with multiples of what
    /// a wake-up costs, and lose the line with each change.
    fn tell_average(&self, average: Nanos) {
        // Ordering: Relaxed; an estimate for others.
        let told = self.average_run.load(Ordering::Relaxed);
        if average.0.abs_diff(told) > told / 8 {
            // Ordering: Relaxed; as above.
            self.average_run.store(average.0, Ordering::Relaxed);
        }
    }
}

impl WorkerShared {
    fn new(local: &Local) -> Self {
        Self {
            slot: Slot::new(),
            stealer: local.stealer(),
            bound: Mailbox::new(),
            living: AtomicU32::new(0),
            living_tasks: AtomicU32::new(0),
            notes: Notes::new(),
            counters: WorkerCounters::default(),
            told: CachePadded::default(),
            timers: CachePadded::new(Store::new()),
        }
    }

    /// Whether thieves leave its deque alone, by the cost of moving what is in it, or because it goes on alone. What is
    /// stuck there is rescued all the same (W5).
    #[inline]
    pub(crate) fn is_spared(&self, now: Nanos) -> bool {
        // Ordering: Relaxed; a hint.
        now.0 < self.told.spared_until.load(Ordering::Relaxed)
    }
}

/// A runtime's scheduler, shared by its workers, handles and foreign wakers.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) policy: Policy,
    /// Tells it apart from all other runtimes of this process, past and future ones included.
    pub(crate) number: u64,
    pub(crate) workers: Box<[CachePadded<WorkerShared>]>,
    pub(crate) groups: Box<[GroupQueue<Runnable>]>,
    pub(crate) injectors: Box<[CachePadded<Injector>]>,
    /// One a LLC; none while policy 3 is off.
    pub(crate) exports: Box<[CachePadded<ExportQueue>]>,
    pub(crate) sets: Sets,
    /// By LLC: the groups that count for it, for rotating searches.
    llc_groups: Box<[Box<[usize]>]>,
    /// By LLC: where its workers are. The same groups with all their members, unless a map scatters groups over caches.
    llc_members: Box<[Box<[Members]>]>,
    pub(crate) sleepers: Sleepers,
    /// For operations by io_uring; why there are none.
    pub(crate) rings: Result<Arc<Rings>, String>,
    pub(crate) loads: Loads,
    pub(crate) registry: Registry,
    pub(crate) foreign: ForeignCounters,
    /// Measured cost of waking a parked worker, ns, moving average; contention for the CPUs included.
    wake_cost: CachePadded<MeasuredWake>,
    /// Workers that may still run tasks.
    looping: Latch,
    /// Workers that have not left.
    running: Running,
    terminated: Terminated,
    pub(crate) departures: Arc<Departures>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
    pub(crate) pool: Pool,
    relief: Relief,
    /// Who listens to signals of the process.
    pub(crate) signals: Hubs,
    /// The memory that user-level threads run on.
    pub(crate) stacks: Stacks,
    /// The names of the threads that have one.
    pub(crate) thread_names: Names,
    pub(crate) name: String,
    /// Which worker goes on alone.
    solo: CachePadded<Solo>,
    /// What was found, what was chosen and why: the start-up line.
    pub(crate) report: String,
    /// Workers that could not be pinned as planned.
    pin_failures: AtomicU32,
    /// Tasks that move in one steal or one visit to an injector, at most.
    batch: usize,
    /// Tasks that move out of a group's queue at once, at most.
    group_batch: usize,
    /// Tasks that a worker puts up for other caches at once, at most.
    export_batch: usize,
    /// Groups with idle members that a search of a cache looks at, at most.
    looks: usize,
    /// Whether idle workers spin before they sleep: not if they share hardware threads, or have only one.
    pub(crate) spins: bool,
    outside: Outside,
    /// How late timers may be to expire together with others.
    timer_slack: Nanos,
    pub(crate) clock: Clock,
    pub(crate) block_ons: BlockOns,
    this: Weak<Self>,
}

/// What a scheduler is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) policy: Policy,
    pub(crate) pool: Pool,
    pub(crate) spins: bool,
    /// Hardware threads beyond the workers.
    pub(crate) spare: u32,
    pub(crate) timer_slack: Nanos,
    /// Of a user-level thread that asks for none, bytes.
    pub(crate) stack_size: usize,
    pub(crate) start_paused: bool,
    pub(crate) report: String,
    pub(crate) name: String,
    pub(crate) rings: Result<Arc<Rings>, String>,
}

/// The live schedulers of the process, for abort handles that outlive theirs.
static LIVE: StaticMutex<Vec<Weak<Shared>>> = StaticMutex::new(Vec::new());

/// The number of the last runtime.
static LAST: StaticU64 = StaticU64::new(0);

impl Shared {
    /// A scheduler and the owner's ends of its deques, one a worker.
    pub(crate) fn new(parts: Parts) -> (Arc<Self>, Vec<Local>) {
        let Parts {
            policy,
            pool,
            spins,
            spare,
            timer_slack,
            stack_size,
            start_paused,
            report,
            name,
            rings,
        } = parts;
        let locals: Vec<Local> = policy.plan.workers.iter().map(|_| Local::new()).collect();
        let workers = locals
            .iter()
            .map(|local| CachePadded::new(WorkerShared::new(local)))
            .collect();
        let plan = policy.plan.clone();
        let on_contention = policy.config.wake_groups.on_contention;
        let count = u32::try_from(plan.workers.len()).expect("workers fit u16");
        let coupled_llcs = if policy.aggregates() { plan.llcs.len() } else { 0 };
        let shared = Arc::new_cyclic(|this| Self {
            // Ordering: Relaxed; only that no two are equal matters.
            number: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            workers,
            groups: plan.groups.iter().map(|_| GroupQueue::new(on_contention)).collect(),
            injectors: plan.llcs.iter().map(|_| CachePadded::default()).collect(),
            exports: (0..coupled_llcs)
                .map(|_| CachePadded::new(ExportQueue::default()))
                .collect(),
            sets: Sets::new(coupled_llcs, policy.config.aggregation.ttl),
            llc_groups: plan
                .llcs
                .iter()
                .map(|llc| llc.groups.iter().map(|g| g.index()).collect())
                .collect(),
            llc_members: plan.llcs.iter().map(|llc| members_of(&plan, &llc.workers)).collect(),
            sleepers: Sleepers::new(&plan),
            rings,
            loads: Loads::new(&policy, &plan),
            batch: stress::batch(policy.config.steal.batch),
            group_batch: stress::batch(policy.config.steal.group_batch),
            export_batch: stress::batch(policy.config.aggregation.export_batch),
            looks: usize::from(policy.config.idle_filter.looks),
            registry: Registry::new(),
            foreign: ForeignCounters::default(),
            wake_cost: CachePadded::new(MeasuredWake::new(&policy)),
            looping: Latch::new(count),
            running: Running::new(count),
            terminated: Terminated::new(),
            departures: Departures::new(plan.workers.len()),
            threads: Mutex::new(Vec::new()),
            pool,
            relief: Relief::default(),
            signals: Hubs::default(),
            stacks: Stacks::with_default(plan.llcs.len(), stack_size),
            thread_names: Names::new(),
            name,
            report,
            pin_failures: AtomicU32::new(0),
            spins,
            outside: Outside::new(spare),
            timer_slack,
            clock: Clock::new(start_paused),
            solo: CachePadded::new(Solo::new(&policy)),
            block_ons: BlockOns::default(),
            this: this.clone(),
            policy,
        });
        LIVE.lock().unwrap().push(Arc::downgrade(&shared));
        (shared, locals)
    }

    /// The live scheduler at `address`, if there is one.
    pub(crate) fn find(address: usize) -> Option<Arc<Self>> {
        LIVE.lock()
            .unwrap()
            .iter()
            .find(|weak| weak.as_ptr().addr() == address)
            .and_then(Weak::upgrade)
    }

    /// A counted reference, while one exists.
    pub(crate) fn arc(&self) -> Arc<Self> {
        self.this
            .upgrade()
            .expect("the caller reached `self` through a counted reference")
    }

    /// A worker could not be bound to its hardware threads and runs where the kernel puts it.
    pub(crate) fn pin_failed(&self) {
        // Ordering: Relaxed; a statistic.
        self.pin_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Workers that could not be pinned as planned.
    pub(crate) fn pin_failures(&self) -> u32 {
        // Ordering: Relaxed; a statistic.
        self.pin_failures.load(Ordering::Relaxed)
    }

    /// Number of workers.
    pub(crate) fn worker_count(&self) -> usize {
        self.workers.len()
    }
}

/// By group, where `workers` are.
fn members_of(plan: &Plan, workers: &[WorkerId]) -> Box<[Members]> {
    let mut members: Vec<Members> = Vec::new();
    for worker in workers {
        let worker = &plan.workers[worker.index()];
        let (group, bit) = (worker.group.index(), 1 << worker.member);
        match members.iter_mut().find(|known| known.group == group) {
            Some(known) => known.bits |= bit,
            None => members.push(Members { group, bits: bit }),
        }
    }
    members.into()
}

impl Drop for Shared {
    fn drop(&mut self) {
        let me: *const Self = self;
        if let Ok(mut live) = LIVE.lock() {
            live.retain(|weak| weak.as_ptr() != me);
        }
    }
}
