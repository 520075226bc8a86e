//! Waiting for a future in code that is no future.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::note::Reason;
use super::suspend::{Frame, Pause};
use crate::block_on::{block_on_for, block_on_here, block_on_until};
use crate::current;
use crate::sched::context::{is_away, may_block};
use crate::sys::clock;
use crate::time::presence::stands_here;
use crate::time::{Elapsed, Timeout, timeout};

/// Waits for a future in blocking style: `.wait()` is to a thread what `.await` is to a task.
///
/// On a user-level thread it suspends the thread, and its worker runs others meanwhile. On an ordinary thread of the
/// operating system it blocks that thread. Every future will do, of whichever library.
///
/// ```
/// use quadrille::Wait as _;
/// use quadrille::thread;
///
/// let runtime = quadrille::Runtime::new()?;
/// let thread = runtime.spawn_thread(|| {
///     let (tx, rx) = quadrille::sync::mpmc::bounded(1);
///     thread::spawn(move || tx.send("hello").wait());
///     rx.recv().wait().unwrap()
/// });
/// assert_eq!(thread.join().unwrap(), "hello");
/// # Ok::<(), quadrille::BuildError>(())
/// ```
///
/// For the first of several, in a block that is a future:
///
/// ```
/// # use quadrille::{Wait, select, sync::{CancellationToken, mpmc}};
/// # let runtime = quadrille::Runtime::new()?;
/// let (_tx, rx) = mpmc::bounded::<i32>(1);
/// let stop = CancellationToken::new();
/// let told = stop.clone();
/// let thread = runtime.spawn_thread(move || {
///     async {
///         select! {
///             job = rx.recv() => job.ok(),
///             () = &told => None,
///         }
///     }
///     .wait()
/// });
/// stop.cancel();
/// assert_eq!(thread.join().unwrap(), None);
/// # Ok::<(), quadrille::BuildError>(())
/// ```
pub trait Wait: IntoFuture {
    /// Waits until the future is ready. Its output.
    ///
    /// # Panics
    /// - In a task, and in a destructor that runs while a worker leaves: it would block a worker. A task uses `.await`.
    /// - On a user-level thread that panics, if the future is not ready within about a second, for which it blocks the
    ///   worker: a destructor may not suspend the thread while its stack is unwound. The process then aborts, as for
    ///   any panic in such a destructor. What a thread or task bound to this worker must do does not come; nor, where
    ///   no other worker is free, does what any task or event must.
    ///
    /// # Unwinding
    /// When it is [aborted](crate::thread::JoinHandle::abort), or its runtime shuts down, a user-level thread that
    /// waits, or begins to, is unwound from here: destructors run. Who catches that with `catch_unwind` and waits again
    /// is unwound again.
    ///
    /// What is dropped when the thread's closure has ended, its own by [`thread_local!`](crate::thread_local!) and a
    /// result that nobody can ask for, is not cut off so: told to unwind, the thread waits in place for about a second,
    /// as one that panics. Then the destructor is unwound, and the next variable dropped; but a second part of the same
    /// value that waits too long ends the process.
    #[track_caller]
    #[inline(always)]
    fn wait(self) -> Self::Output
    where
        Self: Sized,
    {
        wait_on(self.into_future(), Reason::FUTURE)
    }

    /// Waits until the future is ready, but not longer than `limit`; a future that is ready at once, with one budget,
    /// never elapses. The future is dropped in either case.
    ///
    /// # Errors
    /// [`Elapsed`] if the time has passed first.
    ///
    /// # Panics
    /// As [`wait`](Self::wait), but for what is said of a thread that waits in place: there it blocks the worker for up
    /// to `limit`, by the time that really passes, and then says so. One that is suspended already when the thread is
    /// told to end is as `wait`. On a user-level thread also as
    /// [`time::sleep`](crate::time::sleep).
    #[track_caller]
    fn wait_timeout(self, limit: Duration) -> Result<Self::Output, Elapsed>
    where
        Self: Sized,
    {
        wait_timeout_on(self.into_future(), limit, Reason::FUTURE)
    }
}

impl<F: IntoFuture> Wait for F {}

/// Whether the calling code runs on a user-level thread, which it has not said it will block.
#[inline]
pub(crate) fn suspends() -> bool {
    Frame::with(|frame| frame.is_some()) && !is_away()
}

/// Waits for `future` in whichever way the calling thread does, and notes why. Inlined: see `Frame::suspend`.
#[track_caller]
#[inline(always)]
pub(super) fn wait_on<F: Future>(future: F, reason: Reason) -> F::Output {
    wait_for(future, Pause::Waits, reason)
}

/// The same, but not longer than `limit`.
#[track_caller]
pub(super) fn wait_timeout_on<F: Future>(future: F, limit: Duration, reason: Reason) -> Result<F::Output, Elapsed> {
    if suspends() {
        if Frame::waits_in_place() {
            return wait_in_place(future, Some(clock::after(limit))).ok_or_else(Elapsed::new);
        }
        return wait_on(timeout(limit, future), reason);
    }
    refuse_on_workers();
    if stands_here() {
        return wait_by_the_clock(timeout(limit, future));
    }
    block_on_until(future, Some(clock::after(limit))).ok_or_else(Elapsed::new)
}

/// Waits for `future` on a user-level thread that can't be suspended (`Frame::stays`): by the time that really passes,
/// since who has paused the clock waits for this worker.
#[cold]
pub(super) fn wait_in_place<F: Future>(future: F, until: Option<Instant>) -> Option<F::Output> {
    // Not the value of the block: that would be leaked if the future's destructor panicked (rust-lang/rust#47949).
    let waited;
    {
        let future = pin!(future);
        waited = Frame::with(|frame| {
            let frame = frame.expect("who would be suspended is a user-level thread");
            frame.wait_in_place(future, until)
        });
    }
    match waited {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// The same on an ordinary thread, where a test has paused the clock. Its time is over when the runtime stops, which
/// its timer tells.
fn wait_by_the_clock<F: Future>(wait: Timeout<F>) -> Result<F::Output, Elapsed> {
    let goes_on = || current::with(|shared| shared.is_some_and(|shared| !shared.sleepers.is_stopping()));
    let result = block_on_for(wait, || goes_on().then_some(None));
    result.unwrap_or_else(|| Err(Elapsed::new()))
}

/// Waits for `future` if the calling thread is a user-level one, and notes why; else gives it back. Inlined: see
/// `Frame::suspend`.
#[track_caller]
#[inline(always)]
pub(crate) fn suspend_on<F: Future>(future: F, reason: Reason) -> Result<F::Output, F> {
    // SAFETY: it is used here alone.
    match unsafe { Frame::current() } {
        Some(frame) if !is_away() => match frame.wait(future, Pause::Waits, reason) {
            Poll::Ready(output) => Ok(output),
            Poll::Pending => unreachable!("it was waited for"),
        },
        _ => Err(future),
    }
}

/// Waits for `future` in whichever way the calling thread does, and unwinds as `pause` says.
#[track_caller]
#[inline(always)]
pub(super) fn wait_for<F: Future>(future: F, pause: Pause, reason: Reason) -> F::Output {
    // Not by a closure, which would be a frame of its own between the caller and the switch.
    // SAFETY: it is used here alone.
    let polled = match unsafe { Frame::current() } {
        Some(frame) if !is_away() => frame.wait(future, pause, reason),
        _ => Poll::Ready(block_on(future)),
    };
    match polled {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("it was waited for"),
    }
}

/// Blocks the calling thread for `future`. A call, as the rare case.
#[track_caller]
#[inline(never)]
fn block_on<F: Future>(future: F) -> F::Output {
    refuse_on_workers();
    block_on_here(future)
}

/// Panics where to block would hold up a worker.
#[track_caller]
pub(super) fn refuse_on_workers() {
    assert!(
        may_block(),
        "this would block a worker of a quadrille runtime: inside a task use `.await`, or spawn a thread"
    );
}
