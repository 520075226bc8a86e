//! Channels and locks that wait without holding up a worker.
//!
//! | need | take |
//! |---|---|
//! | many messages, any number of senders and receivers | [`mpmc`] |
//! | hear that nobody receives any more | [`mpmc::Sender::closed`] |
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
//! waits for; so is the [`Semaphore`], because `async-lock`'s serves in no order, gives one permit at a time, and can't be closed; and the [`RwLock`], because
//! guards of `async-lock`'s go to threads where they must not.
//! The other locks are those of the `async-lock` crate, unchanged; those that poison, wait in blocking style by std's names, and
//! have a [`Condvar`](crate::thread::sync::Condvar) are in [`thread::sync`](crate::thread::sync). Neither needs a runtime: they work in tasks,
//! in user-level threads, under any other executor and, by the `_blocking` methods, on plain threads.
//!
//! # The locks of `async-lock`
//!
//! They are [`Mutex`], [`Barrier`] and [`OnceCell`].
//!
//! - *Blocking.* Their methods `lock_blocking` and `wait_blocking` know ordinary threads only: on a user-level
//!   one they hold up its worker, for ever if who has the lock is bound to the same worker. There wait for the method of the same name without `_blocking`:
//!   `mutex.lock().wait()`. (Those of quadrille's own channels and of its `RwLock` suspend a user-level thread.)
//! - *Cancel safety.* Strict, but for the order: a call that is dropped has taken nothing, and one that is made again queues behind all who wait. One that
//!   waits at a [`Barrier`] stays counted when it is dropped, so that the others go on; dropped while it makes the value of a [`OnceCell`], it leaves that empty, and the
//!   next one makes it.
//! - *Fairness.* A [`Mutex`] may be taken by who comes at the right moment; who waits for more than 500 us gets it in order.
//! - *Fair to other tasks.* No: a loop that never has to wait for them does not give way by itself, as one does that uses the channels.

pub mod broadcast;
pub mod mpmc;
pub mod oneshot;
pub mod watch;

mod block;
mod cancel;
mod error;
mod guard;
pub(crate) mod lock;
mod notify;
mod queue;
mod ring;
mod rwlock;
mod semaphore;
pub(crate) mod waiters;
pub(crate) mod wake_all;
pub(crate) mod watched;

#[cfg(all(test, quadrille_loom))]
mod loom;

pub use self::cancel::{
    CancellationToken, DropGuard, DropGuardRef, WaitForCancellationFuture, WaitForCancellationFutureOwned,
};
pub use self::notify::{Notified, Notify, OwnedNotified};
pub use self::rwlock::{
    OwnedRwLockMappedWriteGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, Read, ReadOwned, RwLock,
    RwLockMappedWriteGuard, RwLockReadGuard, RwLockWriteGuard, TryLockError, Write, WriteOwned,
};
pub use self::semaphore::{
    Acquire, AcquireError, AcquireOwned, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError,
};
pub use async_lock::{Barrier, BarrierWaitResult, Mutex, MutexGuard, MutexGuardArc, OnceCell};
