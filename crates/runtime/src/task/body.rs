//! What a task runs: a user-level thread, or a user's future, whose panics it catches, which obeys aborts, and enters
//! the registry when it is first pending.

use std::any::Any;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll};

use super::Meta;
use super::cell::{self, Header, Turn};
use super::join::Cancelled;
use super::meta::THREAD;
use crate::coop;
use crate::panics::quietly;
use crate::primitives::Ordering;
use crate::sched::Shared;

/// What a task runs.
///
/// # Safety
/// `run`, if its contract is kept, does what it says: it does not unwind, and is true only if the body was dropped and
/// `place` written. A body with the flag `THREAD` keeps a waker of its task while it is pending
/// (`JoinHandle::with_waker`), and never enters the registry; its `run` drops it by [`end`], which takes it off the
/// roll, as `cancel` does. `discard` drops it. One that is said to begin with an address does, for as long as it is
/// there.
pub(crate) unsafe trait Body {
    /// What it comes to.
    type Output;

    /// What its task is marked with.
    const FLAGS: u8 = 0;
    /// Whether it begins with an address: of the memory that it needs first when it runs.
    const BEGINS_WITH_ADDRESS: bool = false;

    /// Runs it once. True: it is gone, and what it leaves is in `place`, which may be its own.
    ///
    /// # Safety
    /// - The body is there, stays where it is until it is dropped, and is the caller's; it is not used again once it is
    ///   gone.
    /// - `place` is room for what it leaves, once it is gone.
    /// - `turn` is that of its task.
    unsafe fn run(this: *mut Self, place: *mut Outcome<Self::Output>, turn: &Turn) -> bool;

    /// Drops it, wherever it is dropped once its task is there.
    ///
    /// # Safety
    /// It is there, the caller's, and not used again. The metadata is that of its task.
    #[inline]
    unsafe fn discard(this: *mut Self, meta: &Meta) {
        let _ = meta;
        // SAFETY: by our contract this is the first drop and the last use.
        unsafe { this.drop_in_place() };
    }
}

/// A future as the body of a task.
#[repr(transparent)]
pub(crate) struct Polled<F>(pub(crate) F);

// SAFETY: `poll` and `end` catch what unwinds, and `end` writes `place`, which is last of all. Neither flag nor
// address.
unsafe impl<F: Future> Body for Polled<F> {
    type Output = F::Output;

    #[inline]
    unsafe fn run(this: *mut Self, place: *mut Outcome<F::Output>, turn: &Turn) -> bool {
        let meta = turn.meta();
        let mut result = Err(None);
        if !turn.is_aborted() {
            let waker = turn.waker();
            let cx = &mut Context::from_waker(&waker);
            // SAFETY: by our contract; transparent.
            match unsafe { poll(this.cast::<F>(), cx) } {
                Some(ready) => result = ready,
                None => {
                    // Ordering: Relaxed; only the runner writes it.
                    let registered = meta.key.load(Ordering::Relaxed) != 0;
                    if registered || !enter_registry(meta, cx) {
                        return false;
                    }
                }
            }
        }
        // SAFETY: it is there, and gone after this; our contract.
        unsafe { end(this, place, turn, result) };
        true
    }
}

/// What a body leaves behind: the value, or the payload of its panic, or [`Cancelled`] as a payload.
///
/// The worker drops it where nobody asked for it. A panic of the user's destructor ends here (rule 3 of `task`).
pub(crate) struct Outcome<T>(ManuallyDrop<Result<T, Box<dyn Any + Send>>>);

impl<T> Outcome<T> {
    fn new(result: Result<T, Box<dyn Any + Send>>) -> Self {
        Self(ManuallyDrop::new(result))
    }

    /// Whether to drop it does anything.
    #[inline]
    pub(super) fn has_destructor(&self) -> bool {
        std::mem::needs_drop::<T>() || self.0.is_err()
    }

    /// The result, for the joiner.
    #[inline]
    pub(super) fn into_result(self) -> Result<T, Box<dyn Any + Send>> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is neither dropped nor used after this line.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

impl<T> Drop for Outcome<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this is the destructor, so the first drop and the last use; `into_result` does not come here.
        quietly(|| unsafe { ManuallyDrop::drop(&mut self.0) });
    }
}

/// Why a body has ended: a value, or the payload of a panic, or none if it was told to.
pub(super) type Ended<T> = Result<T, Option<Box<dyn Any + Send>>>;

/// Polls a future, and catches what it throws. Nothing while it is pending.
///
/// # Safety
/// The future is there, stays where it is until it is dropped, and is the caller's.
#[inline]
pub(super) unsafe fn poll<F: Future>(future: *mut F, cx: &mut Context<'_>) -> Option<Ended<F::Output>> {
    // SAFETY: it is there, and ours, by our contract.
    let future = unsafe { &mut *future };
    // SAFETY: by our contract it is never moved until it is dropped in place.
    let pinned = unsafe { Pin::new_unchecked(future) };
    match catch_unwind(AssertUnwindSafe(|| pinned.poll(cx))) {
        Ok(Poll::Pending) => None,
        Ok(Poll::Ready(value)) => Some(Ok(value)),
        Err(payload) => Some(Err(Some(payload))),
    }
}

/// Drops a body that has come to `result`, and puts what it leaves into `place`.
///
/// # Safety
/// As for [`Body::run`].
#[inline]
pub(crate) unsafe fn end<B: Body>(body: *mut B, place: *mut Outcome<B::Output>, turn: &Turn, result: Ended<B::Output>) {
    // What is left of the budget was for the poll: a destructor may wait in blocking style, for what nobody refills
    // meanwhile.
    coop::stop();
    // SAFETY: by our contract.
    let dropped = unsafe { drop_body(body, turn.header()) };
    let payload = match (result, dropped) {
        // Each way to its place by itself: a value that all share would be copied there right after it was written, in
        // other pieces.
        // SAFETY: by our contract: the body is gone.
        (Ok(value), None) => return unsafe { place.write(Outcome::new(Ok(value))) },
        (Ok(value), Some(payload)) => {
            quietly(|| drop(value));
            payload
        }
        (Err(None), dropped) => dropped.unwrap_or_else(|| Box::new(Cancelled)),
        (Err(Some(payload)), dropped) => {
            // The panic of the poll wins over one of the destructor.
            std::mem::forget(dropped);
            payload
        }
    };
    // SAFETY: as above.
    unsafe { place.write(Outcome::new(Err(payload))) };
}

/// Drops a task's body without a result.
///
/// # Safety
/// The body is there, the caller's, and not used again. The header is that of its task.
pub(super) unsafe fn cancel<B: Body>(body: *mut B, header: NonNull<Header>) {
    // A panic here has nobody to be reported to: the task was cancelled.
    // SAFETY: by our contract.
    std::mem::forget(unsafe { drop_body(body, header) });
    // SAFETY: as above.
    scheduler(&unsafe { header.as_ref() }.meta).counts_cancelled();
}

/// Drops the body, with all that a thread has on its stack and the stack, and then takes the task off the registry or
/// the roll. A panic of its destructor is returned.
///
/// # Safety
/// As for [`cancel`].
unsafe fn drop_body<B: Body>(body: *mut B, header: NonNull<Header>) -> Option<Box<dyn Any + Send>> {
    // SAFETY: by our contract.
    let meta = &unsafe { header.as_ref() }.meta;
    // SAFETY: by our contract this is the first drop and the last use.
    let panic = catch_unwind(AssertUnwindSafe(|| unsafe { B::discard(body, meta) })).err();
    if B::FLAGS & THREAD == 0 {
        leave_registry(meta);
    } else {
        // SAFETY: a thread's, which is there, and whose body we have just dropped.
        unsafe { leave_roll(header) };
    }
    panic
}

/// A thread of this scheduler is there from now on, for who makes a list of them.
///
/// # Safety
/// The header is a thread's, which is there for as long as this takes, has not entered, and belongs to this scheduler.
#[inline]
pub(super) unsafe fn enter_roll(header: NonNull<Header>, scheduler: &Shared) {
    // SAFETY: by our contract.
    let meta = &unsafe { header.as_ref() }.meta;
    debug_assert!(ptr::eq(scheduler, meta.scheduler()), "which leaves it by that");
    if let Some(name) = meta.extras().and_then(|extras| extras.name.as_deref()) {
        scheduler.thread_names.enter(meta.id, name);
    }
    // SAFETY: by our contract.
    unsafe { cell::roll_place(header) }.enter(scheduler, meta.id);
}

/// It has ended.
///
/// # Safety
/// The header is a thread's, which is there for as long as this takes, and which the caller runs or drops (rule 4).
#[inline]
unsafe fn leave_roll(header: NonNull<Header>) {
    // SAFETY: by our contract.
    unsafe { cell::roll_place(header) }.leave();
    // SAFETY: as above.
    let meta = &unsafe { header.as_ref() }.meta;
    if meta.extras().is_some_and(|extras| extras.name.is_some()) {
        scheduler(meta).thread_names.leave(meta.id);
    }
}

/// Makes the task findable for shutdown and abort handles. True if it was aborted meanwhile.
#[cold]
fn enter_registry(meta: &Meta, cx: &Context<'_>) -> bool {
    let key = scheduler(meta).registry.insert(cx.waker().clone());
    meta.registered(key)
}

/// Whether somebody has asked the task to stop.
#[inline]
pub(crate) fn is_aborted(meta: &Meta) -> bool {
    meta.extras()
        .and_then(|extras| extras.abort.get())
        .is_some_and(|cell| cell.is_aborted())
}

/// The scheduler of a task that the caller runs or drops.
fn scheduler(meta: &Meta) -> &Shared {
    // SAFETY: rule 4 of `task`: the scheduler is there for as long as a worker, or a pool thread, runs or drops a task
    // of its own.
    unsafe { &*meta.scheduler() }
}

/// Tells the abort handles of a task, which has some, that its future has gone.
pub(super) fn tell_abort_handles(meta: &Meta) {
    let cell = meta.extras().and_then(|extras| extras.abort.get());
    debug_assert!(cell.is_some(), "it is published before the task's word says so");
    if let Some(cell) = cell {
        cell.finish();
    }
}

#[inline]
fn leave_registry(meta: &Meta) {
    // Ordering: Relaxed; whoever drops the future got it from the runner that wrote the key.
    let key = meta.key.load(Ordering::Relaxed);
    if key != 0 {
        scheduler(meta).registry.remove(key);
    }
}
