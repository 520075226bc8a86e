//! Makes a task out of a future, or of another body.

use std::future::Future;

use quadrille_policy::{SetId, TaskPolicy, WorkerId};

use super::body::{self, Body, Polled};
use super::join::JoinHandle;
use super::meta::{AHEAD, THREAD};
use super::{Meta, Runnable, cell};
use crate::sched::Shared;
use crate::sched::context::Context;

/// What is known about a task before it exists.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) name: Option<Box<str>>,
    pub(crate) flags: u8,
    /// The coupling set that was declared for it, and its number among the tasks of that.
    pub(crate) set: Option<(SetId, u32)>,
    /// The worker that it is to be bound to by its first run.
    pub(crate) worker: Option<WorkerId>,
}

/// Allocates a task that belongs to `shared`, on the worker `here` of it if the calling thread is one. The runnable is
/// the caller's to queue or to drop.
#[inline]
pub(crate) fn allocate<F>(
    shared: &Shared,
    here: Option<&Context>,
    policy: TaskPolicy,
    options: Options,
    future: F,
) -> (Runnable, JoinHandle<F::Output>)
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: the future and its output are 'static.
    unsafe { allocate_unchecked(shared, here, policy, options, || Polled(future)) }
}

/// The same for a body that may borrow.
///
/// # Safety
/// What the body and its output borrow is there until both are dropped.
#[inline]
pub(crate) unsafe fn allocate_unchecked<B>(
    shared: &Shared,
    here: Option<&Context>,
    policy: TaskPolicy,
    options: Options,
    make: impl FnOnce() -> B,
) -> (Runnable, JoinHandle<B::Output>)
where
    B: Body + Send,
    B::Output: Send,
{
    // SAFETY: that the body is Send, and dropped before what it borrows, are our bounds and contract. So are its
    // results.
    unsafe { allocate_anywhere(shared, here, policy, options, make) }
}

/// The same for a body that need not be `Send`, and results that need not be.
///
/// # Safety
/// As [`allocate_unchecked`], and
/// - a body that is not `Send` is run and dropped on the OS thread that makes it, by whoever gets the runnable;
/// - results that are not `Send` are given or dropped there.
#[inline]
pub(super) unsafe fn allocate_anywhere<B: Body>(
    shared: &Shared,
    here: Option<&Context>,
    policy: TaskPolicy,
    mut options: Options,
    make: impl FnOnce() -> B,
) -> (Runnable, JoinHandle<B::Output>) {
    debug_assert!(
        options.flags & (THREAD | AHEAD) == 0,
        "what the body is, it says itself"
    );
    let ahead = B::BEGINS_WITH_ADDRESS && const { cell::lies_next::<B>() };
    options.flags |= B::FLAGS | if ahead { AHEAD } else { 0 };
    let header = cell::allocate(|| Meta::new(shared, policy, options), make);
    if B::FLAGS & THREAD != 0 {
        // SAFETY: a thread's, which is ours, new, and made with this scheduler.
        unsafe { body::enter_roll(header, shared) };
    }
    match here {
        Some(context) => context.me().counters.spawned.add(1),
        None => shared.loads.count_foreign(1),
    }
    // SAFETY: a new task is held, once. Who runs and drops its body is our contract.
    let runnable = unsafe { Runnable::held(header) };
    // SAFETY: a new task is joined, once, and its body has such results. Who drops those is our contract: the runner,
    // where the body is, or the handle, which is Send only if they are.
    (runnable, unsafe { JoinHandle::new(header) })
}
