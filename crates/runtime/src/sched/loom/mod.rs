//! Every interleaving, up to a number of preemptions, of small uses of the scheduler's own types.
//!
//! One file a theorem of the README beside `sched/mod.rs`. Only the things in the queues are stand-ins: cells of an
//! [`Arena`] in place of tasks. A lost wake-up shows as a deadlock, a touch after the push as a race.

mod abort;
mod deque;
mod halving;
mod idle;
mod last;
mod latch;
mod park;
mod paused;
mod poll;
mod sentinel;
mod stop;
mod terminated;
mod timers;
mod w1;
mod w1_bound;
mod w1s;
mod w2;
mod w3;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quadrille_policy::{GroupId, LlcId, OnContention, Plan, PlanOptions, WorkerId};
use quadrille_topology::Topology;

use super::alarms::Alarm;
use super::idle::Seat;
use super::park::{Awake, Host, Look, ParkWord, Sleepers};
use super::publish;
use super::queue::Linked;
use super::queue::group::GroupQueue;
use super::queue::mailbox::Mailbox;
use crate::primitives::{AtomicPtr, UnsafeCell};
use crate::reactor::{Duty, Polled};

/// Runs `f` in all interleavings with at most `preemptions_max` switches away from a thread that could go on.
fn check(preemptions_max: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions_max);
    builder.check(f);
}

/// A plan of one group: in models groups are of the size that the theorem needs, whatever a topology would give.
fn one_group(workers: u16) -> Plan {
    let options = PlanOptions {
        workers: Some(workers),
        ..PlanOptions::default()
    };
    let mut plan = Plan::compile(&Topology::flat(workers), &options).expect("a flat machine has a plan");
    plan.groups.truncate(1);
    plan.groups[0].members = (0..workers).map(WorkerId).collect();
    plan.llcs.iter_mut().for_each(|llc| llc.groups = vec![GroupId(0)]);
    for (worker, member) in plan.workers.iter_mut().zip(0..) {
        worker.group = GroupId(0);
        worker.member = member;
    }
    plan
}

/// The same, with a second cache that has no workers: so there is a word that says which caches have idle ones.
fn beside_a_cache(workers: u16) -> Plan {
    let mut plan = one_group(workers);
    let mut other = plan.llcs[0].clone();
    other.groups.clear();
    plan.llcs.push(other);
    plan
}

/// A member of the one group.
fn seat(member: u8) -> Seat {
    Seat { group: 0, member }
}

/// What stands for a task's allocation. Loom watches both fields: the payload for races of its readers and writers, the
/// link for uses after the end of the task.
#[derive(Debug)]
struct Cell {
    link: AtomicPtr<()>,
    payload: UnsafeCell<usize>,
}

/// The memory that tasks of a model live in. It outlasts them, so that a use after their end is seen and not undefined.
#[derive(Debug)]
struct Arena(Box<[Cell]>);

impl Arena {
    fn new(count: usize) -> Self {
        let cell = |_| Cell {
            link: AtomicPtr::new(std::ptr::null_mut()),
            payload: UnsafeCell::new(0),
        };
        Self((0..count).map(cell).collect())
    }

    /// The item of cell `index`, once: as with a `Runnable`, there is one at a time.
    fn item(&self, index: usize) -> Item {
        let cell = &self.0[index];
        // SAFETY: the item is the only one of its cell.
        cell.payload.with_mut(|payload| unsafe { *payload = index });
        Item(std::ptr::NonNull::from(cell))
    }
}

/// The right to use a cell of the arena.
#[derive(Debug)]
struct Item(std::ptr::NonNull<Cell>);

// SAFETY: an item is the only one of its cell, and the arena is shared by every thread of the model.
unsafe impl Send for Item {}

impl Item {
    /// Ends the item as a task's allocation is ended: nobody else may use any part of it from now on. Its number.
    fn finish(self) -> usize {
        let cell = self.0.as_ptr();
        // SAFETY: the arena lives as long as the model; the item is the only one of the cell.
        unsafe { (*cell).link.with_mut(|_| ()) };
        // SAFETY: as above.
        unsafe { (*cell).payload.with_mut(|payload| *payload) }
    }
}

// SAFETY: the word is the cell's address; the link is a field of the cell.
unsafe impl Linked for Item {
    fn into_raw(self) -> std::ptr::NonNull<()> {
        self.0.cast()
    }

    unsafe fn from_raw(raw: std::ptr::NonNull<()>) -> Self {
        Self(raw.cast())
    }

    unsafe fn link<'a>(raw: std::ptr::NonNull<()>) -> &'a AtomicPtr<()> {
        // SAFETY: the address of a cell of the arena, which lives as long as the model.
        unsafe { &(*raw.cast::<Cell>().as_ptr()).link }
    }
}

/// A scheduler of one group and one queue for anyone: a mailbox stands in for the injector, whose code is crossbeam's.
struct Machine {
    arena: Arena,
    sleepers: Sleepers,
    group: GroupQueue<Item>,
    injector: Mailbox<Item>,
    /// Items that are to come. Not the model's business, hence not loom's type.
    left: AtomicUsize,
}

impl Machine {
    fn new(plan: &Plan, items: usize) -> Arc<Self> {
        Arc::new(Self {
            arena: Arena::new(items),
            sleepers: Sleepers::new(plan),
            group: GroupQueue::new(OnContention::Mailbox),
            injector: Mailbox::new(),
            left: AtomicUsize::new(items),
        })
    }

    /// Without items, and the first two workers idle, one of them sentinel.
    fn with_two_idle(plan: &Plan, sentinel: usize) -> Arc<Self> {
        let machine = Self::new(plan, 0);
        (0..2).for_each(|member| machine.sleepers.idle.announce(seat(member)));
        assert!(machine.sleepers.take_duty(sentinel));
        machine
    }

    /// Pushes an item into the group's queue, as the scheduler does. The policy would rather wake nobody, except for a
    /// member: in models that one goes home without draining.
    fn push_to_group(&self, index: usize, member: bool) {
        let item = self.arena.item(index);
        let push = || {
            let _how = self.group.push(item, member, || 0);
        };
        self.wake(publish::to_group(push, &self.sleepers, 0, None, |_, _| member));
    }

    /// Pushes an item for anyone, as the scheduler does; the policy would rather wake nobody.
    fn push_to_anyone(&self, index: usize) {
        let item = self.arena.item(index);
        if publish::to_anyone(|| self.injector.push(item), &self.sleepers, 0, (0, &[]), |_| false) {
            self.wake(
                self.sleepers
                    .idle
                    .claim_in_llc(0, &[0], 0, self.sleepers.sentinel_seat(), usize::MAX),
            );
        }
    }

    fn wake(&self, seat: Option<Seat>) {
        if let Some(seat) = seat {
            let _found = self.sleepers.wake(usize::from(seat.member));
        }
    }

    /// Ends one item that was taken out of a queue; the last one ends the machine.
    fn finish(&self, item: Item) {
        item.finish();
        self.finish_one();
    }

    /// The same for what is in no queue.
    fn finish_one(&self) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.sleepers.stop();
        }
    }

    /// One look of a member at the shared queues. True if it found something.
    fn search(&self) -> bool {
        let found = self
            .group
            .pop(1, || 0, |item| self.finish(item))
            .map(|item| self.finish(item))
            .is_some();
        self.injector.drain().map(|item| self.finish(item)).count() > 0 || found
    }

    /// A worker: searches when dry and sleeps when there is nothing, until the machine stops.
    fn work(&self, worker: usize) {
        self.work_on(worker, false);
    }

    /// The same from a search on: `claimed` if it was a claimer who has counted the searcher.
    fn work_on(&self, worker: usize, claimed: bool) {
        let look = |_| !self.group.is_empty() || !self.injector.is_empty();
        self.work_by(worker, claimed, || self.search(), look);
    }

    /// The same, with a search that says whether it has found something, and a final look that is told whether it is
    /// the last searcher's.
    fn work_by(
        &self,
        worker: usize,
        mut claimed: bool,
        mut search: impl FnMut() -> bool,
        mut look: impl FnMut(bool) -> bool,
    ) {
        let seat = self.sleepers.seat(worker);
        while !self.sleepers.is_stopping() {
            if !claimed {
                self.sleepers.start_search(worker);
            }
            if search() {
                self.sleepers.stop_search(worker);
                claimed = false;
                continue;
            }
            let awake: Awake = self.sleepers.sleep(worker, &mut OnlyLooks(&mut look));
            // Only its worker sets a bit, so an awake worker has none.
            assert_eq!(
                self.sleepers.idle.members(seat.group) & (1 << seat.member),
                0,
                "awake, and its idle bit is set"
            );
            claimed = awake.claimed;
            if !awake.slept {
                // Something is there, and may be in the hands of another member: let it go on.
                loom::thread::yield_now();
            }
        }
        if claimed {
            self.sleepers.stop_search(worker);
        }
    }
}

/// A worker of a model that goes to sleep: what the model is about. Of the rest of a [`Host`] it has nothing to do.
trait Sleeper {
    fn final_look(&mut self, _everything: bool) -> bool {
        false
    }

    fn spin(&mut self, _word: &ParkWord) {}

    fn poll(&mut self, _duty: &Duty<'_>, _timeout: Option<Duration>) -> Polled {
        unreachable!("there are no sources")
    }

    fn may_jump(&self) -> bool {
        false
    }

    fn alarm(&mut self, _may_jump: bool) -> Alarm {
        Alarm::Never
    }
}

impl<S: Sleeper> Host for S {
    fn final_look(&mut self, everything: bool) -> bool {
        Sleeper::final_look(self, everything)
    }

    fn spin(&mut self, word: &ParkWord) {
        Sleeper::spin(self, word);
    }

    fn sentinel_look(&mut self) -> Look {
        Look::Active
    }

    fn interval(&mut self) -> Duration {
        Duration::MAX
    }

    fn now_and_soon(&mut self) -> (u64, u64) {
        (0, 1)
    }

    fn others(&self) -> &[LlcId] {
        &[]
    }

    fn poll(&mut self, duty: &Duty<'_>, timeout: Option<Duration>) -> Polled {
        Sleeper::poll(self, duty, timeout)
    }

    fn is_neglected(&self, _shard: usize) -> bool {
        false
    }

    fn takes_over(&mut self, _shard: usize, _rouse: bool) {}

    fn may_jump(&self) -> bool {
        Sleeper::may_jump(self)
    }

    fn alarm(&mut self, may_jump: bool) -> Alarm {
        Sleeper::alarm(self, may_jump)
    }
}

/// Looks at the queues as the closure does.
struct OnlyLooks<F>(F);

impl<F: FnMut(bool) -> bool> Sleeper for OnlyLooks<F> {
    fn final_look(&mut self, everything: bool) -> bool {
        (self.0)(everything)
    }
}
