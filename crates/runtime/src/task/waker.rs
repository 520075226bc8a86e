//! Wakers of tasks: a pointer to the header, and one part in the task's life each.

use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::task::{RawWaker, RawWakerVTable, Waker};

use super::cell::{self, Header};
use super::meta::{Meta, THREAD};
use super::runnable::Runnable;
use super::running;
use super::state::Then;
use crate::sched::Shared;

// A static: its address says that a waker is ours, and two of the same task are equal.
static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop);

/// A waker that has no part of its own.
///
/// # Safety
/// It is used only while the caller holds the task.
#[inline]
pub(super) unsafe fn lend(header: NonNull<Header>) -> ManuallyDrop<Waker> {
    // SAFETY: the functions below are what `RawWaker` asks for: thread-safe, since they touch the lifecycle and hand
    // over runnables, which are Send. It is not dropped, so it gives up no part that it does not have.
    ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(header.as_ptr().cast(), &TABLE)) })
}

/// Whether a waker is that of a task of this crate. To clone it is one addition: no code of a user's, no lock, no
/// unwinding. So sections under a lock may.
#[inline]
pub(crate) fn is_own_waker(waker: &Waker) -> bool {
    ptr::eq(waker.vtable(), &TABLE)
}

/// Whether a waker is that of a task of `shared`. Where the body of a task has gone it says nothing.
pub(crate) fn is_waker_of(waker: &Waker, shared: &Shared) -> bool {
    meta_of(waker).is_some_and(|meta| ptr::eq(meta.scheduler(), shared))
}

/// The same for futures alone: a user-level thread goes on after it was told that it ends, by its destructors.
pub(crate) fn is_future_of(waker: &Waker, shared: &Shared) -> bool {
    meta_of(waker).is_some_and(|meta| ptr::eq(meta.scheduler(), shared) && !meta.has(THREAD))
}

/// The runtime whose task's future is polled by this waker, if it is one and goes on or ends yet. It takes a lock: for
/// what happens rarely.
pub(crate) fn runtime_of_future(waker: &Waker) -> Option<Arc<Shared>> {
    let meta = meta_of(waker).filter(|meta| !meta.has(THREAD))?;
    // Not by its pointer: the waker keeps the task, but not the runtime.
    Shared::find(meta.scheduler().addr())
}

/// What the scheduler keeps of the task whose waker it is, if it is one of this crate.
fn meta_of(waker: &Waker) -> Option<&Meta> {
    if !is_own_waker(waker) {
        return None;
    }
    // SAFETY: it is the waker of a task, as we have seen.
    let header = unsafe { header(waker.data()) };
    // SAFETY: the waker, which is borrowed for as long as what is returned, keeps the task alive.
    Some(&unsafe { header.as_ref() }.meta)
}

/// # Safety
/// For all of these: the pointer is that of a waker, so the task is there.
unsafe fn header(pointer: *const ()) -> NonNull<Header> {
    // SAFETY: made from a `NonNull` in `lend` or copied in `clone`.
    unsafe { NonNull::new_unchecked(pointer.cast_mut().cast()) }
}

// Called under locks (`is_own_waker`).
unsafe fn clone(pointer: *const ()) -> RawWaker {
    // SAFETY: our contract.
    let header = unsafe { header(pointer) };
    // SAFETY: the waker that is cloned keeps the task alive.
    unsafe { header.as_ref() }.lifecycle.add_waker();
    RawWaker::new(pointer, &TABLE)
}

unsafe fn wake(pointer: *const ()) {
    // SAFETY: our contract.
    let header = unsafe { header(pointer) };
    if running::wake_itself(header) {
        // SAFETY: the same waker, which is given up.
        return unsafe { drop(pointer) };
    }
    // SAFETY: the waker, which is given up by that, keeps the task alive.
    let then = unsafe { header.as_ref() }.lifecycle.wake(true);
    // SAFETY: the answer to that.
    unsafe { follow(header, then) };
}

unsafe fn wake_by_ref(pointer: *const ()) {
    // SAFETY: our contract.
    let header = unsafe { header(pointer) };
    if running::wake_itself(header) {
        return;
    }
    // SAFETY: the waker keeps the task alive.
    let then = unsafe { header.as_ref() }.lifecycle.wake(false);
    // SAFETY: the answer to that.
    unsafe { follow(header, then) };
}

unsafe fn drop(pointer: *const ()) {
    // SAFETY: our contract.
    let header = unsafe { header(pointer) };
    // SAFETY: the waker, which is given up by that, keeps the task alive.
    let then = unsafe { header.as_ref() }.lifecycle.drop_waker();
    // SAFETY: the answer to that.
    unsafe { follow(header, then) };
}

/// Does what the word asks for.
///
/// # Safety
/// `then` is its answer to a wake-up, or to the end of a waker.
#[inline]
unsafe fn follow(header: NonNull<Header>, then: Then) {
    match then {
        Then::Nothing => {}
        // SAFETY: the word says that nobody else holds the task (W2), and that we do.
        Then::Submit => super::submit(unsafe { Runnable::held(header) }),
        // SAFETY: the answer to what we did.
        Then::Free => unsafe { cell::free_if(header, then) },
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use std::future::poll_fn;
    use std::task::{Poll, Wake};

    use super::*;
    use crate::{Runtime, Wait as _, thread};

    struct Foreign;

    impl Wake for Foreign {
        fn wake(self: Arc<Self>) {}
    }

    /// Whether whoever awaits this has a waker of ours.
    async fn is_own() -> bool {
        poll_fn(|cx| Poll::Ready(is_own_waker(cx.waker()))).await
    }

    #[test]
    fn wakers_of_tasks_and_threads_are_ours_and_no_others() {
        assert!(!is_own_waker(Waker::noop()));
        assert!(!is_own_waker(&Waker::from(Arc::new(Foreign))));
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        runtime.block_on(async {
            assert!(!is_own().await, "that of an ordinary thread");
            assert!(crate::spawn(is_own()).await.unwrap());
            assert!(thread::spawn(|| is_own().wait()).await.unwrap());
        });
    }

    #[test]
    fn a_waker_is_known_by_its_runtime() {
        let runtime = || Runtime::builder().worker_threads(1).build().unwrap();
        let (one, two) = (runtime(), runtime());
        let ask = |runtime: &Runtime| {
            let (one, two) = (one.handle().shared.clone(), two.handle().shared.clone());
            runtime.spawn(poll_fn(move |cx| {
                Poll::Ready([&one, &two].map(|shared| is_waker_of(cx.waker(), shared)))
            }))
        };
        assert_eq!(one.block_on(ask(&one)).unwrap(), [true, false]);
        assert_eq!(one.block_on(ask(&two)).unwrap(), [false, true]);
        assert!(!is_waker_of(Waker::noop(), &one.handle().shared));
    }

    #[test]
    fn that_of_a_thread_is_no_futures() {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let shared = runtime.handle().shared.clone();
        let ask = || {
            let shared = shared.clone();
            poll_fn(move |cx| Poll::Ready([is_waker_of, is_future_of].map(|is| is(cx.waker(), &shared))))
        };
        assert_eq!(runtime.block_on(runtime.spawn(ask())).unwrap(), [true, true]);
        let asks = ask();
        assert_eq!(runtime.spawn_thread(move || asks.wait()).wait().unwrap(), [true, false]);
        assert_eq!(runtime.block_on(ask()), [false, false]);
        assert!(!is_future_of(Waker::noop(), &shared));
    }

    #[test]
    fn the_runtime_of_a_future_is_found_as_long_as_there_is_one() {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let shared = Arc::downgrade(&runtime.handle().shared);
        let found = |waker: &Waker| runtime_of_future(waker).map(|found| Arc::downgrade(&found));
        let ask = poll_fn(move |cx| Poll::Ready((cx.waker().clone(), found(cx.waker()))));
        let (waker, of_task) = runtime.block_on(runtime.spawn(ask)).unwrap();
        assert!(of_task.is_some_and(|of_task| of_task.ptr_eq(&shared)));
        let asks = poll_fn(|cx| Poll::Ready(runtime_of_future(cx.waker()).is_none()));
        assert!(runtime.spawn_thread(move || asks.wait()).wait().unwrap());
        std::mem::drop(runtime);
        assert!(runtime_of_future(&waker).is_none() && runtime_of_future(Waker::noop()).is_none());
    }
}
