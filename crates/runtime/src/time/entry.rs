//! One timer, as the future that waits for it holds it.

use std::fmt;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use super::Instant;
use super::clock;
use super::heap::Key;
use super::store::Change;
use crate::runtime;
use crate::sched::Shared;
use crate::sched::context::Context;
use crate::sys;

/// A deadline to wait for. Set while somebody has polled it and it has not expired; dropping it unsets it.
///
/// It holds no reference to its runtime, only its number: on a worker of that runtime, which is where nearly all are polled, none
/// is needed, and elsewhere the runtime is looked up among those that live. One that is gone expires nothing.
pub(crate) struct TimerEntry {
    /// The runtime's number.
    runtime: u64,
    /// By the clock's nanoseconds; what lies before their origin is negative.
    deadline: i64,
    set: Option<Set>,
    /// The poll of a task that made it, if that ran on a worker of the runtime: in the same poll the clock need not be read again.
    /// Zero: it must.
    born: u32,
}

/// Where a timer was set. Whether it still is only the store knows.
#[derive(Clone, Copy)]
struct Set {
    worker: u16,
    key: Key,
    /// Data and functions of the waker that was set, for comparison. Where they belong to another waker by now, that one was used
    /// up by the timer's expiry.
    waker: (usize, usize),
}

impl Set {
    fn wakes(&self, waker: &Waker) -> bool {
        self.waker == identity(waker)
    }
}

fn identity(waker: &Waker) -> (usize, usize) {
    (waker.data().addr(), std::ptr::from_ref(waker.vtable()).addr())
}

impl TimerEntry {
    /// A timer of the current runtime that is not set until it is polled.
    ///
    /// # Panics
    /// Outside a runtime, reported at the caller.
    #[track_caller]
    pub(super) fn at(deadline: Instant) -> Self {
        runtime::with_current(|shared| Self::new(shared, sys::clock::to_nanos(deadline.into_std()), 0))
    }

    /// The same, `ns` from now on; at most about 30 years.
    #[track_caller]
    pub(super) fn after(ns: u64) -> Self {
        runtime::with_current(|shared| {
            let now = shared.clock.now();
            let born = if ns == 0 { 0 } else { current_poll(shared) };
            Self::new(shared, signed(now.saturating_add(ns.min(sys::clock::FAR_NANOS))), born)
        })
    }

    fn new(shared: &Shared, deadline: i64, born: u32) -> Self {
        Self {
            runtime: shared.number,
            deadline,
            set: None,
            born,
        }
    }

    /// When it expires.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::from_std(sys::clock::from_nanos(self.deadline))
    }

    /// Has it expired?
    pub(crate) fn is_elapsed(&self) -> bool {
        if clock::any_paused() {
            let shared = Shared::numbered(self.runtime);
            return self.has_come(shared.map_or_else(sys::clock::nanos, |shared| shared.clock.now()));
        }
        self.has_come(sys::clock::nanos())
    }

    #[inline]
    fn has_come(&self, now: u64) -> bool {
        self.deadline <= signed(now)
    }

    /// The deadline as stores know it.
    fn due(&self) -> u64 {
        u64::try_from(self.deadline).unwrap_or(0)
    }

    /// Ready from the deadline on; before that the waker of `cx` will be called once, at the deadline.
    pub(crate) fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        Context::with(|context| match context {
            Some(context) if context.shared.number == self.runtime => self.poll_here(context, cx.waker()),
            _ => self.poll_elsewhere(cx.waker()),
        })
    }

    /// On a worker of the runtime.
    fn poll_here(&mut self, context: &Context, waker: &Waker) -> Poll<()> {
        // The worker has read the clock for what it does; nearly every timer that it has fired itself has come by that.
        if self.has_come(context.shared.clock.at(context.now.get().0)) {
            self.unset_on(&context.shared);
            return Poll::Ready(());
        }
        let is_new = self.born != 0 && self.born == current_poll(&context.shared);
        self.born = 0;
        if !is_new && self.is_elapsed() {
            self.unset_on(&context.shared);
            return Poll::Ready(());
        }
        if self.set.is_some() {
            return self.change_waker(&context.shared, waker);
        }
        if let Some(key) = context.set_timer(self.due(), waker.clone()) {
            self.note(context.id.0, key, waker);
        }
        Poll::Pending
    }

    /// On a thread that is no worker of the runtime.
    #[cold]
    fn poll_elsewhere(&mut self, waker: &Waker) -> Poll<()> {
        let elapsed = self.is_elapsed();
        let Some(shared) = Shared::numbered(self.runtime) else {
            self.set = None;
            return if elapsed { Poll::Ready(()) } else { Poll::Pending };
        };
        if elapsed {
            self.unset_on(&shared);
            return Poll::Ready(());
        }
        if self.set.is_some() {
            return self.change_waker(&shared, waker);
        }
        self.set_from_elsewhere(&shared, waker.clone());
        Poll::Pending
    }

    fn set_from_elsewhere(&mut self, shared: &Arc<Shared>, waker: Waker) {
        let known = identity(&waker);
        if let Some((worker, key)) = shared.set_foreign_timer(self.due(), waker) {
            self.set = Some(Set {
                worker,
                key,
                waker: known,
            });
        }
    }

    fn note(&mut self, worker: u16, key: Key, waker: &Waker) {
        self.set = Some(Set {
            worker,
            key,
            waker: identity(waker),
        });
    }

    /// Somebody polls a timer that was set, before its deadline as he has just read.
    ///
    /// With the waker that was set nothing has to be looked at: if the timer is not set any more, then whoever took it had read the clock
    /// after the deadline, so after this poll began, and its wake-up makes the task poll again.
    fn change_waker(&mut self, shared: &Shared, waker: &Waker) -> Poll<()> {
        let Some(set) = self.set.as_mut().filter(|set| !set.wakes(waker)) else {
            return Poll::Pending;
        };
        let (change, unused) = shared.timers_of(set.worker).replace(set.key, waker.clone());
        drop(unused);
        match change {
            Change::Done(old) => {
                drop(old);
                set.waker = identity(waker);
                Poll::Pending
            }
            Change::Closed => Poll::Pending,
            // Its deadline has passed since the clock was read.
            Change::Expired => {
                self.set = None;
                Poll::Ready(())
            }
        }
    }

    /// Moves the deadline. Whoever has polled the timer will be woken at the new one instead.
    pub(crate) fn reset(&mut self, deadline: Instant) {
        let before = std::mem::replace(&mut self.deadline, sys::clock::to_nanos(deadline.into_std()));
        self.born = 0;
        let Some(set) = self.set else { return };
        self.with_runtime(|entry, shared, context| {
            let Some(shared) = shared else {
                entry.set = None;
                return;
            };
            if entry.deadline >= before && shared.timers_of(set.worker).postpone(set.key, entry.due()) {
                return;
            }
            let Some(waker) = shared.timers_of(set.worker).remove(set.key) else {
                // It has expired, and its waker is being called; who polls again then sets it anew.
                entry.set = None;
                return;
            };
            entry.set = None;
            match context {
                Some(context) => {
                    let known = identity(&waker);
                    entry.set = context.set_timer(entry.due(), waker).map(|key| Set {
                        worker: context.id.0,
                        key,
                        waker: known,
                    });
                }
                None => entry.set_from_elsewhere(shared, waker),
            }
        });
    }

    /// Calls `f` with the runtime, if it lives, and the worker of it that the calling thread is, if it is one.
    fn with_runtime<R>(&mut self, f: impl FnOnce(&mut Self, Option<&Arc<Shared>>, Option<&Context>) -> R) -> R {
        Context::with(|context| match context {
            Some(context) if context.shared.number == self.runtime => f(self, Some(&context.shared), Some(context)),
            _ => {
                let shared = Shared::numbered(self.runtime);
                f(self, shared.as_ref(), None)
            }
        })
    }

    /// Takes the timer out of its store, and drops the waker.
    #[inline]
    fn unset_on(&mut self, shared: &Shared) {
        if let Some(set) = self.set.take() {
            let waker = shared.timers_of(set.worker).remove(set.key);
            drop(waker);
        }
    }
}

impl Drop for TimerEntry {
    fn drop(&mut self) {
        if self.set.is_some() {
            self.with_runtime(|entry, shared, _| {
                if let Some(shared) = shared {
                    entry.unset_on(shared);
                }
            });
        }
    }
}

impl fmt::Debug for TimerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerEntry")
            .field("deadline", &self.deadline())
            .field("set", &self.set.is_some())
            .finish()
    }
}

/// The number of the poll that the calling thread, a worker of `shared`, runs; zero on any other.
fn current_poll(shared: &Shared) -> u32 {
    Context::with(|context| match context {
        Some(context) if std::ptr::eq(&raw const *context.shared, shared) => context.poll_number(),
        _ => 0,
    })
}

/// Times are less than 2^63 ns for the next 292 years.
fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
