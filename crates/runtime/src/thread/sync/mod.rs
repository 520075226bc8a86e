//! Locks and channels with the names and meanings of [`std::sync`], for threads and tasks at once.
//!
//! A program that uses std's goes on compiling with one line changed:
//!
//! ```
//! // use std::{sync::{Arc, Condvar, Mutex, mpsc}, thread};
//! use std::sync::Arc;
//! use quadrille::thread::{self, sync::{Condvar, Mutex, mpsc}};
//!
//! # let runtime = quadrille::Runtime::new()?;
//! # runtime.spawn_thread(|| {
//! let (sender, receiver) = mpsc::channel();
//! let total = Arc::new((Mutex::new(0), Condvar::new()));
//! for part in 0..4 {
//!     let (sender, total) = (sender.clone(), Arc::clone(&total));
//!     thread::spawn(move || {
//!         *total.0.lock().unwrap() += part;
//!         total.1.notify_all();
//!         sender.send(part).unwrap();
//!     });
//! }
//! let sum = *total.1.wait_while(total.0.lock().unwrap(), |sum| *sum < 6).unwrap();
//! assert_eq!(receiver.iter().take(4).sum::<i32>(), sum);
//! # }).join().unwrap();
//! # Ok::<(), quadrille::BuildError>(())
//! ```
//!
//! | on | what waits, by std's name | by the name with `_async` |
//! |---|---|---|
//! | a user-level thread | suspends it; its worker runs others | is a future, for [`.wait()`](crate::Wait::wait) |
//! | an ordinary thread | blocks it | the same |
//! | a task | panics, whether or not it would have to wait | is a future, for `.await` |
//!
//! It is one lock, one channel, whoever waits: a thread may wait for what a task holds, and the other way round.
//!
//! Results and errors are std's own types, but for two that nobody but std can make. Guards are `Send` if the value
//! allows it, so that a task can hold one across an `.await`; std's are not.
//!
//! # What is not here
//!
//! Take from [`std::sync`] what does not wait for others: `Arc`, `Once`, `OnceLock`, `LazyLock`, atomics. `Once`,
//! `OnceLock` and `LazyLock` do wait if another thread is initialising: that blocks the worker, so an initialiser must
//! neither wait nor take long. One that waits belongs into [`sync::OnceCell`](crate::sync::OnceCell); and who waits for
//! one to be set ([`OnceLock::wait`](std::sync::OnceLock::wait)), perhaps by a thread of the same worker, waits by
//! [`OnceCell::wait_blocking`](crate::sync::OnceCell::wait_blocking).
//!
//! [`quadrille::sync`](crate::sync) has the locks and channels of asynchronous code, without poisoning.

// | file | has |
// |---|---|
// | `raw` | the lock below `Mutex` and `RwLock`, and its theorem M |
// | `poison` | whether a holder has panicked |
// | `mutex`, `rwlock` | values behind it, guards, futures |
// | `condvar` | theorem V |
// | `barrier` | meetings |
// | `mpsc` | std's channel, on top of `sync::mpmc` |
// | `rendezvous` | the one that holds nothing |
//
// Nothing of ours is held while user code runs, so no thread is suspended inside of one of our critical sections: a
// user's wakers are cloned before a section, all are called or dropped after it, and a thread suspends only in
// `wait_for` and `suspend_on`, between two polls.

mod barrier;
mod condvar;
#[cfg(all(test, quadrille_loom))]
pub(super) mod loom;
pub mod mpsc;
mod mutex;
mod poison;
mod raw;
mod rendezvous;
mod rwlock;

use super::wait::{refuse_on_workers, suspends};

pub use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

pub use barrier::{Barrier, BarrierWaitResult, Meet};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Lock, Mutex, MutexGuard};
pub use rwlock::{Read, RwLock, RwLockReadGuard, RwLockWriteGuard, Write};

/// Panics in a task, always: one that panics only if it must wait would pass its tests.
#[inline]
#[track_caller]
fn refuse_in_tasks() {
    if !suspends() {
        refuse_on_workers();
    }
}
