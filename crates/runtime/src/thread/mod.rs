//! User-level threads: the comfort of `std::thread` at about a task's price.
//!
//! A thread is written in blocking style: it calls functions, borrows from its own stack, and waits wherever it likes.
//! While it waits, its worker runs others; a million threads may wait. The functions and types here have the names and
//! meanings of those in [`std::thread`].
//!
//! ```
//! use quadrille::thread;
//! use quadrille::time::Duration;
//!
//! let runtime = quadrille::Runtime::new()?;
//! let main = runtime.spawn_thread(|| {
//!     let threads: Vec<_> = (0..100)
//!         .map(|i| {
//!             thread::spawn(move || {
//!                 thread::sleep(Duration::from_millis(1));
//!                 i
//!             })
//!         })
//!         .collect();
//!     threads.into_iter().map(|thread| thread.join().unwrap()).sum::<i32>()
//! });
//! assert_eq!(main.join().unwrap(), 4950);
//! # Ok::<(), quadrille::BuildError>(())
//! ```
//!
//! # Threads and tasks
//!
//! A thread is a task whose body has a stack of its own: same scheduler, same counters, same ids. A thread waits for
//! any future with [`.wait()`](Wait::wait), so all that tasks can wait for, threads can: channels, locks, timers,
//! sockets, and tasks. A task awaits a thread's [`JoinHandle`]. Of [`mpmc`](crate::sync::mpmc) a thread best uses
//! [`send_blocking`](crate::sync::mpmc::Sender::send_blocking) and
//! [`recv_blocking`](crate::sync::mpmc::Receiver::recv_blocking), which suspend it as well, and copy the message less
//! often. [`BlockingIo`] gives sockets and files std's `Read` and `Write`.
//!
//! # Where a thread runs
//!
//! Until it first runs, a thread is placed and stolen like any task. From then on it is *bound* to the worker that ran
//! it, and so to one thread of the operating system: a compiler may assume that code does not change that between two
//! lines. Placement at spawn therefore matters, and is the scheduler's. What follows:
//!
//! - A thread need not be `Send` inside: only the closure and its result cross over.
//! - **A thread that computes for long without waiting, or a task that does, holds up the bound threads of its
//!   worker**: nobody else may run them. [`yield_now`] lets them go on. Bound threads and tasks of a worker take turns.
//! - A call that blocks the operating system's thread (`std::thread::sleep`, a contended `std::sync::Mutex`, a read
//!   from a file or a pipe) blocks the worker and all threads that are bound to it. A lock of std's that is held across
//!   a wait can deadlock for the same reason. Use [`thread::sync`](self::sync), which has std's locks and channels, or
//!   [`sync`](crate::sync), [`net`](crate::net), [`sleep`], [`spawn_blocking`](crate::spawn_blocking); or
//!   [`block_in_place`](crate::task::block_in_place), which at least lets others run what is not bound to the worker.
//! - [`std::thread_local!`] is the worker's, not the thread's: all threads that are bound to a worker, and all tasks
//!   that it runs, share it. It stays at the same address across a wait, but others may have changed it meanwhile. A
//!   variable of the thread's own is declared by [`quadrille::thread_local!`](crate::thread_local!). **The initialiser
//!   of such a variable of std's must not wait**, if its type has a destructor: another thread of the worker could
//!   initialise it meanwhile, and std, which knows one thread, then drops a value that is still lent. Nor may what a
//!   library calls while it keeps a pointer to its caller's stack in such a variable, as the crate `scoped-tls` does.
//! - `std::thread::current()` is the worker's thread, and what it names in the message of a panic; [`current`] is the
//!   user-level one.
//!
//! # Stacks
//!
//! 256 KiB by default ([`Builder::stack_size`]; of all threads of a runtime
//! [`user_thread_stack_size`](crate::Builder::user_thread_stack_size)), of which only what is touched is memory: a
//! thread that sleeps takes some 4.6 kB in all. A stack is taken when the thread first runs, and used again when it has
//! ended. Sizes are rounded up to powers of two from 16 KiB to 1 GiB. Deep recursion and large arrays belong on the
//! heap or on a larger stack. So does a library whose limit of depth is made for the 2 MiB of std's threads: built
//! without optimizations, `serde_json` with its 128 levels takes nearly all of a default stack. A size of 1 MiB costs
//! no more memory, unless it is touched.
//!
//! Each stack ends in a guard: to run into it is reported with the thread's name and the size of its stack, and aborts
//! the process, as std does. There is no setting without guards. On Linux 6.13 and later they are marks in the page
//! table and cost no mappings. Before, each takes two of the mappings that `vm.max_map_count` allows a process (65,530
//! by default, which is enough for some 28,000 threads): [`Builder::spawn`] then fails with an error that names it,
//! rather than some unrelated allocation later.
//!
//! # Tools
//!
//! - `RUST_BACKTRACE=1` and gdb's `backtrace` show a thread's frames down to the worker that runs it (gdb:
//!   `break rust_panic`). A thread that waits is on no OS thread's stack; [`Handle::threads`](crate::Handle::threads)
//!   lists them all, with name, state, and what each waits for.
//! - valgrind knows the stacks. AddressSanitizer follows the switches; it needs a nightly compiler
//!   (`-Zsanitizer=address`).
//!
//! # Panics and the end of the runtime
//!
//! A panic ends the thread and reaches whoever joins it. The hook that reports it names the worker; what the thread is
//! called, [`current`]`().name()` says to a hook of one's own. [`JoinHandle::abort`] asks a single thread to end. When
//! the runtime shuts down, threads that have not started are dropped; those that wait are unwound, on their own worker:
//! from the call that waits, as if it had panicked, but quietly. Their destructors run; what they wait for must come
//! soon, and not by what needs the same worker (see [`Wait::wait`]). Where the closure has ended, and only the values
//! of [`thread_local!`](crate::thread_local!) or an unwanted result are dropped, each destructor that waits has a
//! second, one after another, for which the worker is blocked. A thread that catches this with `catch_unwind` and waits
//! again is unwound again; one that does so for ever keeps its runtime from ending. Joiners get an error with
//! [`is_cancelled`](crate::task::JoinError::is_cancelled). A program that is compiled with `panic = "abort"` can't
//! unwind: it ends there. A destructor that panics meanwhile ends the program, too, as in a thread of std's that
//! panics.
//!
//! # Which there are
//!
//! [`Handle::threads`] lists all threads of a runtime with their names, what each does, and what it waits for.
//!
//! # On other threads
//!
//! On an ordinary thread of the operating system these functions do what std's do: [`sleep`], [`park`] and
//! [`yield_now`] block it or yield its processor, and [`current`] names it; only [`sleep`] goes by a clock that a test
//! has paused. In a task, which has no stack to be suspended, what would wait panics.

// | file | has |
// |---|---|
// | `spawn` | the ways to make a thread: reserves a stack, makes a task of a fiber |
// | `fiber` | the body: closure, then coroutine; run and dropped by its owner once it has started |
// | `suspend` | what runs on the thread's own stack: the current thread, suspending, unwinding |
// | `wait`, `blocking_io` | `.wait()`, on whichever kind of thread, and std's `Read` and `Write` by it |
// | `handle`, `park`, `scope`, `local` | what users hold |
// | `list`, `roll`, `note` | a list of all threads: who there is, what each waits for |
// | `woken` | a waker that remembers, for who waits within a poll of what he waits for |
// | `rarely` | a vector that few threads ever fill |
// | `sync` | locks and channels, with std's names |
// | `stack` | the memory |
//
// Which stack am I on: `Frame::with` and `Frame::current` say. Code of the scheduler may be called on either, wakes and
// spawns above all, so it stays shallow. It knows nothing of stacks: for it a thread is a task with the flag `BOUND`
// (theorem B of `sched`).

mod blocking_io;
mod fiber;
mod handle;
pub(crate) mod list;
mod local;
pub(crate) mod note;
mod park;
mod rarely;
#[cfg(doctest)]
mod refused;
pub(crate) mod roll;
pub(crate) mod scope;
mod spawn;
pub(crate) mod stack;
mod suspend;
pub mod sync;
mod wait;
mod woken;

use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;

pub(crate) use self::note::Reason;
use self::suspend::Frame;
pub(crate) use self::suspend::place;
use self::wait::{refuse_on_workers, wait_on};
use crate::runtime::Handle;
use crate::sched::context::is_away;
use crate::time;
use crate::time::presence::stands_here;

pub use std::thread::{Result, panicking};

pub use self::blocking_io::BlockingIo;
pub use self::handle::{AbortHandle, JoinHandle, Thread, ThreadId};
pub use self::list::{ThreadInfo, ThreadState, WaitsFor};
pub use self::local::{AccessError, LocalKey};
pub use self::park::{park, park_timeout};
pub use self::scope::{Scope, ScopedJoinHandle, scope};
pub use self::spawn::{Builder, spawn};
pub use self::wait::Wait;
pub(crate) use self::wait::{suspend_on, suspends};

/// The calling thread: the user-level one, or the operating system's where there is none, as in a task.
///
/// ```
/// # let runtime = quadrille::Runtime::new().unwrap();
/// let id = runtime.spawn_thread(|| quadrille::thread::current().id()).join().unwrap();
/// assert_ne!(id, quadrille::thread::current().id());
/// ```
#[must_use]
pub fn current() -> Thread {
    Frame::with(|frame| match frame {
        Some(frame) => frame.thread().clone(),
        None => Thread::os(std::thread::current()),
    })
}

/// Gives way to what is ready: the calling thread goes to the end of the queue of its worker's bound threads.
///
/// On an ordinary thread, on a user-level one that panics, and in a task, as [`std::thread::yield_now`]; a task gives
/// way with [`task::yield_now`](crate::task::yield_now). A destructor of a thread that panics or is unwound, which
/// calls it until a thread of the same worker has done something, or where no other worker is free any task, calls it
/// for ever.
#[track_caller]
#[inline]
pub fn yield_now() {
    // SAFETY: it is used here alone.
    match unsafe { Frame::current() } {
        Some(frame) if !is_away() => frame.give_way(),
        _ => std::thread::yield_now(),
    }
}

/// Waits for `duration`, never less. A user-level thread is suspended, an ordinary one sleeps as with
/// [`std::thread::sleep`]; but where a test has [paused](time::pause) the clock of the current runtime it goes by that,
/// too. A user-level thread that can't be [suspended](Wait::wait), as it panics, blocks its worker.
///
/// # Panics
/// As [`Wait::wait_timeout`], and on a user-level thread as [`time::sleep`].
#[track_caller]
pub fn sleep(duration: Duration) {
    let suspends = suspends();
    if suspends && Frame::waits_in_place() {
        return std::thread::sleep(duration);
    }
    if suspends || stands_here() {
        return wait_on(time::sleep(duration), Reason::SLEEP);
    }
    refuse_on_workers();
    std::thread::sleep(duration);
}

/// Whether the calling code runs on a user-level thread.
#[inline]
pub(crate) fn is_user_level() -> bool {
    Frame::with(|frame| frame.is_some())
}

/// How many threads can run at the same time: the workers of the current runtime; outside of one, what
/// [`std::thread::available_parallelism`] says.
///
/// # Errors
/// As that.
pub fn available_parallelism() -> io::Result<NonZeroUsize> {
    match Handle::try_current().and_then(|handle| NonZeroUsize::new(handle.worker_count())) {
        Some(workers) => Ok(workers),
        None => std::thread::available_parallelism(),
    }
}
