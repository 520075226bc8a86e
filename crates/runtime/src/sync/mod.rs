//! Channels and locks that wait without holding up a worker.
//!
//! | need | take |
//! |---|---|
//! | many messages, any number of senders and receivers | [`mpmc`] |
//! | one message, once | [`oneshot`] |
//! | each message to every receiver | [`broadcast`] |
//! | the latest value of something | [`watch`] |
//! | exclusive or shared access across an `.await` | [`Mutex`], [`RwLock`] |
//! | at most so many at a time | [`Semaphore`] |
//! | all meet, then go on | [`Barrier`] |
//! | make once, asynchronously | [`OnceCell`] |
//! | tell tasks to stop | [`CancellationToken`] |
//! | tell a task that something has happened | [`Notify`] |
//!
//! The channels are quadrille's own, because under message-heavy load the channel, not the scheduler, is what a program
//! waits for. The locks are those of the `async-lock` crate, unchanged; those that poison, wait in blocking style by std's names, and
//! have a [`Condvar`](crate::thread::sync::Condvar) are in [`thread::sync`](crate::thread::sync). Neither needs a runtime: they work in tasks,
//! in user-level threads, under any other executor and, by the `_blocking` methods, on plain threads.

pub mod broadcast;
pub mod mpmc;
pub mod oneshot;
pub mod watch;

mod block;
mod cancel;
mod error;
pub(crate) mod lock;
mod notify;
mod queue;
mod ring;
pub(crate) mod waiters;
pub(crate) mod wake_all;
pub(crate) mod watched;

#[cfg(all(test, quadrille_loom))]
mod loom;

pub use self::cancel::{
    CancellationToken, DropGuard, DropGuardRef, WaitForCancellationFuture, WaitForCancellationFutureOwned,
};
pub use self::notify::{Notified, Notify, OwnedNotified};
pub use async_lock::{
    Barrier, BarrierWaitResult, Mutex, MutexGuard, MutexGuardArc, OnceCell, RwLock, RwLockReadGuard,
    RwLockReadGuardArc, RwLockUpgradableReadGuard, RwLockUpgradableReadGuardArc, RwLockWriteGuard, RwLockWriteGuardArc,
    Semaphore, SemaphoreGuard, SemaphoreGuardArc,
};
