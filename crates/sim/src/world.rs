//! What all models have in common: tasks and their steps, time, counters.

use quadrille_policy::{Cause, Nanos, Policy, Rng, TaskPolicy, WorkerId};
use quadrille_topology::{Distance, Topology};

use crate::channel::{Channel, Operation};
use crate::cost::Cost;
use crate::engine::EventQueue;
use crate::histogram::Histogram;
use crate::kin::Families;
use crate::line::When;
use crate::memory::{Access, Channels, Memory};
use crate::metrics::Counters;
use crate::space::Space;
use crate::trace::{Trace, What};
use crate::workload::{ChannelId, Context, NewTask, Setup, Step, TaskId, Touch, Workload};

/// What a last-level cache of unknown size holds, bytes.
const LLC_BYTES: u64 = 32 << 20;

/// A task.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) policy: TaskPolicy,
    pub(crate) last_worker: Option<WorkerId>,
    spawner: Option<WorkerId>,
    came: Cause,
    /// When it became ready.
    pub(crate) ready_at: Nanos,
}

/// What a task's steps read and write. Apart from the rest, so that a step needs one line of it.
#[derive(Debug)]
#[repr(align(64))]
struct Course {
    /// A step that has not ended: tried again, or gone on with, when the task runs.
    pending: Option<Step>,
    waits: Waits,
    /// Woken while it did not wait.
    token: bool,
    started_after: Option<Nanos>,
    spawned: Option<TaskId>,
    /// Who wakes it when its time is over; nobody but the clock otherwise.
    waker: Option<WorkerId>,
    /// For a pipe's lock, in the step that has not ended.
    has_slept: bool,
}

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Nothing: it runs or is ready.
    No,
    /// A channel, whose list it is in.
    Channel,
    /// Somebody to wake it.
    Wake,
    /// The end of its sleep.
    Timer,
}

/// What ended a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing: the task goes on.
    Goes,
    /// It waits.
    Blocks,
    /// It lets others run.
    Yields,
    /// It has ended.
    Exits,
}

/// What a step came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Did {
    pub(crate) took: Nanos,
    pub(crate) end: End,
    /// Tasks that are ready because of it.
    pub(crate) wakes: [Option<TaskId>; 2],
    /// A task that it made.
    pub(crate) spawned: Option<TaskId>,
}

impl Did {
    fn new(took: Nanos, end: End) -> Self {
        Self {
            took,
            end,
            wakes: [None; 2],
            spawned: None,
        }
    }
}

/// What every event reads and writes of a worker. Apart from its other counters, so that an event needs one line of it.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Worker {
    running: Option<TaskId>,
    /// Of its valid event.
    ticket: u64,
    /// Time that it has spent on others without having been put off for it yet.
    debt: Nanos,
}

/// Machine, tasks and time.
#[derive(Debug)]
pub(crate) struct World {
    /// The time of the event.
    pub(crate) now: Nanos,
    /// When the task ended that ended last: later than the event in whose course it did.
    pub(crate) ended: Nanos,
    pub(crate) policy: Policy,
    pub(crate) space: Space,
    pub(crate) cost: Cost,
    pub(crate) tasks: Vec<Task>,
    pub(crate) events: EventQueue,
    pub(crate) trace: Trace,
    pub(crate) ready_to_run: Histogram,
    pub(crate) samples: Histogram,
    pub(crate) done: u64,
    /// Tasks that have not ended.
    pub(crate) live: u64,
    /// By task, like `tasks`.
    courses: Vec<Course>,
    workers: Vec<Worker>,
    /// By worker.
    counters: Vec<Counters>,
    /// By core: workers with a task.
    busy: Vec<u16>,
    channels: Vec<Channel>,
    memories: Vec<Memory>,
    memory_channels: Vec<Channels>,
    llc_bytes: Vec<u64>,
    pub(crate) families: Families,
    rng: Rng,
}

impl World {
    pub(crate) fn new(policy: Policy, topology: &Topology, cost: Cost, seed: u64, trace: Trace) -> Self {
        let plan = &policy.plan;
        let cores = plan.workers.iter().map(|worker| worker.core.index() + 1).max();
        let sizes = plan.llcs.iter().map(|llc| {
            let pu = plan.workers[llc.workers[0].index()].pu;
            let llc = topology.pus()[pu.index()].llc;
            topology.llcs()[llc.index()].size_bytes.unwrap_or(LLC_BYTES)
        });
        Self {
            now: Nanos(0),
            ended: Nanos(0),
            space: Space::new(plan, topology, &cost),
            llc_bytes: sizes.collect(),
            workers: plan.workers.iter().map(|_| Worker::default()).collect(),
            counters: vec![Counters::default(); plan.workers.len()],
            busy: vec![0; cores.unwrap_or_default()],
            memory_channels: vec![Channels::default(); plan.nodes.len()],
            cost,
            tasks: Vec::new(),
            courses: Vec::new(),
            events: EventQueue::default(),
            trace,
            ready_to_run: Histogram::default(),
            samples: Histogram::default(),
            done: 0,
            live: 0,
            channels: Vec::new(),
            memories: Vec::new(),
            families: Families::default(),
            rng: Rng::new(seed),
            policy,
        }
    }

    /// Lets the workload make what it starts with; returns its first tasks.
    pub(crate) fn set_up(&mut self, workload: &mut impl Workload) -> Vec<TaskId> {
        let mut tasks = Vec::new();
        workload.start(&mut Setup {
            channels: &mut self.channels,
            memories: &mut self.memories,
            tasks: &mut tasks,
            workers: self.workers.len(),
        });
        tasks.into_iter().map(|task| self.new_task(task, None)).collect()
    }

    fn new_task(&mut self, new: NewTask, by: Option<WorkerId>) -> TaskId {
        let id = TaskId(u32::try_from(self.tasks.len()).expect("fewer than 2^32 tasks"));
        self.live += 1;
        if let Some(by) = by {
            self.counters(by).spawned += 1;
        }
        let spawner = by.and_then(|by| self.running(by));
        let spawner = spawner.map(|task| self.tasks[task.index()].policy.set);
        let set = self.families.born(new.kin, id, spawner, &self.policy);
        self.tasks.push(Task {
            policy: self.policy.new_task(by, set),
            last_worker: None,
            spawner: by,
            came: Cause::Wake,
            ready_at: Nanos(0),
        });
        self.courses.push(Course {
            pending: None,
            waits: Waits::No,
            token: false,
            started_after: None,
            spawned: None,
            waker: None,
            has_slept: false,
        });
        id
    }

    /// For requests of somebody whose own time is `own`.
    #[inline]
    pub(crate) fn when(&self, own: Nanos) -> When {
        When { event: self.now, own }
    }

    /// Number of workers.
    pub(crate) fn worker_count(&self) -> usize {
        self.workers.len()
    }

    /// The counters of a worker.
    #[inline]
    pub(crate) fn counters(&mut self, worker: WorkerId) -> &mut Counters {
        &mut self.counters[worker.index()]
    }

    /// The counters of all workers.
    pub(crate) fn all_counters(&self) -> Vec<Counters> {
        self.counters.clone()
    }

    /// The task that a worker runs.
    #[inline]
    pub(crate) fn running(&self, worker: WorkerId) -> Option<TaskId> {
        self.workers[worker.index()].running
    }

    /// `worker` goes on at `at`, and not when it would have before.
    #[inline]
    pub(crate) fn continue_at(&mut self, worker: WorkerId, at: Nanos) {
        self.workers[worker.index()].ticket = self.events.push_worker(at, worker.0);
    }

    /// Whether an event of `worker` is still meant.
    #[inline]
    pub(crate) fn is_valid(&self, worker: WorkerId, ticket: u64) -> bool {
        self.workers[worker.index()].ticket == ticket
    }

    /// Who wakes a task whose time is over.
    pub(crate) fn waker(&mut self, task: TaskId) -> Option<WorkerId> {
        self.courses[task.index()].waker.take()
    }

    /// `worker` has spent time on others in the middle of what it does.
    pub(crate) fn owe(&mut self, worker: WorkerId, time: Nanos) {
        self.workers[worker.index()].debt.0 += time.0;
    }

    /// What it has spent since it was asked last.
    #[inline]
    pub(crate) fn pay(&mut self, worker: WorkerId) -> Nanos {
        std::mem::take(&mut self.workers[worker.index()].debt)
    }

    /// Notes that a task became ready.
    pub(crate) fn note_ready(&mut self, task: TaskId, by: Option<WorkerId>, now: Nanos) {
        self.trace
            .note(now, by.map_or(u16::MAX, |by| by.0), What::Wake, Some(task));
        self.courses[task.index()].waits = Waits::No;
        let task = &mut self.tasks[task.index()];
        task.ready_at = now;
        task.came = Cause::Wake;
    }

    /// `worker` begins to run `task` at `at`; returns when the task's working set is there.
    pub(crate) fn start(&mut self, worker: WorkerId, task: TaskId, at: Nanos) -> Nanos {
        self.trace.note(at, worker.0, What::Run, Some(task));
        let (last, waited) = {
            let task = &mut self.tasks[task.index()];
            let waited = at.since(task.ready_at);
            (task.last_worker.replace(worker), waited)
        };
        self.courses[task.index()].started_after = Some(waited);
        self.ready_to_run.record(waited);
        let distance = last.map_or(Distance::Same, |last| self.space.distance(last, worker));
        let state = &self.tasks[task.index()];
        let (from, came) = match last {
            None if state.came == Cause::Wake => (state.spawner, Cause::Spawn),
            None => (state.spawner, state.came),
            Some(_) => (last, state.came),
        };
        if let Some(from) = from.filter(|from| *from != worker) {
            let level = self.policy.plan.level(from, worker);
            self.counters(worker).count_move(came, level);
        }
        self.counters(worker).polls += 1;
        let refill = self.cost.refill(distance);
        self.counters(worker).busy_ns += refill.0;
        self.workers[worker.index()].running = Some(task);
        self.busy[self.space.core(worker).index()] += 1;
        Nanos(at.0 + refill.0)
    }

    /// How a task came to the worker that runs it next.
    pub(crate) fn came(&mut self, task: TaskId, cause: Cause) {
        self.tasks[task.index()].came = cause;
    }

    /// `worker`'s task runs no longer.
    pub(crate) fn stop(&mut self, worker: WorkerId, task: TaskId, end: End, now: Nanos) {
        let what = match end {
            End::Goes | End::Yields => What::Yield,
            End::Blocks => What::Block,
            End::Exits => What::Exit,
        };
        if end == End::Exits {
            self.live -= 1;
            self.ended = self.ended.max(now);
            self.counters(worker).finished += 1;
            self.families.died(task);
        }
        self.trace.note(now, worker.0, what, Some(task));
        self.workers[worker.index()].running = None;
        self.busy[self.space.core(worker).index()] -= 1;
    }

    /// One step of `worker`'s task, which begins at `now` and takes at most about `limit` of computing.
    #[inline]
    pub(crate) fn step(
        &mut self,
        workload: &mut impl Workload,
        worker: WorkerId,
        task: TaskId,
        now: Nanos,
        limit: Nanos,
    ) -> Did {
        let step = match self.courses[task.index()].pending.take() {
            Some(step) => step,
            None => self.ask(workload, worker, task, now),
        };
        let mut did = self.carry_out(step, worker, task, now, limit);
        did.took = self.slowed(worker, did.took);
        self.counters(worker).busy_ns += did.took.0;
        did
    }

    fn ask(&mut self, workload: &mut impl Workload, worker: WorkerId, task: TaskId, now: Nanos) -> Step {
        let state = &mut self.courses[task.index()];
        let mut context = Context {
            now,
            worker,
            started_after: state.started_after.take(),
            spawned: state.spawned.take(),
            rng: &mut self.rng,
            done: &mut self.done,
            samples: &mut self.samples,
        };
        workload.step(task, &mut context)
    }

    fn carry_out(&mut self, step: Step, worker: WorkerId, task: TaskId, now: Nanos, limit: Nanos) -> Did {
        match step {
            Step::Compute(time) if time > limit => {
                self.courses[task.index()].pending = Some(Step::Compute(time.since(limit)));
                Did::new(limit, End::Goes)
            }
            Step::Compute(time) => Did::new(time, End::Goes),
            Step::Send(channel) | Step::Recv(channel) => self.pass(step, channel, worker, task, now),
            Step::Sleep(time) => {
                self.events.push_timer(Nanos(now.0 + time.0), task);
                self.courses[task.index()].waits = Waits::Timer;
                Did::new(Nanos(0), End::Blocks)
            }
            Step::Wake(other) => Did {
                wakes: [self.wake(other), None],
                ..Did::new(Nanos(self.cost.line_same), End::Goes)
            },
            Step::Wait => {
                let state = &mut self.courses[task.index()];
                let end = if std::mem::take(&mut state.token) {
                    End::Goes
                } else {
                    state.waits = Waits::Wake;
                    End::Blocks
                };
                Did::new(Nanos(self.cost.line_same), end)
            }
            Step::Spawn(new) => {
                let id = self.new_task(new, Some(worker));
                self.courses[task.index()].spawned = Some(id);
                Did {
                    spawned: Some(id),
                    ..Did::new(Nanos(self.cost.poll), End::Goes)
                }
            }
            Step::Touch(touch) => Did::new(self.touch(touch, worker, now), End::Goes),
            Step::Yield => Did::new(Nanos(0), End::Yields),
            Step::Exit => Did::new(Nanos(0), End::Exits),
        }
    }

    /// A message through a channel, or the wait for it.
    fn pass(&mut self, step: Step, channel: ChannelId, worker: WorkerId, task: TaskId, now: Nanos) -> Did {
        let state = &mut self.courses[task.index()];
        let operation = Operation {
            task,
            now,
            by: worker,
            has_slept: std::mem::take(&mut state.has_slept),
            space: &self.space,
            cost: &self.cost,
        };
        let channel = &mut self.channels[channel.index()];
        let done = match step {
            Step::Send(_) => channel.send(&operation),
            _ => channel.recv(&operation),
        };
        let end = match (done.passed, done.turn) {
            (true, _) => End::Goes,
            (false, None) => {
                state.pending = Some(step);
                state.waits = Waits::Channel;
                End::Blocks
            }
            (false, Some((turn, holder))) => {
                state.pending = Some(step);
                state.waits = Waits::Timer;
                state.waker = Some(holder);
                state.has_slept = true;
                self.events.push_timer(turn, task);
                End::Blocks
            }
        };
        self.counters(worker).lock_wait_ns += done.waited.0;
        Did {
            wakes: done.wakes,
            ..Did::new(done.took, end)
        }
    }

    /// The task, if that makes it ready.
    fn wake(&mut self, task: TaskId) -> Option<TaskId> {
        let state = self.courses.get_mut(task.index())?;
        if state.waits == Waits::Wake {
            return Some(task);
        }
        state.token = true;
        None
    }

    fn touch(&mut self, touch: Touch, by: WorkerId, now: Nanos) -> Nanos {
        let capacity = self.llc_bytes[self.space.llc(by).index()];
        let access = Access {
            now,
            by,
            bytes: touch.bytes,
            write: touch.write,
            space: &self.space,
            cost: &self.cost,
            capacity,
        };
        self.memories[touch.memory.index()].touch(&access, &mut self.memory_channels)
    }

    /// What a step takes while the sibling is busy too.
    #[inline]
    fn slowed(&self, worker: WorkerId, time: Nanos) -> Nanos {
        if self.busy[self.space.core(worker).index()] > 1 {
            Nanos(time.0.saturating_mul(self.cost.smt_slowdown) / 1024)
        } else {
            time
        }
    }
}
