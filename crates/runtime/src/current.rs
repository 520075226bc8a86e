//! Which runtime is the calling thread's current one.
//!
//! On a worker it is the worker's own, everywhere else nobody's, until a guard says otherwise. A guard cannot leave its
//! thread, so those that live on a worker were made by the task that it runs now: the last guard always decides. A user-level
//! thread that is suspended takes those with it that it made, and brings them back when it goes on.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

use crate::runtime::Handle;
use crate::sched::context::Context;

thread_local! {
    /// Handles entered on this thread, the current one last.
    static ENTERED: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
    /// Their number, which costs less to ask for.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// While it lives, its runtime is the current one of the thread. Guards are dropped in the reverse order of entering.
#[derive(Debug)]
pub struct EnterGuard {
    _not_send: PhantomData<*const ()>,
}

/// Makes the runtime behind `handle` the current one until the guard is dropped.
pub(crate) fn enter(handle: Handle) -> EnterGuard {
    ENTERED.with(|entered| entered.borrow_mut().push(handle));
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    EnterGuard { _not_send: PhantomData }
}

impl Drop for EnterGuard {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
        // Nothing is there any more when a guard outlives its thread's locals.
        let left = ENTERED.try_with(|entered| entered.borrow_mut().pop());
        // It may be the last reference to its runtime: not under the borrow.
        drop(left);
    }
}

/// How many guards live on this thread.
#[inline]
pub(crate) fn depth() -> usize {
    DEPTH.get()
}

/// Takes the entered handles above `depth`: those of a user-level thread that is suspended while its guards live.
#[cold]
pub(crate) fn suspend_above(depth: usize) -> Vec<Handle> {
    DEPTH.set(depth);
    ENTERED.with(|entered| entered.borrow_mut().split_off(depth))
}

/// Puts them back, when that thread goes on.
#[cold]
pub(crate) fn resume(handles: Vec<Handle>) {
    DEPTH.set(DEPTH.get() + handles.len());
    ENTERED.with(|entered| entered.borrow_mut().extend(handles));
}

/// The current runtime, if there is one. None in the destructors of a thread that ends.
pub(crate) fn current() -> Option<Handle> {
    let entered = ENTERED.try_with(|entered| entered.borrow().last().cloned());
    entered.ok().flatten().or_else(|| {
        Context::with(|context| {
            context.map(|context| Handle {
                shared: context.shared.clone(),
            })
        })
    })
}

/// Whether the calling thread is a worker whose own runtime is the current one.
#[inline]
pub(crate) fn is_worker() -> bool {
    DEPTH.with(Cell::get) == 0 && Context::with(|context| context.is_some())
}
