//! The cooperative budget: how a task that is never out of work still lets others run.
//!
//! A worker can't interrupt a poll. A task whose channel is always full, whose socket is always readable, would stay on
//! its worker for ever. So each poll starts with a budget of *units*; each operation of this crate that makes progress
//! (a message received, a read done, a timer found expired) spends one; and when none is left, the operations answer
//! `Pending` after they have woken the task, which thereby goes to the end of the line.
//!
//! # Rules
//!
//! 1. The budget belongs to the thread and to the poll that runs on it: a worker fills it before each poll (`start`),
//!    and lifts the limit when it stops to poll (`stop`). `block_on`, and `.wait()` on an ordinary thread, give each of
//!    their polls one (`with_limit`), and put back what there was: they may be called inside of each other's polls.
//!    Outside of all these the budget is unlimited, so in code of a thread that may block (`spawn_blocking`,
//!    `block_in_place`).
//! 2. A unit pays for progress. An operation that finds nothing to do returns `Pending` for a reason of its own and
//!    spends nothing. To fail at once is paid for as well, and so is to do nothing at once: who tries again in a loop
//!    would never give way else. Only to flush, and to close, what keeps nothing back costs nothing: a server does it
//!    after each answer, and nobody does that alone.
//! 3. Who answers `Pending` for lack of budget has woken the task before. So nothing waits for a wake-up that nobody
//!    owes it.
//! 4. Who is ready with the first of several futures (`select!`) looks whether a unit is left before it polls any: one
//!    of them may be ready each time and spend nothing, while the others are refused.
//! 5. No answer here is needed for safety: with an unlimited budget everything works, only less fairly.
//!
//! A future that is driven inside of a poll, also of `block_on`, by some other crate's `block_on` sees the budget of
//! that poll and spins once it is spent; use `spawn_blocking`, or wrap the future in [`unconstrained`].

use core::cell::Cell;
use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

/// A budget that is never spent.
const UNLIMITED: u8 = u8::MAX;

/// That of a thread which waits where there is no runtime: what `Config` has by default.
pub(crate) const DEFAULT: u8 = 128;

thread_local! {
    /// Units that the current poll may still spend, or [`UNLIMITED`].
    static UNITS: Cell<u8> = const { Cell::new(UNLIMITED) };
    /// Whether a task has given way since the worker asked last.
    static GAVE_WAY: Cell<bool> = const { Cell::new(false) };
}

/// Gives the poll that comes next `budget` units; 255 means no limit.
#[inline]
pub(crate) fn start(budget: u8) {
    UNITS.set(budget);
}

/// Units that were spent of `budget`; none if the limit was lifted.
#[inline]
pub(crate) fn spent(budget: u8) -> u8 {
    budget.saturating_sub(UNITS.get())
}

/// The task that is polled gives way, of its own accord.
#[inline]
pub(crate) fn gives_way() {
    GAVE_WAY.set(true);
}

/// Whether one has since this was asked last.
#[inline]
pub(crate) fn has_given_way() -> bool {
    GAVE_WAY.replace(false)
}

/// Lifts the limit: the thread polls no task for now. A task that ends calls it before its destructors run, and a
/// worker that leaves before it drops the tasks: they may block on something that would spend.
#[inline]
pub(crate) fn stop() {
    UNITS.set(UNLIMITED);
}

/// Whether nothing that is done now is paid for.
#[inline]
pub(crate) fn is_unlimited() -> bool {
    UNITS.get() == UNLIMITED
}

/// Spends one unit, or wakes the task and returns `Pending` if none is left.
///
/// For operations that surely make progress. Where that is known only afterwards use [`poll_progress`].
#[inline]
pub(crate) fn poll_spend(cx: &mut Context<'_>) -> Poll<()> {
    poll_progress(cx, |_| Poll::Ready(()))
}

/// Polls `operation` if a unit is left, and spends it if the operation is ready; wakes the task and returns `Pending`
/// without polling if none is left.
#[inline]
pub(crate) fn poll_progress<T>(cx: &mut Context<'_>, operation: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    if poll_remaining(cx).is_pending() {
        return Poll::Pending;
    }
    let result = operation(cx);
    if result.is_ready() {
        spend();
    }
    result
}

/// The same of what may be somebody else's, or pay for itself: a unit is spent only if it has spent none.
#[inline]
pub(crate) fn poll_paid<T>(cx: &mut Context<'_>, operation: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    ready!(poll_remaining(cx));
    let units = UNITS.get();
    let result = operation(cx);
    if result.is_ready() && UNITS.get() == units {
        spend();
    }
    result
}

/// Wakes the task and returns `Pending` if no unit is left; spends none.
///
/// For who polls several futures and is ready with the first of them, before it polls any.
#[inline]
pub(crate) fn poll_remaining(cx: &mut Context<'_>) -> Poll<()> {
    if UNITS.get() == 0 {
        cx.waker().wake_by_ref();
        return Poll::Pending;
    }
    Poll::Ready(())
}

/// Spends one unit if the budget is limited and not empty. For operations without a context, which look before whether
/// one is left.
#[inline]
pub(crate) fn spend() {
    let units = UNITS.get();
    if units != UNLIMITED {
        UNITS.set(units.saturating_sub(1));
    }
}

/// Runs `operation` without a limit.
#[inline]
pub(crate) fn without_limit<T>(operation: impl FnOnce() -> T) -> T {
    with_limit(UNLIMITED, operation)
}

/// Runs `operation` with a budget of its own.
#[inline]
pub(crate) fn with_limit<T>(budget: u8, operation: impl FnOnce() -> T) -> T {
    /// Puts the budget back, also when `operation` panics.
    struct Restore(u8);
    impl Drop for Restore {
        fn drop(&mut self) {
            UNITS.set(self.0);
        }
    }
    let _restore = Restore(UNITS.replace(budget));
    operation()
}

/// Is a unit left in the budget of the current poll?
///
/// `true` outside of a poll: in code that may block. When it is `false`, the next operation of this crate makes the
/// task wait for its next turn; code that handles a batch at a time can use it to stop earlier and in a better place.
///
/// ```
/// assert!(quadrille::coop::has_budget_remaining());
/// ```
#[must_use]
#[inline]
pub fn has_budget_remaining() -> bool {
    UNITS.get() > 0
}

/// Spends one unit of the budget, and lets other tasks run first if none is left.
///
/// Put it into a loop that computes for long without waiting for anything: it costs a few instructions, and a turn of
/// the worker only once in a budget (unlike `yield_now`, which gives up the turn each time).
///
/// # Cancel safety
///
/// Strict: dropping the future and calling again equals not dropping it.
///
/// ```
/// # futures_lite::future::block_on(async {
/// let mut sum = 0_u64;
/// for number in 0..10_000 {
///     sum += number;
///     quadrille::coop::consume_budget().await;
/// }
/// assert_eq!(sum, 49_995_000);
/// # });
/// ```
pub async fn consume_budget() {
    core::future::poll_fn(poll_spend).await;
}

/// Wraps a future that spends no budget: its operations never give up the turn of their own.
///
/// For a future that must finish in one go once its data is there. Others on this worker wait for it as long as it
/// runs, so bound what it does.
///
/// ```
/// # futures_lite::future::block_on(async {
/// let answer = quadrille::coop::unconstrained(async {
///     quadrille::coop::consume_budget().await;
///     42
/// });
/// assert_eq!(answer.await, 42);
/// # });
/// ```
pub fn unconstrained<F: Future>(future: F) -> Unconstrained<F> {
    Unconstrained { future }
}

/// Wraps a future of another crate, so that it takes part in the budget: each time that it finishes costs one unit, and
/// it isn't polled while none is left.
///
/// For operations that are usually ready at once and are awaited in a loop: a channel, a lock, a stream's `next`.
///
/// ```
/// # futures_lite::future::block_on(async {
/// let (sender, receiver) = async_channel::unbounded();
/// sender.send(42).await.unwrap();
/// assert_eq!(quadrille::coop::cooperative(receiver.recv()).await, Ok(42));
/// # });
/// ```
pub fn cooperative<F: Future>(future: F) -> Cooperative<F> {
    Cooperative { future }
}

/// Asks before an operation of another crate whether a unit is left; if none is, wakes the task and returns `Pending`.
///
/// For who implements `Future` or `Stream` by hand; else there is [`cooperative`]. The unit is spent by
/// [`made_progress`](RestoreOnPending::made_progress), and kept if that isn't called.
///
/// ```
/// use std::pin::Pin;
/// use std::task::{Context, Poll, ready};
///
/// use futures_lite::Stream;
/// use quadrille::coop;
///
/// struct Fair<S>(S);
///
/// impl<S: Stream + Unpin> Stream for Fair<S> {
///     type Item = S::Item;
///
///     fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
///         let unit = ready!(coop::poll_proceed(cx));
///         let item = ready!(Pin::new(&mut self.0).poll_next(cx));
///         unit.made_progress();
///         Poll::Ready(item)
///     }
/// }
/// # use futures_lite::StreamExt;
/// # futures_lite::future::block_on(async {
/// let mut items = Fair(futures_lite::stream::iter([1, 2, 3]));
/// assert_eq!(items.next().await, Some(1));
/// # });
/// ```
#[inline]
pub fn poll_proceed(cx: &mut Context<'_>) -> Poll<RestoreOnPending> {
    poll_remaining(cx).map(|()| RestoreOnPending {
        is_spent: Cell::new(false),
        _not_send: PhantomData,
    })
}

/// The unit that [`poll_proceed`] has found, for an operation of the same poll.
///
/// tokio's spends it first, and on drop puts the whole budget back to what it was: also what other operations have
/// spent meanwhile. Here those have paid for themselves, so this is not for operations of this crate.
#[derive(Debug)]
#[must_use = "a unit is spent only if `made_progress` is called"]
pub struct RestoreOnPending {
    is_spent: Cell<bool>,
    _not_send: PhantomData<*mut ()>,
}

impl RestoreOnPending {
    /// Spends the unit: the operation was ready. Called again it does nothing.
    #[inline]
    pub fn made_progress(&self) {
        if !self.is_spent.replace(true) {
            spend();
        }
    }
}

pin_project! {
    /// The future of [`unconstrained`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Unconstrained<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Unconstrained<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let future = self.project().future;
        without_limit(|| future.poll(cx))
    }
}

pin_project! {
    /// The future of [`cooperative`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Cooperative<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Cooperative<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let future = self.project().future;
        poll_progress(cx, |cx| future.poll(cx))
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::Mutex;
    use std::task::{Wake, Waker};

    use super::*;

    /// Counts its wakes.
    #[derive(Default)]
    struct Count(Mutex<usize>);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            *self.0.lock().unwrap() += 1;
        }
    }

    /// Polls `proceed` with a fresh waker: was it ready, and how often did it wake?
    fn poll_once<T>(operation: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> (bool, usize) {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let ready = operation(&mut Context::from_waker(&waker)).is_ready();
        let wakes = *count.0.lock().unwrap();
        (ready, wakes)
    }

    #[test]
    fn every_budget_lasts_for_exactly_its_units() {
        for budget in 0..UNLIMITED {
            start(budget);
            for _ in 0..budget {
                assert!(has_budget_remaining());
                assert_eq!(poll_once(poll_spend), (true, 0), "budget {budget}");
            }
            assert!(!has_budget_remaining());
            for _ in 0..3 {
                assert_eq!(
                    poll_once(poll_spend),
                    (false, 1),
                    "budget {budget} is spent, the task is woken"
                );
            }
        }
        stop();
    }

    #[test]
    fn a_thread_that_polls_nothing_has_no_limit() {
        std::thread::spawn(|| {
            for _ in 0..1000 {
                assert_eq!(poll_once(poll_spend), (true, 0));
            }
            start(1);
            stop();
            for _ in 0..1000 {
                assert_eq!(poll_once(poll_spend), (true, 0));
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_default_is_that_of_the_policy() {
        assert_eq!(DEFAULT, quadrille_policy::Config::default().budget);
    }

    #[test]
    fn only_progress_is_paid_for() {
        start(1);
        for _ in 0..10 {
            assert_eq!(poll_once(|cx| poll_progress(cx, |_| Poll::<()>::Pending)), (false, 0));
        }
        assert!(has_budget_remaining());
        assert_eq!(poll_once(|cx| poll_progress(cx, |_| Poll::Ready(()))), (true, 0));
        assert!(!has_budget_remaining());
        let mut polled = false;
        let operation = |_: &mut Context<'_>| {
            polled = true;
            Poll::Ready(())
        };
        assert_eq!(poll_once(|cx| poll_progress(cx, operation)), (false, 1));
        assert!(!polled, "without budget the operation isn't touched");
        stop();
    }

    #[test]
    fn who_proceeds_pays_once_and_only_for_progress() {
        start(1);
        for _ in 0..10 {
            assert_eq!(poll_once(|cx| poll_proceed(cx).map(drop)), (true, 0));
        }
        let proceed = |cx: &mut Context<'_>| poll_proceed(cx).map(|unit| (unit.made_progress(), unit.made_progress()));
        start(2);
        assert_eq!(poll_once(proceed), (true, 0));
        assert_eq!(UNITS.get(), 1);
        assert_eq!(poll_once(proceed), (true, 0));
        assert_eq!(poll_once(proceed), (false, 1));
        stop();
        assert_eq!((poll_once(proceed), UNITS.get()), ((true, 0), UNLIMITED));
    }

    #[test]
    fn consume_budget_finishes_on_the_next_turn() {
        start(0);
        let mut future = pin!(consume_budget());
        assert_eq!(poll_once(|cx| future.as_mut().poll(cx)), (false, 1));
        start(1);
        assert_eq!(poll_once(|cx| future.as_mut().poll(cx)), (true, 0));
        stop();
    }

    #[test]
    fn unconstrained_neither_waits_nor_spends() {
        for budget in [0, 1, 7, UNLIMITED] {
            start(budget);
            let mut future = pin!(unconstrained(async {
                for _ in 0..1000 {
                    consume_budget().await;
                }
            }));
            assert_eq!(poll_once(|cx| future.as_mut().poll(cx)), (true, 0));
            assert_eq!(UNITS.get(), budget);
        }
        stop();
    }

    #[test]
    fn a_panic_inside_of_unconstrained_puts_the_budget_back() {
        start(3);
        let mut future = pin!(unconstrained(async { panic!("for the test") }));
        let outcome = catch_unwind(AssertUnwindSafe(|| poll_once(|cx| future.as_mut().poll(cx))));
        assert!(outcome.is_err());
        assert_eq!(UNITS.get(), 3);
        stop();
    }

    #[test]
    fn cooperative_pays_when_it_finishes() {
        start(1);
        let mut never = pin!(cooperative(pending::<()>()));
        assert_eq!(poll_once(|cx| never.as_mut().poll(cx)), (false, 0));
        let mut first = pin!(cooperative(ready(())));
        assert_eq!(poll_once(|cx| first.as_mut().poll(cx)), (true, 0));
        let mut second = pin!(cooperative(ready(())));
        assert_eq!(poll_once(|cx| second.as_mut().poll(cx)), (false, 1));
        start(1);
        assert_eq!(poll_once(|cx| second.as_mut().poll(cx)), (true, 0));
        stop();
    }
}
