//! Waiting for a condition of what a mutex guards.
//!
//! # Theorem V: no notification is lost
//!
//! A notification that begins after a waiter has unlocked the mutex reaches it, or a waiter that came before it. For a
//! waiter enters the list first (V a) and unlocks then (V b); both are done by the first poll, the list is guarded by a
//! short lock, and who saw the mutex unlocked comes to the list later. (V c) A waiter that was notified and is dropped
//! before it could say so notifies the next.

use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::{Pin, pin};
use std::sync::{LockResult, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::mutex::MutexGuard;
use super::refuse_in_tasks;
use crate::primitives::const_fn;
use crate::sync::lock::Lock as Guarded;
use crate::sync::waiters::{Wait, Waiter, Waiters};
use crate::sync::wake_all::wake_all;
use crate::thread::note::Reason;
use crate::thread::wait::{wait_on, wait_timeout_on};
use crate::time::clock;
use crate::time::timeout;

/// Lets threads and tasks wait until another one says that something has changed, as [`std::sync::Condvar`].
///
/// ```
/// use std::sync::Arc;
/// use quadrille::thread::{self, sync::{Condvar, Mutex}};
///
/// let runtime = quadrille::Runtime::new()?;
/// let pair = Arc::new((Mutex::new(false), Condvar::new()));
/// let other = Arc::clone(&pair);
/// let waits = runtime.spawn_thread(move || {
///     let (ready, changed) = &*other;
///     let ready = changed.wait_while(ready.lock().unwrap(), |ready| !*ready).unwrap();
///     assert!(*ready);
/// });
/// *pair.0.lock().unwrap() = true;
/// pair.1.notify_one();
/// waits.join().unwrap();
/// # Ok::<(), quadrille::BuildError>(())
/// ```
///
/// Who waits may be woken without a notification, if only when a waiter that was notified gives up, and hands that on:
/// look at the condition again. One condition may be used with several mutexes.
pub struct Condvar {
    list: Guarded<List>,
}

#[derive(Debug)]
struct List {
    waiters: Waiters,
    /// How many are in the list.
    count: usize,
}

impl List {
    /// # Safety
    /// A1 and A2 of `waiters`.
    unsafe fn notify_first(&mut self) -> Option<Waker> {
        // SAFETY: the caller's.
        let waker = unsafe { self.waiters.notify_first() };
        self.count -= usize::from(waker.is_some());
        waker
    }
}

// Its list is changed in sections that no user code runs in, so that no panic leaves it half done.
impl UnwindSafe for Condvar {}
impl RefUnwindSafe for Condvar {}

impl Condvar {
    const_fn! {
        /// A condition for which nobody waits.
        #[must_use]
        pub fn new() -> Self {
            Self {
                list: Guarded::new(List {
                    waiters: Waiters::new(),
                    count: 0,
                }),
            }
        }
    }

    /// Unlocks, waits for a notification, and locks again.
    ///
    /// # Errors
    /// With the guard, if the mutex is poisoned when it is locked again.
    /// # Panics
    /// As [`Mutex::lock`](super::Mutex::lock), on a user-level thread that panics also if no notification comes as
    /// soon.
    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        refuse_in_tasks();
        let mutex = guard.mutex();
        let mut notified = pin!(self.notified(guard));
        wait_on(notified.as_mut(), Reason::condvar(self));
        let guard = mutex.lock_here();
        // Until here, unwinding hands the notification on (V c).
        notified.uses_notification();
        guard
    }

    /// Waits as long as `condition` holds.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    /// # Panics
    /// As [`wait`](Self::wait), and where `condition` does, which poisons the mutex.
    #[track_caller]
    pub fn wait_while<'a, T, F>(&self, mut guard: MutexGuard<'a, T>, mut condition: F) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut *guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// As [`wait`](Self::wait), but waits no longer than `limit` for a notification. It may take longer to lock again.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    /// # Panics
    /// As [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        refuse_in_tasks();
        let mutex = guard.mutex();
        let mut notified = pin!(self.notified(guard));
        let elapsed = wait_timeout_on(notified.as_mut(), limit, Reason::condvar(self)).is_err();
        let guard = mutex.lock_here();
        let told = notified.uses_notification();
        with_outcome(guard, WaitTimeoutResult(elapsed && !told))
    }

    /// Waits as long as `condition` holds, but no longer than `limit`. It has timed out if the condition still holds
    /// then.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    /// # Panics
    /// As [`wait_while`](Self::wait_while).
    #[track_caller]
    pub fn wait_timeout_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        limit: Duration,
        mut condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>
    where
        F: FnMut(&mut T) -> bool,
    {
        // By the clock that the wait goes by: a test may have paused it.
        let begin = clock::now();
        while condition(&mut *guard) {
            let left = limit.saturating_sub(clock::now().saturating_duration_since(begin));
            if left.is_zero() {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            let (locked, waited) = self.wait_timeout(guard, left)?;
            guard = locked;
            if waited.timed_out() {
                // Not by the clock once more: while a thread is unwound it waits in real time, and that may stand.
                let goes_on = condition(&mut *guard);
                return Ok((guard, WaitTimeoutResult(goes_on)));
            }
        }
        Ok((guard, WaitTimeoutResult(false)))
    }

    /// Unlocks, waits for a notification, and locks again, without blocking anybody. Unlocks when it is polled first.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    /// # Cancel safety
    /// Loses the guard, and the place among those who wait. A notification is not lost: the next one gets it.
    pub async fn wait_async<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let mutex = guard.mutex();
        let mut notified = pin!(self.notified(guard));
        notified.as_mut().await;
        let guard = mutex.lock_async().await;
        // Until here, dropping this hands the notification on (V c).
        notified.uses_notification();
        guard
    }

    /// Waits as long as `condition` holds, without blocking anybody.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    /// # Panics
    /// Where `condition` does, which poisons the mutex.
    /// # Cancel safety
    /// As [`wait_async`](Self::wait_async).
    pub async fn wait_while_async<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut *guard) {
            guard = self.wait_async(guard).await?;
        }
        Ok(guard)
    }

    /// As [`wait_async`](Self::wait_async), but waits no longer than `limit` for a notification. It may take longer to
    /// lock again.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    /// # Panics
    /// As [`time::sleep`](crate::time::sleep).
    /// # Cancel safety
    /// As [`wait_async`](Self::wait_async).
    pub async fn wait_timeout_async<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let mutex = guard.mutex();
        let mut notified = pin!(self.notified(guard));
        let elapsed = timeout(limit, notified.as_mut()).await.is_err();
        let guard = mutex.lock_async().await;
        let told = notified.uses_notification();
        with_outcome(guard, WaitTimeoutResult(elapsed && !told))
    }

    /// Wakes one who waits.
    pub fn notify_one(&self) {
        // SAFETY: A1, inside the section; A2, `Notified` sees to it.
        let told = self.list.with(|list| unsafe { list.notify_first() });
        if let Some(waker) = told {
            waker.wake();
        }
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        // Those who come while we call wakers are not counted, or who waits again at once would keep us here.
        let mut left = None;
        wake_all(|batch| {
            self.list.with(|list| {
                let left = left.get_or_insert(list.count);
                batch.fill_from(|| {
                    *left = left.checked_sub(1)?;
                    // SAFETY: A1, inside the section; A2, `Notified` sees to it.
                    unsafe { list.notify_first() }
                });
            });
        });
    }

    fn notified<'a, T>(&'a self, guard: MutexGuard<'a, T>) -> Notified<'a, T> {
        Notified {
            condvar: self,
            guard: Some(guard),
            waiter: None,
        }
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}

fn with_outcome<G>(guard: LockResult<G>, outcome: WaitTimeoutResult) -> LockResult<(G, WaitTimeoutResult)> {
    match guard {
        Ok(guard) => Ok((guard, outcome)),
        Err(error) => Err(PoisonError::new((error.into_inner(), outcome))),
    }
}

/// Whether a wait has ended because its time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// True if no notification came in time.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

/// Waits for a notification. The first poll unlocks. Until it is dropped, or told that the notification was used, it
/// answers for that.
struct Notified<'a, T> {
    condvar: &'a Condvar,
    /// Until the first poll.
    guard: Option<MutexGuard<'a, T>>,
    /// From the first poll until the notification is used.
    waiter: Option<Waiter>,
}

impl<T> Notified<'_, T> {
    /// Leaves the list. Whether it was notified; what it answered for is now the caller's.
    fn uses_notification(self: Pin<&mut Self>) -> bool {
        // SAFETY: the waiter goes only when it is in no list.
        let this = unsafe { self.get_unchecked_mut() };
        let was_notified = this.leave(false);
        this.waiter = None;
        was_notified
    }

    /// Whether it was notified; if so, and it `hands_on`, the next one is.
    fn leave(&self, hands_on: bool) -> bool {
        let Some(waiter) = &self.waiter else { return false };
        let (was_notified, told, _stale) = self.condvar.list.with(|list| {
            // SAFETY: A1, inside the section; A3, each waiter is used with its own condition only.
            let was_notified = unsafe { list.waiters.is_notified(waiter) };
            // SAFETY: as above.
            let stale = unsafe { list.waiters.leave(waiter) };
            let mut told = None;
            if !was_notified {
                list.count -= 1;
            } else if hands_on {
                // SAFETY: A1; A2, every `Notified` sees to it.
                told = unsafe { list.notify_first() };
            }
            (was_notified, told, stale)
        });
        if let Some(waker) = told {
            waker.wake();
        }
        was_notified
    }
}

impl<T> Future for Notified<'_, T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the waiter is not moved while it is in a list; the guard is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let is_first = this.waiter.is_none();
        let mut fresh = is_first.then(|| cx.waker().clone());
        let waiter = &*this.waiter.get_or_insert_with(Waiter::new);
        loop {
            let waits = this.condvar.list.with(|list| {
                // SAFETY: A1, inside the section; A3, as in `leave`.
                if unsafe { list.waiters.is_notified(waiter) } {
                    return None;
                }
                // SAFETY: as above; A2: pinned, and dropped in place.
                let waits = unsafe { list.waiters.wait(waiter, cx.waker(), &mut fresh) };
                list.count += usize::from(is_first && waits == Wait::Queued);
                Some(waits)
            });
            match waits {
                None => return Poll::Ready(()),
                Some(Wait::Queued) => break,
                Some(Wait::NeedsWaker) => fresh = Some(cx.waker().clone()),
            }
        }
        // (V a) is done, (V b) follows.
        if let Some(guard) = this.guard.take() {
            guard.unlock();
        }
        Poll::Pending
    }
}

impl<T> Drop for Notified<'_, T> {
    fn drop(&mut self) {
        self.leave(true);
    }
}
