//! A future that is ready at a deadline.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::Instant;
use super::entry::TimerEntry;
use crate::coop;

/// Waits for `duration`, never less. A duration that the clock can't express means about 30 years.
///
/// It belongs to the runtime in which it is made. When that stops, its tasks are dropped; for whoever else waits, a
/// thread in `block_on` or a task of another runtime, it still ends at its deadline, in real time: a thread of the
/// process sees to that. (If the clock was [paused](super::pause), what is left by that counts, or once nobody has a
/// [`Handle`](crate::Handle) to the runtime, the deadline by the system's clock.)
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::time::{Duration, Instant, sleep};
///
/// let start = Instant::now();
/// sleep(Duration::from_millis(2)).await;
/// assert!(start.elapsed() >= Duration::from_millis(2));
/// # });
/// ```
///
/// # Panics
///
/// Outside of a runtime (reported at the caller).
///
/// # Cancel safety
///
/// Strict for the future itself: it may be polled in a `select!` through a reference, and goes on where it was. A new
/// call begins anew; use [`sleep_until`] where that matters.
#[track_caller]
#[inline]
pub fn sleep(duration: Duration) -> Sleep {
    Sleep {
        entry: TimerEntry::after(duration),
        told: None,
    }
}

/// Waits until `deadline`; ready at once if it has passed.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::time::{Duration, Instant, sleep_until};
///
/// // Every millisecond, however long each step takes.
/// let start = Instant::now();
/// for step in 1..=3 {
///     sleep_until(start + Duration::from_millis(step)).await;
/// }
/// assert!(start.elapsed() >= Duration::from_millis(3));
/// # });
/// ```
///
/// # Panics
///
/// As [`sleep`].
///
/// # Cancel safety
///
/// Strict: dropping the future and calling again equals not dropping it.
#[track_caller]
#[inline]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep {
        entry: TimerEntry::at(deadline),
        told: None,
    }
}

/// The future of [`sleep`] and [`sleep_until`].
///
/// It is `Unpin`, `Send` and `Sync`. Set and dropped on one worker it costs two locks that nobody else wants, never
/// polled nothing. Once it is ready it keeps a clone of the waker, until it is reset or dropped: a task that keeps it,
/// and that nobody else can wake any more, lasts until its runtime stops.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    entry: TimerEntry,
    /// Who was told last that it is ready. Nobody polls again for that, so a reset sets the timer for him, if it isn't
    /// set: no poll that is ready leaves it set, but one that is pending after that does.
    told: Option<Waker>,
}

impl Sleep {
    /// When it will be ready.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.entry.deadline()
    }

    /// Has the deadline passed?
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.entry.is_elapsed()
    }

    /// Moves the deadline, also after it has passed. A task that has polled the future before is woken at the new
    /// deadline, also if that poll was ready.
    ///
    /// ```
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// use quadrille::time::{Duration, Instant, sleep};
    ///
    /// let mut idle = sleep(Duration::from_secs(3600));
    /// let soon = Instant::now() + Duration::from_millis(1);
    /// idle.reset(soon);
    /// idle.await;
    /// assert!(Instant::now() >= soon);
    /// # });
    /// ```
    pub fn reset(&mut self, deadline: Instant) {
        // By a clock that was ahead it may have been ready, and pending since by the one that it goes by now: then the
        // timer knows whom to wake.
        let told = self.told.take().filter(|_| !self.entry.is_set());
        self.entry.reset(deadline);
        if let Some(waker) = told {
            self.entry.set_for(waker);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { entry, told } = self.get_mut();
        coop::poll_progress(cx, |cx| {
            let outcome = entry.poll(cx);
            if outcome.is_ready() && !told.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                *told = Some(cx.waker().clone());
            }
            outcome
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::task::Wake;

    use futures_lite::future::block_on;

    use super::*;
    use crate::Runtime;
    use crate::runtime::tests::with_runtime;
    use crate::time::advance;
    use crate::time::tests::{poll, set_here};

    /// Late enough never to come within a test.
    const LONG: Duration = Duration::from_secs(1000);

    /// Tells when it is called.
    struct Tell(mpsc::Sender<Instant>);

    impl Wake for Tell {
        fn wake(self: Arc<Self>) {
            // The test may be over.
            let _ = self.0.send(Instant::now());
        }
    }

    /// A waker, and where its calls arrive.
    fn telling_waker() -> (Waker, mpsc::Receiver<Instant>) {
        let (sender, receiver) = mpsc::channel();
        (Waker::from(Arc::new(Tell(sender))), receiver)
    }

    #[test]
    fn it_is_never_early() {
        with_runtime(|| {
            for us in [0, 1, 50, 500, 5_000] {
                let duration = Duration::from_micros(us);
                let start = Instant::now();
                block_on(sleep(duration));
                assert!(start.elapsed() >= duration);
                assert!(start.elapsed() < LONG);
            }
        });
    }

    #[test]
    fn a_deadline_in_the_past_is_ready_at_once() {
        with_runtime(|| {
            let mut past = sleep_until(Instant::now());
            assert!(past.is_elapsed());
            assert!(poll(&mut past, Waker::noop()).is_ready());
            assert!(poll(&mut past, Waker::noop()).is_ready(), "and stays so");
        });
    }

    #[test]
    fn it_can_be_sent_shared_and_moved() {
        fn check<T: Send + Sync + Unpin>() {}
        check::<Sleep>();
    }

    #[test]
    #[should_panic(expected = "no quadrille runtime here")]
    fn outside_of_a_runtime_it_panics() {
        drop(sleep(Duration::ZERO));
    }

    #[test]
    fn the_waker_is_called_at_the_deadline() {
        with_runtime(|| {
            let (waker, calls) = telling_waker();
            let mut short = set_here(Duration::from_millis(3), &waker);
            assert!(calls.recv().unwrap() >= short.deadline());
            assert!(poll(&mut short, &waker).is_ready());
        });
    }

    #[test]
    fn the_last_waker_is_called() {
        with_runtime(|| {
            let (first, first_calls) = telling_waker();
            let (second, second_calls) = telling_waker();
            let mut timer = sleep(LONG);
            assert!(poll(&mut timer, &first).is_pending());
            assert!(poll(&mut timer, &second).is_pending());
            drop((first, second));
            timer.reset(Instant::now());
            second_calls.recv().unwrap();
            assert!(
                first_calls.recv().is_err(),
                "the first waker was dropped and never called"
            );
        });
    }

    #[test]
    fn a_dropped_sleep_drops_its_waker_at_once() {
        with_runtime(|| {
            let (waker, calls) = telling_waker();
            let mut long = sleep(LONG);
            assert!(poll(&mut long, &waker).is_pending());
            drop((waker, long));
            assert!(calls.recv().is_err());
        });
    }

    #[test]
    fn reset_moves_the_call_both_ways() {
        with_runtime(|| {
            let (waker, calls) = telling_waker();
            let mut moved = sleep(LONG);
            assert!(poll(&mut moved, &waker).is_pending());
            let deadline = Instant::now() + Duration::from_millis(2);
            moved.reset(deadline);
            assert!(calls.recv().unwrap() >= deadline, "earlier, without another poll");
            assert!(poll(&mut moved, &waker).is_ready());

            let mut duration = Duration::from_millis(2);
            loop {
                let mut moved = set_here(duration, &waker);
                let deadline = moved.deadline() + Duration::from_millis(10);
                moved.reset(deadline);
                if calls.recv().unwrap() >= deadline {
                    break;
                }
                // That was a call for the first deadline, which this thread has let pass on a busy machine.
                duration *= 2;
                assert!(duration < LONG, "it is not moved later");
            }
        });
    }

    #[test]
    fn a_sleep_that_was_reset_without_a_poll_sets_nothing() {
        with_runtime(|| {
            let mut moved = sleep(LONG);
            moved.reset(Instant::now());
            assert!(moved.is_elapsed());
            assert!(poll(&mut moved, Waker::noop()).is_ready());
        });
    }

    #[test]
    fn who_was_told_that_it_is_ready_is_woken_after_a_reset() {
        with_runtime(|| {
            let (waker, calls) = telling_waker();
            let mut moved = sleep_until(Instant::now());
            for ms in [0, 3, 1] {
                assert!(poll(&mut moved, &waker).is_ready());
                let deadline = Instant::now() + Duration::from_millis(ms);
                moved.reset(deadline);
                assert!(calls.recv().unwrap() >= deadline);
            }
            drop(waker);
            assert!(calls.recv().is_err(), "once each");
        });
    }

    #[test]
    fn the_last_who_was_told_is_woken() {
        with_runtime(|| {
            let (first, first_calls) = telling_waker();
            let (second, second_calls) = telling_waker();
            let mut moved = sleep_until(Instant::now());
            assert!(poll(&mut moved, &first).is_ready());
            assert!(poll(&mut moved, &second).is_ready());
            drop(first);
            assert!(first_calls.recv().is_err(), "it was dropped and never called");
            moved.reset(Instant::now() + LONG);
            moved.reset(Instant::now());
            second_calls.recv().unwrap();
            drop((moved, second));
            assert!(second_calls.recv().is_err());
        });
    }

    /// A clock that was ahead goes with its runtime, and what was ready by it is set anew by the system's. Then there
    /// is one timer, and nobody is forgotten in another.
    #[test]
    fn what_was_ready_by_a_clock_that_is_gone_is_set_once() {
        let (waker, calls) = telling_waker();
        let mut ahead = {
            let runtime = Runtime::builder().worker_threads(1).start_paused(true).build().unwrap();
            let _entered = runtime.enter();
            let mut ahead = sleep(LONG);
            runtime.block_on(advance(LONG));
            assert!(poll(&mut ahead, &waker).is_ready());
            ahead
        };
        assert!(poll(&mut ahead, &waker).is_pending(), "by the system's clock");
        ahead.reset(Instant::now() + 2 * LONG);
        ahead.reset(Instant::now() + 3 * LONG);
        drop((ahead, waker));
        assert!(calls.recv().is_err(), "nobody has a waker of ours");
    }

    /// As a `poll` by hand does that moves its timer each time and waits to be called.
    #[test]
    fn a_poll_that_resets_what_was_ready_and_is_pending_comes_back() {
        with_runtime(|| {
            let mut periods = sleep_until(Instant::now());
            let mut left = 3;
            block_on(std::future::poll_fn(|cx| {
                while Pin::new(&mut periods).poll(cx).is_ready() {
                    left -= 1;
                    if left == 0 {
                        return Poll::Ready(());
                    }
                    periods.reset(Instant::now() + Duration::from_millis(1));
                    if left == 1 {
                        break;
                    }
                }
                Poll::Pending
            }));
        });
    }

    #[test]
    fn who_was_told_is_woken_once_the_runtime_is_gone() {
        let (waker, calls) = telling_waker();
        let mut told = None;
        with_runtime(|| {
            let moved = told.insert(sleep_until(Instant::now()));
            assert!(poll(moved, &waker).is_ready());
        });
        let mut moved = told.unwrap();
        let deadline = Instant::now() + Duration::from_millis(2);
        moved.reset(deadline);
        assert!(calls.recv().unwrap() >= deadline);
    }

    #[test]
    fn readiness_is_paid_for_and_waiting_is_not() {
        with_runtime(|| {
            coop::start(1);
            assert!(poll(&mut sleep(LONG), Waker::noop()).is_pending());
            assert!(coop::has_budget_remaining());
            assert!(poll(&mut sleep(Duration::ZERO), Waker::noop()).is_ready());
            assert!(
                poll(&mut sleep(Duration::ZERO), Waker::noop()).is_pending(),
                "nothing left to pay with"
            );
            coop::stop();
        });
    }

    #[test]
    fn forever_does_not_overflow() {
        with_runtime(|| {
            let mut forever = sleep(Duration::MAX);
            assert!(poll(&mut forever, Waker::noop()).is_pending());
        });
    }
}
