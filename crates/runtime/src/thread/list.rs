//! A list of all threads: what a debugger would show of those of the operating system.

use std::collections::BTreeMap;
use std::fmt;

use super::{ThreadId, roll};
use crate::runtime::Handle;
use crate::sched::Shared;
use crate::task::Id;

/// A user-level thread, as [`Handle::threads`] found it.
///
/// Its `Display` is a line of a table, whose first line is [`HEADER`](Self::HEADER).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadInfo {
    /// Its id.
    pub id: ThreadId,
    /// The name given by [`Builder::name`](super::Builder::name), if any.
    pub name: Option<String>,
    /// What it does.
    pub state: ThreadState,
}

/// What a user-level thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThreadState {
    /// It was spawned, and no worker has begun to run it. It may still go anywhere.
    NotStarted,
    /// It waits for nothing but its turn on its worker.
    Ready {
        /// The worker that it is bound to.
        worker: usize,
    },
    /// It runs, or blocks [in place](crate::task::block_in_place).
    Running {
        /// The worker that it is bound to.
        worker: usize,
    },
    /// It waits.
    Suspended {
        /// The worker that it is bound to.
        worker: usize,
        /// For what.
        waits_for: WaitsFor,
    },
}

/// What a suspended thread waits for. Addresses are those of the objects, to be compared with one another and with
/// `{:p}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitsFor {
    /// An [`unpark`](super::Thread::unpark).
    Unpark,
    /// The end of a [`sleep`](super::sleep).
    Time,
    /// The [`Mutex`](super::sync::Mutex) or [`RwLock`](super::sync::RwLock) at this address.
    Lock(usize),
    /// The [`Condvar`](super::sync::Condvar) at this address.
    Condvar(usize),
    /// The [`Barrier`](super::sync::Barrier) at this address.
    Barrier(usize),
    /// A message, or room for one, in a channel of [`mpsc`](super::sync::mpsc), or of [`mpmc`](crate::sync::mpmc) by
    /// its blocking methods; the same address for all of its ends.
    Channel(usize),
    /// The end of this thread.
    Thread(ThreadId),
    /// The threads of its [`scope`](super::scope()).
    Scope,
    /// A future of the type with this name, in a [`wait`](crate::Wait::wait).
    Future(&'static str),
}

impl Handle {
    /// Every user-level thread of the runtime that has not ended, in the order of their ids: which is about that in
    /// which they were spawned.
    ///
    /// ```
    /// use quadrille::thread::{self, ThreadInfo, sync::mpsc};
    ///
    /// let runtime = quadrille::Runtime::new()?;
    /// let (sender, receiver) = mpsc::channel::<()>();
    /// let reader = thread::Builder::new().name("reader".to_owned());
    /// let reader = reader.spawn_on(move || receiver.recv(), runtime.handle())?;
    ///
    /// let threads = runtime.handle().threads();
    /// assert_eq!(threads.len(), 1);
    /// assert_eq!(threads[0].name.as_deref(), Some("reader"));
    ///
    /// println!("{}", ThreadInfo::HEADER);
    /// threads.iter().for_each(|thread| println!("{thread}"));
    /// # drop(sender);
    /// # assert!(reader.join().unwrap().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// prints, once the thread waits,
    ///
    /// ```text
    ///       id  name              state        worker  waits for
    ///       64  reader            suspended         1  channel 0x7f5a3c001080
    /// ```
    ///
    /// # What it tells
    ///
    /// A thread that was spawned before the call and has not ended after it is in the list, once. Its state is that of
    /// some moment of the call, and of each thread of another one: of two that wait for each other in turn, both may
    /// seem to wait. What is not told of one moment: a state and the object or the type that is waited for may be of
    /// two successive waits; a thread that was woken may still seem suspended, and one that is about to run ready; and
    /// the name of a thread that has ended meanwhile is gone.
    ///
    /// # Cost
    ///
    /// To the threads, a few stores into their own memory whenever they are suspended. The caller reads a line of the
    /// memory of every user-level thread of the process, and of what is kept for the next ones, and a line or two of
    /// each thread's stack, most likely not in its cache. For each 1,024 of the first it holds a lock. Whoever takes
    /// memory of a thread from the allocator meanwhile, or gives it back, waits for that: a spawn, an end, or a worker
    /// that tidies up, none of which need to as long as what is kept is enough.
    #[must_use]
    pub fn threads(&self) -> Vec<ThreadInfo> {
        all(&self.shared)
    }
}

/// Every thread of a scheduler; see [`Handle::threads`].
pub(crate) fn all(scheduler: &Shared) -> Vec<ThreadInfo> {
    let mut states = BTreeMap::new();
    roll::read(scheduler, |id, owner| {
        // Of those that were ever suspended the notes tell more.
        let state = owner.map_or(ThreadState::NotStarted, |owner| ThreadState::Running {
            worker: owner.index(),
        });
        states.insert(id, state);
    });
    for (worker, shared) in scheduler.workers.iter().enumerate() {
        shared.notes.read(worker, |id, state| {
            states.insert(id, state);
        });
    }
    let info = |(id, state)| {
        let id = Id::from_number(id);
        ThreadInfo {
            id: ThreadId::of(id),
            name: scheduler.thread_names.get(id),
            state,
        }
    };
    states.into_iter().map(info).collect()
}

impl ThreadInfo {
    /// The first line of a table of threads.
    pub const HEADER: &str = "      id  name              state        worker  waits for";
}

impl fmt::Display for ThreadInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or("-");
        let state = match self.state {
            ThreadState::NotStarted => "not started",
            ThreadState::Ready { .. } => "ready",
            ThreadState::Running { .. } => "running",
            ThreadState::Suspended { .. } => "suspended",
        };
        write!(f, "{:>8}  {name:<16}  {state:<11}", self.id)?;
        match self.state {
            ThreadState::NotStarted => Ok(()),
            ThreadState::Ready { worker } | ThreadState::Running { worker } => write!(f, "  {worker:>6}"),
            ThreadState::Suspended { worker, waits_for } => write!(f, "  {worker:>6}  {waits_for}"),
        }
    }
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitsFor::Unpark => f.write_str("unpark"),
            WaitsFor::Time => f.write_str("time"),
            WaitsFor::Lock(address) => write!(f, "lock {address:#x}"),
            WaitsFor::Condvar(address) => write!(f, "condvar {address:#x}"),
            WaitsFor::Barrier(address) => write!(f, "barrier {address:#x}"),
            WaitsFor::Channel(address) => write!(f, "channel {address:#x}"),
            WaitsFor::Thread(id) => write!(f, "thread {id}"),
            WaitsFor::Scope => f.write_str("threads of its scope"),
            WaitsFor::Future(name) => write!(f, "future {name}"),
        }
    }
}
