//! Tasks: their ids and names, giving way, joining and aborting.
//!
//! A task is made by [`spawn`](crate::spawn), [`Handle::spawn`](crate::Handle::spawn) or a [`Builder`], and runs
//! whether or not somebody waits for it. A [`JoinHandle`] is a future of its result, an [`AbortHandle`] asks it to
//! stop, a [`JoinSet`] holds many, a [`TaskTracker`] only waits for them to end, and a [`TaskGroup`] says which belong
//! together.
//!
//! ```
//! # quadrille::Runtime::new().unwrap().block_on(async {
//! use quadrille::task;
//!
//! let sum = task::spawn_blocking(|| (1..=4).sum::<i32>());
//! let twice = task::spawn(async move { 2 * sum.await.unwrap() });
//! assert_eq!(twice.await.unwrap(), 20);
//! # });
//! ```

// A task is one allocation (`cell`): a thread's place on the roll, its state word and the joiner's waker (`lifecycle`),
// our `Meta`, and its body, the user's future or a user-level thread, or, later, its result. The rest of the crate sees
// a `Runnable` (the right to run the task once) and a `JoinHandle`.
//
// # Who owns what
//
// | reference | held by | may do |
// |---|---|---|
// | `Runnable` | whoever made the state word `HELD`, then a queue, then a worker | run the task, drop it (which cancels it), read and write the policy fields |
// | `Waker` | user code, the registry | ask for a `Runnable` |
// | `JoinHandle` | user code | take the result, abort, look at the metadata that never changes |
//
// # Phases
//
// | phase | where the `Runnable` is | in the registry | content |
// |---|---|---|---|
// | new | in a queue | no | body |
// | running | on a worker's stack | if it was ever pending | body |
// | pending | nowhere | yes | body |
// | woken | in a queue | yes | body |
// | finished | gone | no | result, until it is taken or the handle is dropped |
//
// A task that finishes in its first run never touches the registry. One that returns `Pending` enters it once, so that
// a runtime that shuts down finds it; its body leaves it when it is dropped, on every path. A user-level thread does
// not enter it: it is on a list of the worker that it is bound to, which ends it before it leaves (theorem B of
// `sched`).
//
// # Rules
//
// 1. `Meta::policy` and `Meta::last_worker` are plain cells: only the holder of the `Runnable` touches them, by its
//    methods; they pass on with the queue's release and acquire.
// 2. Everything else in `Meta` is either constant or atomic.
// 3. The body is dropped exactly once: by its runner when it is ready or aborted, or with its `Runnable`. A panic in
//    the user's destructor is caught there: destructors of tasks never unwind into a worker. With the flag `BOUND` all
//    of that happens on the OS thread of one worker: `sched` sees to where the `Runnable` goes.
// 4. The scheduler outlives every body: a worker holds a reference for as long as it lives, and the last worker to
//    leave drops every body before it goes. A foreign waker takes a reference of its own before it publishes (W3).

pub(crate) mod abort;
mod abort_on_drop;
pub(crate) mod body;
pub(crate) mod cell;
pub(crate) mod group;
mod in_place;
pub(crate) mod join;
mod lifecycle;
mod local;
pub(crate) mod meta;
mod pinned;
#[cfg(doctest)]
mod refused;
pub(crate) mod registry;
pub(crate) mod runnable;
mod running;
mod scope;
pub(crate) mod spawn;
mod state;
mod tracker;
mod waker;

pub(crate) use meta::Meta;
pub(crate) use runnable::{Ran, Runnable};
pub(crate) use running::is_detached;
pub(crate) use waker::{is_future_of, is_own_waker, is_waker_of, runtime_of_future};

/// Queues a task that was woken and not held.
#[inline]
fn submit(runnable: Runnable) {
    crate::sched::schedule(runnable);
}

mod api;

pub use abort_on_drop::AbortOnDropHandle;
pub use api::{Builder, YieldNow, id, try_id, yield_now};
pub use group::{Locality, TaskGroup};
pub use in_place::block_in_place;
pub use join::{AbortHandle, JoinHandle};
#[doc(hidden)]
pub use local::LocalSlot;
pub use local::{AccessError, LocalKey, TaskLocalFuture};
pub use meta::Id;
pub use pinned::{spawn_local, spawn_pinned};
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use tracker::{TaskTracker, TaskTrackerToken, TaskTrackerWaitFuture, TrackedFuture};

pub use crate::coop::{Unconstrained, consume_budget, unconstrained};
pub use crate::error::JoinError;
pub use crate::join_set::{JoinMap, JoinSet};
pub use crate::runtime::{spawn, spawn_blocking};
