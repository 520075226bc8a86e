//! Channels and locks that wait without holding up a worker.
//!
//! | need | take |
//! |---|---|
//! | many messages, any number of senders and receivers | [`mpmc`] |
//! | the same with one receiver, by tokio's names | [`mpsc`] |
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
//! All are quadrille's own. Under message-heavy load the channel, not the scheduler, is what a program waits for. The
//! well-kept locks of `async-lock` know ordinary threads only where they block, never give way to other tasks, and
//! serve in no strict order, which takes twice as long where one is held across an `.await`.
//!
//! Those that poison, wait in blocking style by std's names, and have a [`Condvar`](crate::thread::sync::Condvar) are
//! in [`thread::sync`](crate::thread::sync). Neither needs a runtime: they work in tasks, in user-level threads, under
//! any other executor and, by the `_blocking` methods, on plain threads. Those suspend a user-level thread.

pub mod broadcast;
pub mod mpmc;
pub mod mpsc;
pub mod oneshot;
pub mod watch;

mod barrier;
mod block;
mod cancel;
mod error;
mod guard;
pub(crate) mod lock;
mod mutex;
mod notify;
mod once_cell;
mod queue;
mod ring;
mod rwlock;
mod semaphore;
mod shares;
pub(crate) mod waiters;
pub(crate) mod wake_all;
pub(crate) mod watched;

#[cfg(all(test, quadrille_loom))]
mod loom;

pub use self::barrier::{Barrier, BarrierWait, BarrierWaitResult};
pub use self::cancel::{
    CancellationToken, DropGuard, DropGuardRef, WaitForCancellationFuture, WaitForCancellationFutureOwned,
};
pub use self::error::TryLockError;
pub use self::mutex::{Lock, LockOwned, MappedMutexGuard, Mutex, MutexGuard, OwnedMappedMutexGuard, OwnedMutexGuard};
pub use self::notify::{Notified, Notify, OwnedNotified};
pub use self::once_cell::OnceCell;
pub use self::rwlock::{
    OwnedRwLockMappedWriteGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, Read, ReadOwned, RwLock,
    RwLockMappedWriteGuard, RwLockReadGuard, RwLockWriteGuard, Write, WriteOwned,
};
pub use self::semaphore::{
    Acquire, AcquireError, AcquireOwned, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError,
};
