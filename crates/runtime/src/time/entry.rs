//! One timer, as the future that waits for it holds it.

use std::fmt;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use super::Instant;
use super::clock;
use super::heap::Key;
use super::store::{Change, Store};
use super::stray;
use crate::runtime;
use crate::sched::Shared;
use crate::sched::context::Context;
use crate::sys;
use crate::task::is_waker_of;

/// A deadline to wait for. Set while somebody has polled it, or a `Sleep` was reset that was ready, and it has not
/// expired; dropping it unsets it.
///
/// It holds no reference to its runtime, only its number: on a worker of that runtime, which is where nearly all are
/// polled, none is needed, and elsewhere the runtime is looked up among those that live. Once that has stopped, or is
/// gone, the timer is one of the process (`stray`).
pub(crate) struct TimerEntry {
    /// The runtime's number.
    runtime: u64,
    /// By the clock's nanoseconds; what lies before their origin is negative.
    deadline: i64,
    set: Option<Set>,
    /// The poll of a task that made it, if that ran on a worker of the runtime: in the same poll the clock need not be
    /// read again. Zero: it must.
    born: u32,
}

/// In place of a worker: the runtime has stopped, and the timer is one of the process (`stray`). There are at most 4096
/// workers.
const STRAY: u16 = u16::MAX;

/// Where a timer was set. Whether it still is only the store knows.
#[derive(Clone, Copy)]
struct Set {
    worker: u16,
    key: Key,
    /// Data and functions of the waker that was set, for comparison. Where they belong to another waker by now, that
    /// one was used up by the timer's expiry.
    waker: (usize, usize),
}

impl Set {
    fn wakes(&self, waker: &Waker) -> bool {
        self.waker == identity(waker)
    }

    /// Whether it outlasts its runtime.
    fn is_stray(&self) -> bool {
        self.worker == STRAY
    }

    /// Where it was set, if that is still there.
    #[inline]
    fn store<'a>(&self, shared: Option<&'a Shared>) -> Option<&'a Store<Waker>> {
        if self.is_stray() {
            return Some(stray::timers());
        }
        Some(shared?.timers_of(self.worker))
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
    #[inline]
    pub(super) fn at(deadline: Instant) -> Self {
        runtime::with_current(|shared| Self::new(shared, sys::clock::to_nanos(deadline.into_std()), 0))
    }

    /// The same, `duration` from now on; about 30 years if the clock can't express that.
    #[track_caller]
    #[inline]
    pub(super) fn after(duration: Duration) -> Self {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        runtime::with_current_worker(|shared, worker| {
            let deadline = signed(sys::clock::later_nanos(shared.clock.now(), ns));
            let born = worker.filter(|_| ns != 0).map_or(0, Context::poll_number);
            Self::new(shared, deadline, born)
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
        self.has_come(self.nanos())
    }

    /// What the clock of its runtime shows, whoever asks; the system's, once the runtime is gone.
    pub(super) fn now(&self) -> Instant {
        Instant::from_std(sys::clock::from_nanos(signed(self.nanos())))
    }

    /// The same in nanoseconds.
    #[inline]
    pub(super) fn nanos(&self) -> u64 {
        if clock::any_paused() {
            let shared = Shared::numbered(self.runtime);
            return shared.map_or_else(sys::clock::nanos, |shared| shared.clock.now());
        }
        sys::clock::nanos()
    }

    #[inline]
    fn has_come(&self, now: u64) -> bool {
        self.deadline <= signed(now)
    }

    /// The deadline as stores know it.
    fn due(&self) -> u64 {
        u64::try_from(self.deadline).unwrap_or(0)
    }

    /// Ready from the deadline on. Before that the waker of `cx` will be called at the deadline, or earlier, so that it
    /// is polled again: if the runtime stops, or the system has no thread for a timer that outlasts it.
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
            self.unset(Some(&context.shared));
            return Poll::Ready(());
        }
        let is_new = self.born != 0 && self.born == context.poll_number();
        self.born = 0;
        if !is_new && self.is_elapsed() {
            self.unset(Some(&context.shared));
            return Poll::Ready(());
        }
        if self.set.is_some() {
            return self.change_waker(Some(&context.shared), waker);
        }
        self.set_anew(Some(&context.shared), Some(context), waker.clone());
        Poll::Pending
    }

    /// On a thread that is no worker of the runtime.
    #[cold]
    fn poll_elsewhere(&mut self, waker: &Waker) -> Poll<()> {
        self.born = 0;
        let elapsed = self.is_elapsed();
        let shared = Shared::numbered(self.runtime);
        let shared = shared.as_deref();
        if elapsed {
            self.unset(shared);
            return Poll::Ready(());
        }
        let goes_on = shared.is_some_and(|shared| !shared.sleepers.is_stopping());
        if self.set.is_some_and(|set| goes_on || set.is_stray()) {
            return self.change_waker(shared, waker);
        }
        // Who stops the runtime has raised its flag before he takes what is set, and wakes us after that: so if we were
        // woken for it, we see it here.
        self.unset(shared);
        if goes_on {
            self.set_anew(shared, None, waker.clone());
        } else {
            self.strays(shared, waker.clone());
        }
        Poll::Pending
    }

    /// Sets it for a waker that is to be called at the deadline: with the worker of its runtime that the calling thread
    /// is, else with any. Inlined: what a poll on a worker needs of it is one of three.
    #[inline(always)]
    fn set_anew(&mut self, shared: Option<&Shared>, here: Option<&Context>, waker: Waker) {
        let known = identity(&waker);
        let set = match (shared, here) {
            (_, Some(here)) => here.set_timer(self.due(), waker).map(|key| (here.id.0, key)),
            (Some(shared), None) => shared.set_foreign_timer(self.due(), waker),
            (None, None) => Err(waker),
        };
        match set {
            Ok((worker, key)) => self.note(worker, key, known),
            Err(waker) => self.strays(shared, waker),
        }
    }

    /// The runtime has stopped, or is gone. Who waits is woken at the deadline even so, unless it is one of its tasks:
    /// those are dropped, or were.
    #[cold]
    fn strays(&mut self, shared: Option<&Shared>, waker: Waker) {
        self.set = None;
        if shared.is_some_and(|shared| is_waker_of(&waker, shared)) {
            return;
        }
        // What is left by its clock, which may be ahead of the system's.
        let left = shared.map(|shared| self.due().saturating_sub(shared.clock.now()));
        let due = left.map_or(self.due(), |left| sys::clock::nanos().saturating_add(left));
        let known = identity(&waker);
        if let Some(key) = stray::set(due, waker) {
            self.note(STRAY, key, known);
        }
    }

    fn note(&mut self, worker: u16, key: Key, waker: (usize, usize)) {
        self.set = Some(Set { worker, key, waker });
    }

    /// Somebody polls a timer that was set, before its deadline as he has just read.
    ///
    /// With the waker that was set nothing has to be looked at: if the timer is not set any more, then whoever took it
    /// had read the clock after the deadline, so after this poll began, and its wake-up makes the task poll again. Not
    /// so for a stray timer: it expires by the system's clock, and the poll may have read the runtime's; nor once the
    /// runtime stops, whose stores may have been closed.
    fn change_waker(&mut self, shared: Option<&Shared>, waker: &Waker) -> Poll<()> {
        let stops = || shared.is_some_and(|shared| shared.sleepers.is_stopping());
        let Some(set) = self.set.filter(|set| !set.wakes(waker) || set.is_stray() || stops()) else {
            return Poll::Pending;
        };
        let Some(store) = set.store(shared) else {
            self.strays(shared, waker.clone());
            return Poll::Pending;
        };
        // Not the original's: a clone may be another, and that one's place may be taken by a third.
        let fresh = waker.clone();
        let known = identity(&fresh);
        let (change, unused) = store.replace(set.key, fresh);
        match change {
            Change::Done(old) => {
                self.note(set.worker, set.key, known);
                drop((old, unused));
                Poll::Pending
            }
            Change::Closed => {
                self.strays(shared, waker.clone());
                drop(unused);
                Poll::Pending
            }
            // Its deadline has passed since the clock was read.
            Change::Expired => {
                self.set = None;
                drop(unused);
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
            if entry.deadline >= before && !set.is_stray() {
                let store = set.store(shared);
                if store.is_some_and(|store| store.postpone(set.key, entry.due())) {
                    return;
                }
            }
            // If it has expired, or its runtime has stopped, its waker is being called; who polls again then sets it
            // anew.
            let Some(waker) = entry.take(shared) else {
                return;
            };
            entry.set_anew(shared, context, waker);
        });
    }

    /// Whether it was set, and has not been ready since.
    pub(super) fn is_set(&self) -> bool {
        self.set.is_some()
    }

    /// Sets it for a waker that is to be called at the deadline. Only one that isn't set.
    pub(super) fn set_for(&mut self, waker: Waker) {
        debug_assert!(self.set.is_none(), "it is set already");
        self.with_runtime(|entry, shared, context| entry.set_anew(shared, context, waker));
    }

    /// Calls `f` with the runtime, if it lives, and the worker of it that the calling thread is, if it is one.
    fn with_runtime<R>(&mut self, f: impl FnOnce(&mut Self, Option<&Shared>, Option<&Context>) -> R) -> R {
        Context::with(|context| match context {
            Some(context) if context.shared.number == self.runtime => f(self, Some(&context.shared), Some(context)),
            _ => {
                let shared = Shared::numbered(self.runtime);
                f(self, shared.as_deref(), None)
            }
        })
    }

    /// Takes the timer out of its store, and drops the waker.
    #[inline]
    fn unset(&mut self, shared: Option<&Shared>) {
        if self.set.is_some() {
            drop(self.take(shared));
        }
    }

    /// Takes the timer out of its store. `None` if it is not there any more.
    #[inline]
    fn take(&mut self, shared: Option<&Shared>) -> Option<Waker> {
        let set = self.set.take()?;
        if set.is_stray() {
            return stray::unset(set.key);
        }
        shared?.timers_of(set.worker).remove(set.key)
    }
}

impl Drop for TimerEntry {
    fn drop(&mut self) {
        if self.set.is_some() {
            self.with_runtime(|entry, shared, _| entry.unset(shared));
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

/// Times are less than 2^63 ns for the next 292 years.
pub(super) fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
