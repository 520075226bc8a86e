//! One timer, as the future that waits for it holds it.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::timers::Key;
use super::{Phase, Shared};
use crate::sys::clock;

/// A deadline to wait for. Set while somebody has polled it and it has not expired; dropping it unsets it.
pub(crate) struct TimerEntry {
    shared: Arc<Shared>,
    deadline: Instant,
    /// What was set last: the name in the list, and the waker there. The thread may have taken it since.
    set: Option<(Key, Waker)>,
}

impl TimerEntry {
    pub(super) fn new(shared: Arc<Shared>, deadline: Instant) -> Self {
        TimerEntry {
            shared,
            deadline,
            set: None,
        }
    }

    /// When it expires.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Has it expired?
    pub(crate) fn is_elapsed(&self) -> bool {
        clock::now() >= self.deadline
    }

    /// Ready from the deadline on; before that the waker of `cx` will be called once, at the deadline.
    ///
    /// # Panics
    ///
    /// This is the first timer of the runtime, and the system has no thread or descriptor for the driver.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_elapsed() {
            self.unset();
            return Poll::Ready(());
        }
        match &self.set {
            // The module's documentation says why this needs no look at the list.
            Some((_, waker)) if waker.will_wake(cx.waker()) => {}
            _ => self.set_waker(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Moves the deadline. Whoever has polled the timer will be woken at the new one instead.
    pub(crate) fn reset(&mut self, deadline: Instant) {
        let waker = self.unset();
        self.deadline = deadline;
        if let Some(waker) = waker {
            self.set_waker(waker);
        }
    }

    /// Puts the timer into the list, or gives the one there another waker.
    fn set_waker(&mut self, waker: Waker) {
        let listed = waker.clone();
        let old = self.set.take();
        let inserted = {
            let mut state = self.shared.lock();
            if let Err(error) = self.shared.ensure_started(&mut state) {
                let stopped = state.phase == Phase::Stopped;
                drop(state);
                assert!(stopped, "the thread for timers can't be started: {error}");
                return;
            }
            match &old {
                Some((key, _)) => state.timers.set(*key, listed),
                None => state.timers.insert(self.deadline, listed),
            }
        };
        if inserted.notify {
            self.shared.notify();
        }
        self.set = Some((inserted.key, waker));
        drop((old, inserted.replaced));
    }

    /// Takes the timer out of the list; returns the waker that was set last.
    fn unset(&mut self) -> Option<Waker> {
        let (key, waker) = self.set.take()?;
        let listed = self.shared.lock().timers.remove(key);
        drop(listed);
        Some(waker)
    }
}

impl Drop for TimerEntry {
    fn drop(&mut self) {
        self.unset();
    }
}

impl fmt::Debug for TimerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerEntry")
            .field("deadline", &self.deadline)
            .field("set", &self.set.is_some())
            .finish()
    }
}
