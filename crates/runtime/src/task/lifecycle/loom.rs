//! Theorem C in every interleaving, with cells in place of future, result and memory: an access without the right is a
//! race.

use std::sync::Arc;
use std::task::Wake;

use ::loom::sync::atomic::AtomicBool;
use ::loom::thread::spawn;

use super::*;
use crate::task::abort::AbortCell;
use crate::task::meta::Id;

fn check(preemptions_max: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions_max);
    builder.check(f);
}

/// A task of a future that waits for `events` to have happened, `EVENTS` of them.
struct Task {
    lifecycle: Lifecycle,
    events: [AtomicBool; 2],
    awaited: usize,
    /// Polls; touched by the holder.
    future: UnsafeCell<usize>,
    outcome: UnsafeCell<usize>,
    /// Written by whoever frees it, read by whoever has a part in it.
    memory: UnsafeCell<usize>,
    /// It was ended because nobody could wake it any more.
    abandoned: AtomicBool,
    /// What abort handles share: written by who makes it, read by who tells them.
    shared: UnsafeCell<bool>,
    /// What they know of its end.
    cell: AbortCell,
    /// It was asked to stop, and a run has noticed that.
    asked: AtomicBool,
    noticed: AtomicBool,
}

impl Task {
    fn new(awaited: usize) -> Arc<Self> {
        Arc::new(Self {
            lifecycle: Lifecycle::new(),
            events: std::array::from_fn(|_| AtomicBool::new(false)),
            awaited,
            future: UnsafeCell::new(0),
            outcome: UnsafeCell::new(0),
            memory: UnsafeCell::new(0),
            abandoned: AtomicBool::new(false),
            shared: UnsafeCell::new(false),
            cell: AbortCell::new(Id::next(), std::ptr::null()),
            asked: AtomicBool::new(false),
            noticed: AtomicBool::new(false),
        })
    }

    fn touch(&self) {
        // SAFETY: a model's: loom reports a race.
        self.memory
            .with(|memory| assert_eq!(unsafe { *memory }, 0, "it is freed"));
    }

    fn follow(&self, then: Then) {
        match then {
            Then::Nothing => {}
            Then::Submit => self.run(),
            // SAFETY: a model's: loom reports a race.
            Then::Free => self.memory.with_mut(|memory| unsafe { *memory += 1 }),
        }
    }

    /// As its holder: polls until it is let go, or ended.
    fn run(&self) {
        loop {
            self.touch();
            let watched = self.lifecycle.begin();
            // Ordering: Relaxed; (E e).
            self.noticed
                .fetch_or(watched && self.asked.load(Ordering::Relaxed), Ordering::Relaxed);
            // SAFETY: a model's.
            self.future.with_mut(|polls| unsafe { *polls += 1 });
            // Ordering: Relaxed; (C a) is what makes them seen.
            let happened = self.events[..self.awaited]
                .iter()
                .all(|event| event.load(Ordering::Relaxed));
            if happened {
                return self.end(true);
            }
            match self.lifecycle.pause() {
                Pause::Again => {}
                Pause::Abandoned => {
                    self.abandoned.store(true, Ordering::Relaxed);
                    return self.end(false);
                }
                Pause::Released(_) => return,
            }
        }
    }

    fn end(&self, outcome: bool) {
        // SAFETY: a model's.
        self.outcome.with_mut(|place| unsafe { *place = 1 });
        match self.lifecycle.end(outcome, || self.tell_abort_handles()) {
            Ended::Released => {}
            Ended::Unshared => {
                self.drop_outcome(outcome);
                self.follow(Then::Free);
            }
            Ended::Unwanted => {
                self.drop_outcome(outcome);
                self.touch();
                self.follow(self.lifecycle.let_go());
            }
            Ended::Notify(waker) => {
                self.touch();
                self.follow(self.lifecycle.let_go());
                waker.wake();
            }
        }
    }

    fn tell_abort_handles(&self) {
        self.touch();
        // SAFETY: a model's.
        self.shared.with(|shared| assert!(unsafe { *shared }));
        self.cell.finish();
    }

    /// As its joiner, once. Looks whether the task has ended, after which nobody has its future any more.
    fn make_abort_handle(&self) {
        // SAFETY: a model's.
        self.shared.with_mut(|shared| unsafe { *shared = true });
        if self.lifecycle.watch() {
            self.cell.finish();
        }
        if self.cell.is_finished() {
            // SAFETY: a model's: loom reports a race with the runner.
            self.future.with(|polls| assert_eq!(unsafe { *polls }, 1));
        }
    }

    fn drop_outcome(&self, outcome: bool) {
        if outcome {
            self.touch();
            // SAFETY: a model's.
            self.outcome
                .with_mut(|place| assert_eq!(std::mem::take(unsafe { &mut *place }), 1));
        }
    }

    fn detach(&self, taken: bool) {
        self.touch();
        if let Detached::Done { outcome } = self.lifecycle.detach() {
            self.drop_outcome(outcome && !taken);
            self.touch();
            self.follow(self.lifecycle.detach_done());
        }
    }

    fn freed(&self) -> usize {
        // SAFETY: a model's.
        self.memory.with(|memory| unsafe { *memory })
    }
}

/// Somebody drops a waker.
fn drops_waker(task: &Arc<Task>) -> ::loom::thread::JoinHandle<()> {
    let task = task.clone();
    spawn(move || {
        task.touch();
        task.follow(task.lifecycle.drop_waker());
    })
}

/// A joiner's waker.
struct Told(AtomicBool);

impl Told {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(false)))
    }

    fn is_told(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// (C a, b) Two wakers, each of which tells it of an event: it sees both and ends.
#[test]
fn c_no_wake_up_is_lost() {
    for gives in [false, true] {
        check(3, move || {
            let task = Task::new(2);
            task.lifecycle.add_waker();
            task.lifecycle.add_waker();
            let wakers: Vec<_> = (0..2)
                .map(|event| {
                    let task = task.clone();
                    spawn(move || {
                        task.touch();
                        task.events[event].store(true, Ordering::Relaxed);
                        task.follow(task.lifecycle.wake(gives));
                    })
                })
                .collect();
            task.run();
            wakers.into_iter().for_each(|waker| waker.join().unwrap());
            assert!(task.lifecycle.is_done(), "it waits, and nobody will wake it");
        });
    }
}

/// (C c, d) The joiner is told by the last waker that it left, and finds the result.
#[test]
fn c_the_joiner_is_told() {
    check(3, || {
        let task = Task::new(0);
        let runner = task.clone();
        let running = spawn(move || runner.run());
        let told = [Told::new(), Told::new()];
        let mut answer = Poll::Pending;
        let mut left = None;
        for told in &told {
            if answer.is_pending() {
                answer = task.lifecycle.poll_done(&Waker::from(told.clone()));
                left = Some(told);
            }
        }
        let waits = answer.is_pending();
        if !waits {
            // SAFETY: a model's: loom reports a race with the runner.
            task.outcome.with(|outcome| assert_eq!(unsafe { *outcome }, 1));
        }
        running.join().unwrap();
        if waits {
            assert!(left.unwrap().is_told());
            answer = task.lifecycle.poll_done(Waker::noop());
        }
        assert_eq!(answer, Poll::Ready(true));
        let dropped = told.iter().all(|told| Arc::strong_count(told) == 1);
        assert!(dropped, "each once, by whoever it was left to or taken back by");
    });
}

/// (C c, d, e) The joiner, which may have left a waker, goes while the task ends and a waker is dropped: the last one
/// frees it.
#[test]
fn c_freed_once_by_the_last() {
    for asks in [false, true] {
        check(3, move || {
            let task = Task::new(0);
            task.lifecycle.add_waker();
            let runner = task.clone();
            let running = spawn(move || runner.run());
            let dropping = drops_waker(&task);
            let told = Told::new();
            let taken = asks && task.lifecycle.poll_done(&Waker::from(told.clone())).is_ready();
            if taken {
                task.drop_outcome(true);
            }
            task.detach(taken);
            running.join().unwrap();
            dropping.join().unwrap();
            assert_eq!(task.freed(), 1);
            assert_eq!(Arc::strong_count(&told), 1, "its waker is dropped");
        });
    }
}

/// (C b, e) The last waker of a task that waits goes: it is ended once, by whoever holds it then.
#[test]
fn c_who_can_not_be_woken_ends() {
    check(3, || {
        let task = Task::new(1);
        task.lifecycle.add_waker();
        let dropping = drops_waker(&task);
        task.run();
        task.detach(false);
        dropping.join().unwrap();
        assert_eq!(task.freed(), 1);
    });
}

/// (C a, e) The last waker is used and given up while the task lets go, and nobody joins it: it is polled again, not
/// abandoned.
#[test]
fn c_the_last_waker_is_used() {
    check(3, || {
        let task = Task::new(1);
        task.detach(false);
        task.lifecycle.add_waker();
        let other = task.clone();
        let waking = spawn(move || {
            other.touch();
            other.events[0].store(true, Ordering::Relaxed);
            other.follow(other.lifecycle.wake(true));
        });
        task.run();
        waking.join().unwrap();
        assert!(!task.abandoned.load(Ordering::Relaxed), "it was woken");
        assert_eq!(task.freed(), 1);
    });
}

/// (E d) An abort handle is made while the task ends and a waker is dropped: it is told, whether the joiner stays,
/// waits or goes.
#[test]
fn e_the_end_is_told() {
    for (waits, goes) in [(false, false), (true, false), (false, true)] {
        check(3, move || {
            let task = Task::new(0);
            task.lifecycle.add_waker();
            let runner = task.clone();
            let running = spawn(move || runner.run());
            let dropping = drops_waker(&task);
            if waits {
                let _may_be_ready = task.lifecycle.poll_done(Waker::noop());
            }
            task.make_abort_handle();
            if goes {
                task.detach(false);
            }
            running.join().unwrap();
            dropping.join().unwrap();
            assert!(
                task.cell.is_finished(),
                "the task has ended, and its abort handle thinks it lives"
            );
        });
    }
}

/// (E e) The first abort handle is made and used while others wake the task: the run that its wake-up brings knows of
/// it.
#[test]
fn e_a_woken_run_knows_of_the_handle() {
    check(3, || {
        // What it waits for never happens.
        let task = Task::new(1);
        (0..2).for_each(|_| task.lifecycle.add_waker());
        let other = task.clone();
        let waking = spawn(move || other.follow(other.lifecycle.wake(true)));
        let runner = task.clone();
        let running = spawn(move || runner.run());
        task.make_abort_handle();
        // Ordering: Relaxed; the wake-up that follows makes it seen.
        task.asked.store(true, Ordering::Relaxed);
        task.follow(task.lifecycle.wake(true));
        waking.join().unwrap();
        running.join().unwrap();
        assert!(
            task.noticed.load(Ordering::Relaxed),
            "it ran after the abort, and did not look"
        );
    });
}
