//! Makes a task out of a future.

use std::future::Future;
use std::ptr::NonNull;

use async_task::{ScheduleInfo, WithInfo};
use quadrille_policy::{SetId, TaskPolicy};

use super::body::Body;
use super::join::JoinHandle;
use super::{Meta, Runnable};
use crate::sched::Shared;

/// What is known about a task before it exists.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) name: Option<Box<str>>,
    pub(crate) flags: u8,
    /// The coupling set that was declared for it, and its number among the tasks of that.
    pub(crate) set: Option<(SetId, u32)>,
}

/// Allocates a task that belongs to `shared`. The runnable is the caller's to queue or to drop.
#[inline]
pub(crate) fn allocate<F>(
    shared: &Shared,
    policy: TaskPolicy,
    options: Options,
    future: F,
) -> (Runnable, JoinHandle<F::Output>)
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // SAFETY: the future and its output are 'static.
    unsafe { allocate_unchecked(shared, policy, options, |_| future) }
}

/// The same for a future that may borrow, and is made from the metadata of its task, which outlives it.
///
/// # Safety
/// What the future and its output borrow is there until both are dropped.
#[inline]
pub(crate) unsafe fn allocate_unchecked<F>(
    shared: &Shared,
    policy: TaskPolicy,
    options: Options,
    make: impl FnOnce(NonNull<Meta>) -> F,
) -> (Runnable, JoinHandle<F::Output>)
where
    F: Future + Send,
    F::Output: Send,
{
    if shared.loads.on() {
        shared.count_task(1);
    }
    let task = async_task::Builder::new().metadata(Meta::new(shared, policy, options.flags, options.name));
    // SAFETY: `meta` is the metadata of the task that the body is made for: async-task keeps both in one allocation and
    // drops the body first.
    let body = |meta: &Meta| unsafe { Body::new(make(NonNull::from(meta)), meta) };
    // SAFETY: `spawn_unchecked` asks for what `spawn` has as bounds:
    // - the body is Send by our bounds, and is dropped before what it borrows, by our contract and, for its pointer to the
    //   metadata, because that lives as long as it does;
    // - the schedule function is a function item: Send, Sync and 'static;
    // - the output is Send by our bounds, and dropped before what it borrows by our contract.
    let (runnable, task) = unsafe { task.spawn_unchecked(body, WithInfo(schedule)) };
    (Runnable(runnable), JoinHandle::new(task))
}

/// The function that async-task calls with the runnable of a task that became ready: zero-sized, so that a wake-up
/// needs no reference count of its own.
fn schedule(runnable: async_task::Runnable<Meta>, info: ScheduleInfo) {
    crate::sched::schedule(Runnable(runnable), info.woken_while_running);
}
