//! Threads and tasks that are bound to a worker: how they are woken, taken, and ended before their worker leaves (B).

use std::cell::{Cell, RefCell};
use std::mem;
use std::ptr::NonNull;
use std::task::Waker;

use quadrille_policy::WorkerId;

use super::Shared;
use super::context::Context;
use super::publish;
use super::schedule::count;
use super::search::Scope;
use super::worker::Worker;
use crate::primitives::{AtomicU32, Ordering};
use crate::task::Runnable;
use crate::task::meta::{BOUND, LastWorker, READY};
use crate::thread::note::Note;

/// What is bound to a worker, was ever suspended, and has not ended: threads by the wakers on their own stacks, tasks
/// by wakers of the list's.
#[derive(Debug, Default)]
pub(crate) struct Living {
    entries: RefCell<Vec<Entry>>,
    /// The first free entry.
    free: Cell<Option<usize>>,
    pub(super) len: Cell<usize>,
    /// The tasks among them.
    tasks: Cell<usize>,
}

/// Entries whose memory is kept when nobody is there.
const KEPT: usize = 4096;

#[derive(Debug)]
enum Entry {
    Thread(NonNull<Waker>),
    Task(Waker),
    /// Free; the next free entry.
    Free(Option<usize>),
}

impl Living {
    /// Enters a thread of this worker; the key is for [`remove`](Self::remove).
    ///
    /// # Safety
    /// The waker stays where it is until `remove` is called with the key, which is on this OS thread.
    unsafe fn insert(&self, waker: NonNull<Waker>) -> usize {
        self.enter(Entry::Thread(waker))
    }

    /// Enters a task of this worker.
    fn insert_task(&self, waker: Waker) -> usize {
        self.tasks.set(self.tasks.get() + 1);
        self.enter(Entry::Task(waker))
    }

    fn enter(&self, entry: Entry) -> usize {
        let mut entries = self.entries.borrow_mut();
        self.len.set(self.len.get() + 1);
        let Some(key) = self.free.get() else {
            entries.push(entry);
            return entries.len() - 1;
        };
        let Entry::Free(next) = entries[key] else {
            unreachable!("the free list holds free entries")
        };
        self.free.set(next);
        entries[key] = entry;
        key
    }

    /// Strikes it off. Whether the numbers begin again, because nobody is left of very many.
    fn remove(&self, key: usize) -> bool {
        let free = Entry::Free(self.free.replace(Some(key)));
        let old = mem::replace(&mut self.entries.borrow_mut()[key], free);
        self.len.set(self.len.get() - 1);
        if let Entry::Task(waker) = old {
            self.tasks.set(self.tasks.get() - 1);
            drop(waker);
        }
        let begins_again = self.len.get() == 0 && self.entries.borrow().capacity() > KEPT;
        if begins_again {
            self.entries.take();
            self.free.set(None);
        }
        begins_again
    }

    /// Wakes everything that is not ready or running.
    pub(super) fn wake_all(&self) {
        let count = self.entries.borrow().len();
        for key in 0..count {
            // A waker of our own tasks: it puts the runnable into the bound FIFO, and runs no user code.
            match &self.entries.borrow()[key] {
                // SAFETY: `insert`'s contract: the waker is there until `remove`, which nobody calls meanwhile.
                Entry::Thread(waker) => unsafe { waker.as_ref() }.wake_by_ref(),
                Entry::Task(waker) => waker.wake_by_ref(),
                Entry::Free(_) => {}
            }
        }
    }
}

impl Context {
    /// Enters a thread that runs here and is suspended for the first time (B c).
    ///
    /// # Safety
    /// Waker and note stay where they are until [`has_ended`](Self::has_ended) is called with the key, on this OS
    /// thread.
    pub(crate) unsafe fn will_suspend(&self, waker: NonNull<Waker>, note: NonNull<Note>) -> usize {
        // SAFETY: passed on.
        let key = unsafe { self.living.insert(waker) };
        // SAFETY: passed on; `has_ended` strikes it off.
        unsafe { self.me().notes.insert(key, note) };
        self.publish_living();
        key
    }

    /// The thread that was entered under `key` has come to the end of its stack.
    pub(crate) fn has_ended(&self, key: usize) {
        self.me().notes.remove(key);
        self.waits_no_more(key);
    }

    /// Enters a task that is bound to this worker, runs here, and is pending for the first time (B c).
    pub(crate) fn will_wait(&self, waker: Waker) -> usize {
        let key = self.living.insert_task(waker);
        self.publish_living();
        key
    }

    /// The body of the task that was entered under `key` is gone.
    pub(crate) fn waits_no_more(&self, key: usize) {
        if self.living.remove(key) {
            self.me().notes.give_back();
        }
        self.publish_living();
    }

    fn publish_living(&self) {
        let publish = |to: &AtomicU32, count: usize| {
            // Ordering: Relaxed; a statistic with one writer. Who stays for those that unwind sees through (B d) what
            // there was, and that it is zero when the last worker drops the tasks is seen through (D a).
            to.store(u32::try_from(count).unwrap_or(u32::MAX), Ordering::Relaxed);
        };
        publish(&self.me().living, self.living.len.get());
        publish(&self.me().living_tasks, self.living.tasks.get());
    }

    /// Queues a new task whose body must not leave this OS thread: it is bound from the start (B a).
    pub(crate) fn spawn_bound(&self, runnable: Runnable) {
        if self.unwinding.get() {
            // The worker leaves, and would only drop it later.
            return drop(runnable);
        }
        runnable.last_worker().set(LastWorker::ran_on(self.id));
        runnable.meta().set(BOUND);
        self.bound.push(runnable);
    }

    /// Queues a new task that is to be bound to the worker `owner`: at once, as the push is that of a worker (B d).
    pub(crate) fn spawn_named(&self, runnable: Runnable, owner: WorkerId) {
        if owner == self.id || self.unwinding.get() {
            return self.spawn_bound(runnable);
        }
        runnable.last_worker().set(LastWorker::ran_on(owner));
        runnable.meta().set(BOUND);
        self.shared.publish_bound(runnable, Some(self));
    }

    /// Queues a started thread that was woken on the OS thread of this worker (B b).
    pub(super) fn wake_bound(&self, runnable: Runnable) {
        let (owner, _) = runnable.last_worker().get().worker();
        if owner != self.id {
            return self.shared.publish_bound(runnable, Some(self));
        }
        runnable.meta().set(READY);
        self.me().counters.wakes_self.add(1);
        // One of many, and one that is woken late in a long streak, waits for its turn.
        if self.in_batch.get() || self.bound.len() > 0 && self.is_over(&self.bound_streak) {
            self.bound.push(runnable);
        } else {
            self.bound.push_next(runnable);
        }
    }

    /// Queues a started thread that ran here and gives way: behind all others.
    pub(super) fn requeue_bound(&self, runnable: Runnable) {
        runnable.meta().set(READY);
        self.me().counters.wakes_self.add(1);
        self.bound.push(runnable);
    }
}

impl Shared {
    /// Queues a started thread with its owner, from another OS thread: (a), (A), step 6 (B b).
    pub(super) fn publish_bound(&self, runnable: Runnable, by: Option<&Context>) {
        let (owner, _) = runnable.last_worker().get().worker();
        runnable.meta().set(READY);
        count(by, |counters| counters.wakes_bound.add(1));
        let seat = self.sleepers.seat(owner.index());
        let push = || self.workers[owner.index()].bound.push(runnable);
        if publish::to_owner(push, &self.sleepers, seat) {
            self.wake_claimed(seat, by);
        }
    }
}

impl Worker {
    /// The next bound thread that is ready. Nobody watches for those: so for the timers that were set before it
    /// somebody is seen to now (F c).
    #[inline]
    pub(super) fn take_bound(&mut self) -> Option<Runnable> {
        let runnable = self.pop_bound()?;
        if self.context.sets_timers.get() {
            self.watch_timers();
        }
        Some(runnable)
    }

    /// By one who searches this wakes nobody, since he counts as a witness: what he owes when he goes to work does.
    #[cold]
    fn watch_timers(&self) {
        self.context.sets_timers.set(false);
        self.name_successor();
    }

    /// Slot and deque come before another one (W5).
    #[inline(always)]
    fn pop_bound(&mut self) -> Option<Runnable> {
        let context = &self.context;
        let me = context.me();
        self.bound_first = false;
        if self.bound_streak < self.streak_max
            && let Some(runnable) = context.bound.pop_next()
        {
            self.bound_streak += 1;
            me.counters.slot_pops.add(1);
            return Some(runnable);
        }
        self.bound_streak = 0;
        let runnable = context.bound.pop(&me.bound)?;
        me.counters.bound_pops.add(1);
        context.begin_streak(&context.bound_streak);
        Some(runnable)
    }

    /// A worker whose bound threads give way in turn is never dry, and would never search: what waits in the deques of
    /// its LLC would be left to the others. So it takes part in that when it looks up; of threads that have not started
    /// every worker gets its share so, which is for good. At most `limit` tasks.
    pub(super) fn join_in(&mut self, limit: usize) -> Option<Runnable> {
        if self.context.bound.len() == 0 || self.context.local.len() > 0 {
            return None;
        }
        let home = self.context.shared.policy.plan.workers[self.context.id.index()].llc;
        let found = self.steal_in(home, Scope::Normal, limit)?;
        self.taken(Scope::Normal);
        Some(found)
    }
}

#[cfg(all(test, not(quadrille_loom)))]
pub(super) mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::Arc;

    use quadrille_policy::SetId;

    use super::*;
    use crate::runtime::Handle;
    use crate::sched::still::Still;
    use crate::sys::clock;
    use crate::thread;

    /// Lets `scenario` be the only worker of a scheduler.
    fn as_worker(scenario: impl FnOnce(&mut Worker, &Handle, &Still)) {
        let mut still = Still::new("core:1", "default");
        let mut worker = still.worker(0);
        let handle = Handle {
            shared: still.shared.clone(),
        };
        let context: *const Context = &raw const worker.context;
        // SAFETY: as in `Worker::run`: `worker` stays where it is until the guard is dropped, before it.
        let entered = unsafe { &*context }.enter();
        scenario(&mut worker, &handle, &still);
        drop(entered);
    }

    /// Runs what is ready until nothing is.
    pub(in crate::sched) fn run_all(worker: &mut Worker) {
        while let Some(runnable) = worker.next_local() {
            worker.execute(runnable);
        }
    }

    #[test]
    fn only_what_has_started_is_bound() {
        as_worker(|worker, handle, _| {
            let thread = handle.spawn_thread(thread::park);
            let me = worker.context.me();
            assert!(
                !me.slot.is_empty() || worker.context.local.len() == 1,
                "it can be stolen"
            );
            run_all(worker);
            assert_eq!(worker.context.living.len.get(), 1);
            thread.thread().unpark();
            let me = worker.context.me();
            assert!(me.slot.is_empty() && worker.context.local.len() == 0);
            assert_eq!(worker.context.bound.len(), 1, "woken on its worker's OS thread");
            run_all(worker);
            assert!(thread.is_finished());
            assert_eq!(worker.context.living.len.get(), 0);
        });
    }

    /// Where nobody watches, who runs a bound task with timers set makes somebody do so, once for all that were set (F
    /// c).
    #[test]
    fn timers_are_watched_for_beside_a_bound_task() {
        let mut still = Still::new("core:2", "default");
        let mut worker = still.worker(0);
        let ready = |worker: &Worker| worker.context.spawn_bound(still.task(0, SetId::NONE));
        let rest = || {
            still.announce(1);
            still.shared.sleepers.resign(1);
        };
        rest();
        ready(&worker);
        drop(worker.next_local().unwrap());
        assert!(still.is_idle(1), "there is no timer");
        let due = clock::nanos() + 1_000_000_000;
        let set = worker.context.set_timer(due, Waker::noop().clone());
        assert!(worker.next_local().is_none() && still.is_idle(1), "nor anything to run");
        ready(&worker);
        drop(worker.next_local().unwrap());
        assert!(!still.is_idle(1), "it is to watch");
        rest();
        ready(&worker);
        drop(worker.next_local().unwrap());
        assert!(still.is_idle(1), "nothing was set since");
        assert!(worker.context.me().timers.remove(set.unwrap()).is_some());
    }

    #[test]
    fn another_os_thread_puts_it_into_the_mailbox() {
        as_worker(|worker, handle, _| {
            let thread = handle.spawn_thread(thread::park);
            run_all(worker);
            let other = thread.thread().clone();
            std::thread::spawn(move || other.unpark()).join().unwrap();
            assert_eq!(worker.context.bound.len(), 0);
            assert!(!worker.context.me().bound.is_empty());
            run_all(worker);
            assert!(thread.is_finished());
        });
    }

    /// Bound threads and stealable tasks, both ready, come in turn.
    #[test]
    fn in_turn() {
        as_worker(|worker, handle, still| {
            let threads: Vec<_> = (0..5).map(|_| handle.spawn_thread(thread::park)).collect();
            run_all(worker);
            threads.iter().for_each(|thread| thread.thread().unpark());
            (0..5).for_each(|_| worker.context.local.push(still.task(0, SetId::NONE)));
            let pops = |worker: &Worker| {
                let counters = &worker.context.me().counters;
                // The tasks are in the deque.
                counters.bound_pops.get() + counters.slot_pops.get()
            };
            let mut last = pops(worker);
            let mut order = String::new();
            while let Some(runnable) = worker.next_local() {
                worker.execute(runnable);
                order.push(if pops(worker) > last { 'b' } else { 't' });
                last = pops(worker);
            }
            assert!(order == "btbtbtbtbt" || order == "tbtbtbtbtb", "{order}");
        });
    }

    /// What a thread wakes follows it, three times in a row at most; what gives way goes behind all.
    #[test]
    fn the_one_that_was_woken_last_goes_first() {
        as_worker(|worker, handle, _| {
            let log = Arc::new(std::sync::Mutex::new(Vec::new()));
            let threads: Vec<_> = (0..7)
                .map(|number| {
                    let log = log.clone();
                    handle.spawn_thread(move || {
                        thread::park();
                        log.lock().unwrap().push(number);
                        thread::yield_now();
                    })
                })
                .collect();
            run_all(worker);
            threads.iter().for_each(|thread| thread.thread().unpark());
            run_all(worker);
            assert_eq!(*log.lock().unwrap(), [6, 0, 1, 2, 3, 4, 5]);
            assert!(threads.iter().all(thread::JoinHandle::is_finished));
        });
        as_worker(|worker, handle, _| {
            let log = Arc::new(std::sync::Mutex::new(Vec::new()));
            let parked = |number, next: Option<thread::Thread>| {
                let log = log.clone();
                handle.spawn_thread(move || {
                    thread::park();
                    log.lock().unwrap().push(number);
                    next.iter().for_each(thread::Thread::unpark);
                })
            };
            // Each wakes the one before it, but for the last one, which nobody waits for.
            let mut chain: Vec<thread::JoinHandle<()>> = Vec::new();
            for number in 0..6 {
                let next = chain.last().map(|thread| thread.thread().clone());
                chain.push(parked(number, next));
            }
            let other = parked(9, None);
            run_all(worker);
            other.thread().unpark();
            chain[5].thread().unpark();
            run_all(worker);
            assert_eq!(*log.lock().unwrap(), [5, 4, 3, 9, 2, 1, 0]);
        });
    }

    /// No started thread is dropped but by its end. If one were, on its own OS thread, that would unwind it.
    #[test]
    fn a_dropped_thread_is_unwound() {
        struct Drops<'a>(&'a Cell<usize>);
        impl Drop for Drops<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        thread_local! {
            static DROPPED: Rc<Cell<usize>> = Rc::new(Cell::new(0));
        }
        let dropped = DROPPED.with(Rc::clone);
        as_worker(|worker, handle, _| {
            let thread = handle.spawn_thread(|| {
                let dropped = DROPPED.with(Rc::clone);
                let _drops = Drops(&dropped);
                let caught = std::panic::catch_unwind(thread::park);
                assert!(caught.is_err(), "it is told to end");
                thread::park();
            });
            run_all(worker);
            thread.thread().unpark();
            let runnable = worker.take_bound().expect("it was woken");
            assert_eq!(dropped.get(), 0);
            drop(runnable);
            assert_eq!(dropped.get(), 1);
            assert!(thread.is_finished());
            assert_eq!(worker.context.living.len.get(), 0);
        });
    }

    #[test]
    fn keys_of_the_list_are_used_again() {
        let (living, waker) = (Living::default(), Waker::noop().clone());
        // SAFETY: the waker outlives the list.
        let insert = || unsafe { living.insert(NonNull::from(&waker)) };
        let (a, b) = (insert(), insert());
        living.remove(a);
        assert_eq!((insert(), living.len.get()), (a, 2));
        assert!(!living.remove(b) && !living.remove(a));
        assert_eq!((insert(), living.len.get()), (a, 1));
        living.wake_all();
    }

    #[test]
    fn memory_of_a_long_list_is_given_back() {
        let (living, waker) = (Living::default(), Waker::noop().clone());
        // SAFETY: the waker outlives the list.
        let insert = || unsafe { living.insert(NonNull::from(&waker)) };
        let mut keys: Vec<usize> = (0..=KEPT).map(|_| insert()).collect();
        let last = keys.pop().unwrap();
        assert!(keys.into_iter().all(|key| !living.remove(key)));
        assert!(living.remove(last), "the numbers begin again");
        assert_eq!(living.entries.borrow().capacity(), 0);
        assert_eq!(insert(), 0);
        living.wake_all();
    }
}
