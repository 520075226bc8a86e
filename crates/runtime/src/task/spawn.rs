//! Makes a task out of a future.

use std::future::Future;

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
    if shared.loads.on() {
        shared.count_task(1);
    }
    let task = async_task::Builder::new().metadata(Meta::new(shared, policy, options.flags, options.name));
    // SAFETY: `meta` is the metadata of the task that the body is made for: async-task keeps both in one allocation and
    // drops the body first.
    let body = |meta: &Meta| unsafe { Body::new(future, meta) };
    // SAFETY: `spawn_unchecked` asks for what `spawn` has as bounds:
    // - the body is Send and 'static but for its pointer to the metadata, which lives as long as it does;
    // - the schedule function is a function item: Send, Sync and 'static;
    // - the output is Send and 'static by our bounds.
    let (runnable, task) = unsafe { task.spawn_unchecked(body, WithInfo(schedule)) };
    (Runnable(runnable), JoinHandle::new(task))
}

/// The function that async-task calls with the runnable of a task that became ready: zero-sized, so that a wake-up
/// needs no reference count of its own.
fn schedule(runnable: async_task::Runnable<Meta>, info: ScheduleInfo) {
    crate::sched::schedule(Runnable(runnable), info.woken_while_running);
}
