//! Running a workload on a machine.

use std::fmt;

use quadrille_policy::{Config, ConfigError, Nanos, Plan, PlanError, Policy, WorkerId};

use crate::cost::{Cost, CostError};
use crate::engine::Event;
use crate::kernel::{Kernel, Units};
use crate::machine::Machine;
use crate::outcome::Report;
use crate::scheduler::{Model, Next, Scheduler, Why};
use crate::shipped::Shipped;
use crate::trace::Trace;
use crate::workload::{TaskId, Workload};
use crate::world::{End, World};

/// A workload on a machine, ready to run. See the [crate](crate) for an example.
#[derive(Debug)]
pub struct Simulation<W> {
    machine: Machine,
    model: Model,
    seed: u64,
    workload: W,
    world: World,
}

/// A configuration, or a cost, that cannot be simulated on a machine; says which value and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulationError(String);

impl fmt::Display for SimulationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SimulationError {}

impl From<PlanError> for SimulationError {
    fn from(error: PlanError) -> Self {
        Self(error.to_string())
    }
}

impl From<CostError> for SimulationError {
    fn from(error: CostError) -> Self {
        Self(error.to_string())
    }
}

impl From<ConfigError> for SimulationError {
    fn from(error: ConfigError) -> Self {
        Self(error.to_string())
    }
}

impl<W: Workload> Simulation<W> {
    /// Compiles `config` for `machine` with one worker a hardware thread.
    ///
    /// `seed` decides the choices of the workload and, with the configuration's, those of the scheduler.
    ///
    /// # Errors
    /// If a constant of the configuration or a cost is out of its range, or groups are larger than the policies allow.
    pub fn new(
        machine: Machine,
        cost: Cost,
        config: Config,
        model: Model,
        workload: W,
        seed: u64,
    ) -> Result<Self, SimulationError> {
        config.validate()?;
        cost.validate()?;
        let plan = Plan::compile(machine.topology(), &config.plan_options(None))?;
        let policy = Policy::new(config, plan);
        Ok(Self {
            world: World::new(policy, machine.topology(), cost, seed, Trace::new(false)),
            machine,
            model,
            seed,
            workload,
        })
    }

    /// What makes the decisions: the policies under this configuration, for this machine.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.world.policy
    }

    /// Keeps the trace as text too: a line an event, in ns, `w` for workers and `t` for tasks.
    #[must_use]
    pub fn with_trace(mut self) -> Self {
        self.world.trace = Trace::new(true);
        self
    }

    /// Runs until every task has ended, or `until` has passed.
    pub fn run(self, until: Nanos) -> Report {
        match self.model {
            Model::Shipped | Model::ShippedScan => {
                let scans = self.model == Model::ShippedScan;
                let scheduler = Shipped::new(&self.world, scans, self.seed);
                self.run_with(scheduler, until)
            }
            Model::KernelFaithful { scattered } => {
                let units = scattered.map_or(Units::Groups, Units::Scattered);
                let scheduler = Kernel::new(&self.world, units, None, self.seed);
                self.run_with(scheduler, until)
            }
            Model::KernelChanged(change) => {
                let scheduler = Kernel::new(&self.world, Units::Groups, Some(change), self.seed);
                self.run_with(scheduler, until)
            }
        }
    }

    fn run_with(mut self, scheduler: impl Scheduler, until: Nanos) -> Report {
        let first = self.world.set_up(&mut self.workload);
        let (name, unit) = (self.workload.name(), self.workload.unit());
        let mut run = Run {
            world: self.world,
            scheduler,
            workload: self.workload,
            until,
        };
        let (time, events) = run.run(&first);
        let world = run.world;
        let workers = world.all_counters();
        let (trace_hash, trace) = world.trace.finish();
        Report {
            workload: name,
            machine: self.machine.name().to_owned(),
            model: self.model.to_string(),
            config: world.policy.config.to_string(),
            cost: world.cost.to_string(),
            seed: self.seed,
            done: world.done,
            unit,
            time,
            finished: world.live == 0 && world.ended <= until,
            stalled: if time < until { world.live } else { 0 },
            events,
            queue: world.events.work(),
            workers,
            ready_to_run: world.ready_to_run,
            samples: world.samples,
            trace_hash,
            trace,
        }
    }
}

/// A simulation while it runs.
#[derive(Debug)]
struct Run<S, W> {
    world: World,
    scheduler: S,
    workload: W,
    until: Nanos,
}

impl<S: Scheduler, W: Workload> Run<S, W> {
    /// Returns when it ended and after how many events.
    fn run(&mut self, first: &[TaskId]) -> (Nanos, u64) {
        for worker in 0..self.world.worker_count() {
            let worker = WorkerId(u16::try_from(worker).expect("workers fit u16"));
            self.world.continue_at(worker, Nanos(0));
        }
        for &task in first {
            self.ready(task, None, Why::Spawned, Nanos(0));
        }
        let (mut time, mut events) = (Nanos(0), 0);
        while self.world.live > 0
            && let Some((now, event)) = self.world.events.pop()
        {
            if now > self.until {
                return (self.until, events);
            }
            self.world.now = now;
            match event {
                Event::Worker { worker, ticket } => {
                    let worker = WorkerId(worker);
                    if !self.world.is_valid(worker, ticket) {
                        continue;
                    }
                    match self.world.running(worker) {
                        Some(task) => self.advance(worker, task, now),
                        None => self.dispatch(worker, now),
                    }
                }
                Event::Timer(task) => self.time_is_over(task, now),
            }
            (time, events) = (now, events + 1);
        }
        if self.world.live == 0 {
            time = self.world.ended.min(self.until);
        }
        (time, events)
    }

    fn time_is_over(&mut self, task: TaskId, now: Nanos) {
        let waker = self.world.waker(task);
        let took = self.ready(task, waker, Why::Woken, now);
        if let Some(waker) = waker {
            self.world.owe(waker, took);
        }
    }

    fn ready(&mut self, task: TaskId, by: Option<WorkerId>, why: Why, now: Nanos) -> Nanos {
        self.world.note_ready(task, by, now);
        self.scheduler.ready(&mut self.world, task, by, why, now)
    }

    /// A worker without a task goes on.
    fn dispatch(&mut self, worker: WorkerId, now: Nanos) {
        match self.scheduler.next(&mut self.world, worker, now) {
            Next::Run { task, at } => {
                self.world.counters(worker).overhead_ns += at.since(now).0;
                let at = self.world.start(worker, task, at);
                self.world.continue_at(worker, at);
            }
            Next::At(at) => self.world.continue_at(worker, at),
            Next::Sleep => {}
        }
    }

    /// A worker goes on with its task: one step, and further ones as long as nothing else happens before they end.
    fn advance(&mut self, worker: WorkerId, task: TaskId, mut now: Nanos) {
        let debt = self.world.pay(worker);
        self.world.counters(worker).busy_ns += debt.0;
        now.0 += debt.0;
        loop {
            let limit = self.scheduler.may_run(&mut self.world, worker, &mut now);
            if limit.0 == 0 {
                return self.leave(worker, task, End::Yields, now);
            }
            let did = self.world.step(&mut self.workload, worker, task, now, limit);
            now.0 += did.took.0;
            for task in did.wakes.into_iter().flatten() {
                now.0 += self.makes_ready(task, worker, Why::Woken, now);
            }
            if let Some(task) = did.spawned {
                now.0 += self.makes_ready(task, worker, Why::Spawned, now);
            }
            if did.end != End::Goes {
                return self.leave(worker, task, did.end, now);
            }
            if !self.world.events.is_before_all(now) || now > self.until {
                return self.world.continue_at(worker, now);
            }
            self.world.now = now;
        }
    }

    /// `worker`'s task makes another ready; returns how many ns that takes it.
    fn makes_ready(&mut self, task: TaskId, worker: WorkerId, why: Why, now: Nanos) -> u64 {
        let took = self.ready(task, Some(worker), why, now);
        self.world.counters(worker).busy_ns += took.0;
        took.0
    }

    fn leave(&mut self, worker: WorkerId, task: TaskId, end: End, mut now: Nanos) {
        self.world.stop(worker, task, end, now);
        let took = if end == End::Yields {
            self.ready(task, Some(worker), Why::Yielded, now)
        } else {
            self.scheduler.left(&mut self.world, worker, now)
        };
        now.0 += took.0;
        self.world.counters(worker).busy_ns += took.0;
        self.world.continue_at(worker, now);
    }
}
