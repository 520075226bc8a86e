//! The right to run a task once, and its form as one word in a queue.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::Meta;
use crate::primitives::AtomicPtr;
use crate::sched::queue::Linked;

/// The right to run a task once. Dropping it cancels the task.
#[derive(Debug)]
pub(crate) struct Runnable(pub(super) async_task::Runnable<Meta>);

impl Runnable {
    /// The task's metadata.
    #[inline]
    pub(crate) fn meta(&self) -> &Meta {
        self.0.metadata()
    }

    /// Polls the body once.
    #[inline]
    pub(crate) fn run(self) {
        self.0.run();
    }
}

/// A runnable as one word. Must be turned back, or the task leaks.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Word(NonNull<()>);

// SAFETY: it stands for a `Runnable`, which is Send because `Meta` is Send + Sync.
unsafe impl Send for Word {}

impl Word {
    /// The word of a runnable.
    #[inline]
    pub(crate) fn new(runnable: Runnable) -> Self {
        Self(runnable.into_raw())
    }

    /// The runnable again.
    #[inline]
    pub(crate) fn into_runnable(self) -> Runnable {
        // SAFETY: `self.0` comes from `into_raw` in `new`, and `self`, which is not Clone, is consumed.
        unsafe { Runnable::from_raw(self.0) }
    }
}

// SAFETY: `into_raw` and `from_raw` are async-task's, which give back the same task; the link is a field of the
// metadata, which lives as long as the runnable does.
unsafe impl Linked for Runnable {
    #[inline]
    fn into_raw(self) -> NonNull<()> {
        self.0.into_raw()
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: the caller passes what `into_raw` gave, once.
        Self(unsafe { async_task::Runnable::from_raw(raw) })
    }

    #[inline]
    unsafe fn link<'a>(raw: NonNull<()>) -> &'a AtomicPtr<()> {
        // SAFETY: the caller owns the runnable behind `raw`; it is only looked at, not consumed.
        let runnable = ManuallyDrop::new(unsafe { async_task::Runnable::<Meta>::from_raw(raw) });
        let link: *const AtomicPtr<()> = &runnable.metadata().link;
        // SAFETY: the metadata lives in the task's allocation, which the caller's ownership keeps alive for 'a.
        unsafe { &*link }
    }
}
