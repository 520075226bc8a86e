//! A future with a deadline.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::Instant;
use super::limit::Limit;
use crate::coop;

/// Waits for `future`, but not longer than `duration`.
///
/// The future is polled first, so one that is ready at once never elapses, unless it comes short of the task's
/// [budget](crate::coop) twice in a row.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::time::{Duration, timeout};
///
/// assert_eq!(timeout(Duration::from_secs(1), async { 42 }).await, Ok(42));
/// assert!(timeout(Duration::from_millis(1), std::future::pending::<()>()).await.is_err());
/// # });
/// ```
///
/// # Errors
///
/// [`Elapsed`] if the time has passed first; the future is dropped with the [`Timeout`].
///
/// # Panics
///
/// As [`sleep`](super::sleep()).
///
/// # Cancel safety
///
/// That of `future`.
#[track_caller]
#[inline]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout {
        future: future.into_future(),
        limit: Limit::after(duration),
    }
}

/// Waits for `future`, but not beyond `deadline`.
///
/// # Errors
///
/// As [`timeout`].
///
/// # Panics
///
/// As [`sleep`](super::sleep()).
///
/// # Cancel safety
///
/// That of `future`.
#[track_caller]
#[inline]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout {
        future: future.into_future(),
        limit: Limit::at(deadline),
    }
}

pin_project! {
    /// The future of [`timeout`] and [`timeout_at`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        limit: Limit,
    }
}

impl<F> Timeout<F> {
    /// The future inside.
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// The future inside. Whether the time has passed is not looked at.
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// The future inside, where it is.
    pub(crate) fn future(self: Pin<&mut Self>) -> Pin<&mut F> {
        self.project().future
    }

    /// The future inside, without the deadline.
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        this.limit.poll(had_budget, cx).map(|()| Err(Elapsed(())))
    }
}

/// The time of a [`timeout`] has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl Elapsed {
    /// For those who wait in another way.
    pub(crate) fn new() -> Self {
        Self(())
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the deadline has passed")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        io::Error::new(io::ErrorKind::TimedOut, elapsed)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, poll_fn, ready};
    use std::task::Waker;

    use futures_lite::future::{block_on, yield_now};

    use super::*;
    use crate::runtime::tests::with_runtime;
    use crate::time::sleep;

    /// Late enough never to come within a test.
    const LONG: Duration = Duration::from_secs(1000);

    #[test]
    fn a_future_that_is_ready_wins_over_a_deadline_that_has_passed() {
        with_runtime(|| {
            assert_eq!(block_on(timeout(Duration::ZERO, ready(42))), Ok(42));
            assert_eq!(block_on(timeout_at(Instant::now(), ready(42))), Ok(42));
        });
    }

    #[test]
    fn a_future_that_finishes_in_time_gives_its_output() {
        with_runtime(|| {
            let slow = async {
                yield_now().await;
                sleep(Duration::from_millis(1)).await;
                42
            };
            assert_eq!(block_on(timeout(LONG, slow)), Ok(42));
        });
    }

    #[test]
    fn a_future_that_does_not_finish_elapses() {
        with_runtime(|| {
            let start = Instant::now();
            let error = block_on(timeout(Duration::from_millis(3), pending::<()>())).unwrap_err();
            assert!(start.elapsed() >= Duration::from_millis(3));
            assert_eq!(error.to_string(), "the deadline has passed");
            assert_eq!(io::Error::from(error).kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn the_future_is_dropped_with_the_timeout_and_can_be_taken_out() {
        with_runtime(|| {
            let mut timeout = timeout(LONG, ready(42));
            assert_eq!(block_on(timeout.get_mut()), 42);
            *timeout.get_mut() = ready(42);
            assert_eq!(block_on(timeout.into_inner()), 42);
        });
    }

    /// A future that spends the whole budget in every poll can't hold off the deadline.
    #[test]
    fn a_future_without_end_elapses_all_the_same() {
        with_runtime(|| {
            let mut endless = std::pin::pin!(timeout(Duration::from_millis(1), async {
                loop {
                    coop::consume_budget().await;
                }
            }));
            let mut cx = Context::from_waker(Waker::noop());
            let start = Instant::now();
            let outcome: Result<(), Elapsed> = loop {
                coop::start(10);
                if let Poll::Ready(outcome) = endless.as_mut().poll(&mut cx) {
                    break outcome;
                }
                assert!(start.elapsed() < LONG);
            };
            coop::stop();
            assert!(outcome.is_err());
        });
    }

    /// Beside one that spends all the budget in every other turn, before it.
    #[test]
    fn a_future_without_end_elapses_beside_another() {
        with_runtime(|| {
            let endless = || async {
                loop {
                    coop::consume_budget().await;
                }
            };
            let limited = timeout(Duration::from_millis(1), endless());
            let mut both = std::pin::pin!(async {
                let over = Cell::new(false);
                crate::join!(
                    async {
                        assert!(limited.await.is_err());
                        over.set(true);
                    },
                    poll_fn(|cx| {
                        let mut endless: Pin<Box<dyn Future<Output = ()>>> = Box::pin(endless());
                        assert!(endless.as_mut().poll(cx).is_pending());
                        if over.get() { Poll::Ready(()) } else { Poll::Pending }
                    })
                );
            });
            let mut cx = Context::from_waker(Waker::noop());
            let start = Instant::now();
            loop {
                coop::start(10);
                if both.as_mut().poll(&mut cx).is_ready() {
                    break;
                }
                assert!(start.elapsed() < LONG);
            }
            coop::stop();
        });
    }

    /// With a whole budget it is ready.
    #[test]
    fn who_comes_short_of_budget_does_not_elapse() {
        with_runtime(|| {
            let mut ready = std::pin::pin!(timeout(Duration::ZERO, async {
                coop::consume_budget().await;
                coop::consume_budget().await;
                42
            }));
            let mut cx = Context::from_waker(Waker::noop());
            coop::start(1);
            assert!(ready.as_mut().poll(&mut cx).is_pending());
            coop::start(10);
            assert_eq!(ready.as_mut().poll(&mut cx), Poll::Ready(Ok(42)));
            coop::stop();
        });
    }

    /// A loop of timeouts that elapse at once gives up its turn when the budget is spent.
    #[test]
    fn a_loop_of_timeouts_ends_with_the_budget() {
        with_runtime(|| {
            let rounds = Cell::new(0);
            let mut endless = std::pin::pin!(async {
                loop {
                    let _ = timeout(
                        Duration::ZERO,
                        poll_fn(|cx| coop::poll_progress(cx, |_| Poll::<()>::Pending)),
                    )
                    .await;
                    rounds.set(rounds.get() + 1);
                }
            });
            coop::start(10);
            let outcome: Poll<()> = endless.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            coop::stop();
            assert!(outcome.is_pending());
            assert_eq!(rounds.get(), 10);
        });
    }
}
