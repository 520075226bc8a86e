//! The right to run a task once, and its form as one word in a queue.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use quadrille_policy::TaskPolicy;

use super::Meta;
use super::cell::{self, Header, Run};
use super::meta::LastWorker;
use crate::primitives::AtomicPtr;
use crate::sched::queue::Linked;
use crate::sys::prefetch;

/// The right to run a task once. Dropping it cancels the task.
#[derive(Debug)]
pub(crate) struct Runnable(NonNull<Header>);

// SAFETY: it is the right to poll or drop a future that is Send (`spawn`), to write metadata that is Send, and a part
// in a lifecycle, which is made of atomics.
unsafe impl Send for Runnable {}

impl Runnable {
    /// The one runnable of a task.
    ///
    /// # Safety
    /// The caller holds the task, and gives it up to the runnable (W2).
    #[inline]
    pub(super) unsafe fn held(header: NonNull<Header>) -> Self {
        Self(header)
    }

    /// The task's metadata.
    #[inline]
    pub(crate) fn meta(&self) -> &Meta {
        // SAFETY: we hold the task, so it is there.
        unsafe { &(*self.0.as_ptr()).meta }
    }

    /// The policy fields, which who holds the runnable may read and write (rule 1 of `task`).
    #[inline]
    pub(crate) fn policy(&self) -> &Cell<TaskPolicy> {
        // SAFETY: we hold the runnable, and are lent for as long as the cell is: so nobody runs the task or passes it
        // on meanwhile. Nor does another thread have us, as we are not Sync.
        unsafe { self.meta().policy() }
    }

    /// The same in place: a copy would be taken apart field by field.
    #[inline]
    pub(crate) fn policy_mut(&mut self) -> &mut TaskPolicy {
        let cell = self.policy().as_ptr();
        // SAFETY: nobody else can have a way to the cell, as we are lent exclusively for as long as it is.
        unsafe { &mut *cell }
    }

    /// The worker that ran the task last, or spawned it (rule 1 of `task`).
    #[inline]
    pub(crate) fn last_worker(&self) -> &Cell<LastWorker> {
        // SAFETY: as in `policy`.
        unsafe { self.meta().last_worker() }
    }

    /// Runs the body once.
    #[inline]
    pub(crate) fn run(self) -> Ran {
        let this = ManuallyDrop::new(self);
        // SAFETY: we hold the task, and are not dropped.
        match unsafe { cell::run(this.0) } {
            Run::Again => Ran::Again(ManuallyDrop::into_inner(this)),
            Run::Gone => Ran::Gone,
            Run::Finished => Ran::Finished,
        }
    }
}

/// What a run has come to.
#[derive(Debug)]
#[must_use = "a task that is not queued again is cancelled"]
pub(crate) enum Ran {
    /// The task was woken meanwhile: it is to be queued again.
    Again(Runnable),
    /// It waits, or nobody is left who could wake it and it was cancelled.
    Gone,
    /// Its body has gone: it was ready, or panicked, or was aborted. The caller counts it.
    Finished,
}

#[cfg(all(test, not(quadrille_loom)))]
impl Ran {
    /// The runnable, if the task is to be queued again.
    pub(crate) fn again(self) -> Option<Runnable> {
        match self {
            Self::Again(runnable) => Some(runnable),
            Self::Gone | Self::Finished => None,
        }
    }
}

impl Drop for Runnable {
    fn drop(&mut self) {
        // SAFETY: we hold the task, and are gone after this.
        unsafe { cell::cancel(self.0) };
    }
}

/// A runnable as one word. Must be turned back, or the task leaks.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Word(NonNull<()>);

// SAFETY: it stands for a `Runnable`, which is Send.
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

// SAFETY: the word is the address of the task, which is held until it is turned back; the link is a field of the
// metadata, which lives as long as that.
unsafe impl Linked for Runnable {
    #[inline]
    fn into_raw(self) -> NonNull<()> {
        ManuallyDrop::new(self).0.cast()
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        Self(raw.cast())
    }

    #[inline]
    unsafe fn link<'a>(raw: NonNull<()>) -> &'a AtomicPtr<()> {
        // SAFETY: the caller owns the runnable behind `raw`, so the task is there for 'a.
        unsafe { &(*raw.cast::<Header>().as_ptr()).meta.link }
    }

    #[inline]
    fn fetch(raw: NonNull<()>) {
        prefetch::bytes::<192>(raw.as_ptr().cast());
    }

    #[inline]
    unsafe fn prefetch(raw: NonNull<()>) {
        // SAFETY: the caller owns the runnable behind `raw`, and with the flag the body begins so (`Body`).
        unsafe { cell::fetch_ahead(raw.cast()) };
    }
}
