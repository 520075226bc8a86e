//! For tests: a scheduler whose workers are not started, so that each is what the test says it is.

use std::sync::Arc;

use quadrille_policy::{Config, Plan, Policy, SetId, WorkerId};

use super::queue::local::Local;
use super::worker::Worker;
use super::{Parts, Shared};
use crate::blocking::{Limits, Pool};
use crate::reactor::ring::Rings;
use crate::runtime::Handle;
use crate::sys::thread::Spawner;
use crate::task::Runnable;
use crate::task::spawn::{Options, allocate};
use crate::time::SLACK;

/// The scheduler, every worker awake. What is queued when it goes is dropped.
pub(crate) struct Still {
    pub(crate) shared: Arc<Shared>,
    /// By worker: its deque, until [`Still::worker`] takes it.
    locals: Vec<Option<Local>>,
}

impl Still {
    pub(crate) fn new(machine: &str, config: &str) -> Self {
        Self::with_rings(machine, config, Err("nobody needs them".to_owned()))
    }

    /// One whose workers spin before they sleep.
    pub(crate) fn spinning(machine: &str, config: &str) -> Self {
        Self::sparing(machine, config, 0)
    }

    /// The same on a machine with so many hardware threads more than workers.
    pub(crate) fn sparing(machine: &str, config: &str, spare: u32) -> Self {
        Self::with(machine, config, Err("nobody needs them".to_owned()), Some(spare))
    }

    /// So many of its workers are idle from now on.
    pub(crate) fn rest(&self, idle: usize) {
        let sleepers = &self.shared.sleepers;
        (0..idle).for_each(|worker| sleepers.idle.announce(sleepers.seat(worker)));
    }

    pub(super) fn with_rings(machine: &str, config: &str, rings: Result<Arc<Rings>, String>) -> Self {
        Self::with(machine, config, rings, None)
    }

    fn with(machine: &str, config: &str, rings: Result<Arc<Rings>, String>, spare: Option<u32>) -> Self {
        let config: Config = config.parse().unwrap();
        let plan = Plan::compile(&machine.parse().unwrap(), &config.plan_options(None)).unwrap();
        let (shared, locals) = Shared::new(Parts {
            pool: Pool::new(Limits::default(), "still", Spawner::default(), config.clone()),
            policy: Policy::new(config, plan),
            spins: spare.is_some(),
            spare: spare.unwrap_or(0),
            timer_slack: SLACK.into(),
            stack_size: crate::thread::stack::DEFAULT_SIZE,
            start_paused: false,
            report: String::new(),
            name: "still".to_owned(),
            rings,
        });
        let locals = locals.into_iter().map(Some).collect();
        Self { shared, locals }
    }

    pub(super) fn handle(&self) -> Handle {
        Handle {
            shared: self.shared.clone(),
        }
    }

    /// The deque of a worker, once.
    pub(super) fn local(&mut self, worker: u16) -> Local {
        self.locals[usize::from(worker)].take().unwrap()
    }

    /// A worker, once: the calling thread is it.
    pub(super) fn worker(&mut self, worker: u16) -> Worker {
        let local = self.local(worker);
        Worker::new(self.shared.clone(), WorkerId(worker), local, None)
    }

    /// Makes a worker idle. The first one becomes sentinel.
    pub(super) fn announce(&self, worker: u16) {
        let sleepers = &self.shared.sleepers;
        sleepers.idle.announce(sleepers.seat(usize::from(worker)));
        sleepers.take_duty(usize::from(worker));
    }

    /// Whether a worker's idle bit is set.
    pub(super) fn is_idle(&self, worker: u16) -> bool {
        self.shared.sleepers.is_idle(usize::from(worker))
    }

    /// A task of `set` that was made by `spawner`, ready.
    pub(super) fn task(&self, spawner: u16, set: SetId) -> Runnable {
        let policy = self.shared.new_policy(Some(WorkerId(spawner)), set);
        allocate(&self.shared, None, policy, Options::default(), async {}).0
    }

    /// Puts a task into an injector and tells nobody: its pusher relied on somebody who searched.
    pub(super) fn inject(&self, llc: u16) {
        self.shared.injectors[usize::from(llc)].push(self.task(0, SetId::NONE));
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Tasks may be left that nobody ends: to wait for them would hide why the test fails.
            return;
        }
        self.locals.clear();
        self.shared.never_started(self.shared.worker_count());
    }
}

/// Takes what is in the queues that are nobody's own.
pub(crate) fn take_queued(shared: &Shared) -> Vec<Runnable> {
    let injected = || shared.injectors.iter().find_map(|injector| injector.pop_one());
    let mut taken: Vec<_> = std::iter::from_fn(injected).collect();
    shared.groups.iter().for_each(|group| taken.extend(group.take_all()));
    taken
}
