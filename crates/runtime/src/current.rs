//! Which runtime is the calling thread's current one.
//!
//! On a worker it is the worker's own, everywhere else nobody's, until a guard says otherwise. A guard cannot leave its
//! thread, so those that live on a worker were made by the task that it runs now, or by one that may not move and keeps
//! it: the last guard decides. A user-level thread that is suspended takes those with it that it made, and brings them
//! back when it goes on.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::sync::Arc;

use crate::runtime::Handle;
use crate::sched::Shared;
use crate::sched::context::Context;

thread_local! {
    /// Handles entered on this thread, the current one last, each with the number of its guard. Without a destructor,
    /// so that destructors of other thread-locals may enter whichever come first; `END` frees it.
    static ENTERED: RefCell<ManuallyDrop<Vec<Entered>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
    /// Their number, which costs less to ask for.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The number of the last guard of the thread.
    static LAST: Cell<u64> = const { Cell::new(0) };
    /// Made by the first who enters; gone near the end of the thread.
    static END: End = const { End };
}

/// A handle that was entered by the guard with that number.
pub(crate) type Entered = (u64, Handle);

/// While it lives, its runtime is the current one of the thread, unless another guard was made after it.
///
/// In a [pinned](crate::task::spawn_pinned) or [local](crate::task::spawn_local) task it must not live across an
/// `.await`: the other tasks of the worker would run in that runtime meanwhile. (Tasks that may move cannot have one
/// there.)
#[derive(Debug)]
pub struct EnterGuard {
    number: u64,
    _not_send: PhantomData<*const ()>,
}

/// Forgets, when it is dropped, what was entered on its thread and never left.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        DEPTH.set(0);
        // Not under the borrow: it may end a runtime.
        drop(ManuallyDrop::into_inner(ENTERED.take()));
    }
}

/// Makes the runtime behind `handle` the current one until the guard is dropped.
pub(crate) fn enter(handle: Handle) -> EnterGuard {
    let number = LAST.get() + 1;
    LAST.set(number);
    // Where it is gone, who leaves last frees what is there.
    let _ = END.try_with(|_| ());
    ENTERED.with(|entered| entered.borrow_mut().push((number, handle)));
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    EnterGuard {
        number,
        _not_send: PhantomData,
    }
}

impl Drop for EnterGuard {
    fn drop(&mut self) {
        // Nothing is there any more when a guard outlives `END`; nor where a user-level thread that is suspended has
        // taken it along, and left its guard to others.
        let left = ENTERED.with(|entered| {
            let mut entered = entered.borrow_mut();
            let place = entered.iter().rposition(|(number, _)| *number == self.number)?;
            DEPTH.with(|depth| depth.set(depth.get() - 1));
            let left = entered.remove(place);
            if entered.is_empty() && END.try_with(|_| ()).is_err() {
                drop(ManuallyDrop::into_inner(mem::take(&mut *entered)));
            }
            Some(left)
        });
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
pub(crate) fn suspend_above(depth: usize) -> Vec<Entered> {
    DEPTH.set(depth);
    ENTERED.with(|entered| entered.borrow_mut().split_off(depth))
}

/// Puts them back, when that thread goes on.
#[cold]
pub(crate) fn resume(handles: Vec<Entered>) {
    DEPTH.set(DEPTH.get() + handles.len());
    ENTERED.with(|entered| entered.borrow_mut().extend(handles));
}

/// The current runtime, if there is one. In the destructors of a thread that ends there is none but what they enter
/// themselves.
pub(crate) fn current() -> Option<Handle> {
    let entered = ENTERED.with(|entered| entered.borrow().last().map(|(_, handle)| handle.clone()));
    entered.or_else(|| {
        Context::with(|context| {
            context.map(|context| Handle {
                shared: context.shared.clone(),
            })
        })
    })
}

/// Calls `f` with the current runtime, without counting references where none was entered.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(Option<&Arc<Shared>>) -> R) -> R {
    if depth() == 0 {
        return Context::with(|context| f(context.map(|context| &context.shared)));
    }
    let handle = current();
    f(handle.as_ref().map(|handle| &handle.shared))
}

/// Whether the calling thread is a worker whose own runtime is the current one.
#[inline]
pub(crate) fn is_worker() -> bool {
    DEPTH.with(Cell::get) == 0 && Context::with(|context| context.is_some())
}
