//! Timers of runtimes that have stopped: no worker fires them any more, and a thread of the process does it.
//!
//! That thread is there only while such a timer is set. Who waits for one is no task of its runtime, whose tasks are
//! dropped: a thread in `block_on`, a task of another runtime, whatever another library runs.

use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use super::heap::Key;
use super::store::Store;
use crate::current;
use crate::sys::clock;
use crate::sys::thread::Spawner;

/// Those that are set, by the system's clock.
static TIMERS: LazyLock<Store<Waker>> = LazyLock::new(Store::new);

/// Whether there is a thread that looks after them. It leaves under the lock, if nothing is set then; who sets one
/// looks after that.
static SERVED: Mutex<bool> = Mutex::new(false);

/// The first time is another one.
static CHANGED: Condvar = Condvar::new();

/// Where they are set.
pub(super) fn timers() -> &'static Store<Waker> {
    &TIMERS
}

/// Sets a timer. `None` if the system has no thread to give: then the waker has been called, so that who waits polls
/// until it is due.
pub(super) fn set(due: u64, waker: Waker) -> Option<Key> {
    let (key, _) = TIMERS.insert(due, waker).ok()?;
    if ensure_thread() {
        return Some(key);
    }
    let waker = TIMERS.remove(key);
    waker.into_iter().for_each(Waker::wake);
    None
}

/// Unsets a timer, if it has not expired. What it had.
pub(super) fn unset(key: Key) -> Option<Waker> {
    let waker = TIMERS.remove(key);
    if TIMERS.first() == u64::MAX {
        // The thread may go.
        drop(lock());
        CHANGED.notify_all();
    }
    waker
}

fn lock() -> MutexGuard<'static, bool> {
    // No foreign code runs under the lock, so nothing is half done in a poisoned one.
    SERVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A timer was set: whether there is a thread that knows.
fn ensure_thread() -> bool {
    // That of the current runtime, if there is one: the caller may be a pinned worker, and the thread is not to inherit
    // its mask.
    let near = current::with(|shared| shared.map(|shared| shared.pool.spawner().without_hooks()));
    let spawner: Spawner = near.unwrap_or_default();
    let mut served = lock();
    if !*served {
        *served = spawner.spawn("quadrille-stray".to_owned(), serve).is_ok();
    }
    let is_served = *served;
    drop(served);
    CHANGED.notify_all();
    is_served
}

/// The thread.
fn serve() {
    let mut served = lock();
    loop {
        let (now, first) = (clock::nanos(), TIMERS.first());
        if first == u64::MAX {
            *served = false;
            return;
        }
        if first <= now {
            drop(served);
            TIMERS.fire(now);
            served = lock();
        } else {
            let left = Duration::from_nanos(first - now);
            served = CHANGED
                .wait_timeout(served, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
