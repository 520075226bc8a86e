//! Ticks at equal distances.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;

use super::entry::TimerEntry;
use super::instant::{Instant, now};
use crate::coop;

/// Ticks now and then every `period`.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::time::{Duration, interval};
///
/// let mut interval = interval(Duration::from_millis(1));
/// let first = interval.tick().await;
/// let second = interval.tick().await;
/// assert_eq!(second - first, Duration::from_millis(1));
/// # });
/// ```
///
/// # Panics
///
/// If `period` is zero, or outside of a runtime (reported at the caller).
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(now(), period)
}

/// Ticks at `start` and then every `period`.
///
/// # Panics
///
/// As [`interval`].
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(!period.is_zero(), "the period of an interval must not be zero");
    Interval {
        timer: TimerEntry::at(start),
        period,
        missed: MissedTickBehavior::default(),
    }
}

/// Later than that a tick is late for [`MissedTickBehavior::Delay`], though by less than a period.
const TOLERANCE: Duration = Duration::from_millis(5);

/// What an [`Interval`] does after a tick that was asked for too late: by a period or more, and with
/// [`Delay`](Self::Delay) also by more than 5 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTickBehavior {
    /// Makes up for the missed ticks, one after the other without a wait: their number is right in the end.
    #[default]
    Burst,
    /// Goes on a period after the late tick. After one that is late by 5 ms at most, and by less than a period, the
    /// next is not put off: two ticks are never closer than a period, less these 5 ms.
    Delay,
    /// Leaves out the missed ticks: the next comes at a multiple of the period from the start.
    Skip,
}

impl MissedTickBehavior {
    /// The deadline after that of `deadline`, whose tick happened at `now`.
    fn next(self, deadline: Instant, now: Instant, period: Duration) -> Instant {
        let regular = deadline.later(period);
        let is_late = self == MissedTickBehavior::Delay && now.saturating_duration_since(deadline) > TOLERANCE;
        if regular > now && !is_late {
            return regular;
        }
        match self {
            MissedTickBehavior::Burst => regular,
            MissedTickBehavior::Delay => now.later(period),
            MissedTickBehavior::Skip => {
                let left = period - remainder(now - deadline, period);
                now.later(left)
            }
        }
    }
}

/// What is left of `time` after whole periods.
fn remainder(time: Duration, period: Duration) -> Duration {
    const NANOS_PER_SEC: u128 = 1_000_000_000;
    let nanos = time.as_nanos() % period.as_nanos();
    // Less than `period`, so both parts fit as they do there.
    let secs = u64::try_from(nanos / NANOS_PER_SEC).unwrap_or(u64::MAX);
    let nanos = u32::try_from(nanos % NANOS_PER_SEC).unwrap_or(0);
    Duration::new(secs, nanos)
}

/// The ticks of [`interval`]; also as a [`Stream`], which never ends.
#[derive(Debug)]
pub struct Interval {
    timer: TimerEntry,
    period: Duration,
    missed: MissedTickBehavior,
}

impl Stream for Interval {
    type Item = Instant;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.get_mut().poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

impl Interval {
    /// Waits for the next tick; returns when it was due. The first is due at the start.
    ///
    /// # Cancel safety
    ///
    /// Strict: a tick is consumed only when it is returned.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick; the waker of `cx` is called when it is due.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(coop::poll_progress(cx, |cx| self.timer.poll(cx)));
        let due = self.timer.deadline();
        // By the clock of the ticks' own runtime, here and below, whichever that of the calling code is.
        let now = self.timer.now();
        self.timer.reset(self.missed.next(due, now, self.period));
        Poll::Ready(due)
    }

    /// The next tick comes a period from now.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// The next tick comes at once.
    pub fn reset_immediately(&mut self) {
        self.timer.reset(self.timer.now());
    }

    /// The next tick comes `after` from now, those that follow a period apart.
    ///
    /// ```
    /// use quadrille::time::{Duration, Instant, interval};
    ///
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// let mut heartbeat = interval(Duration::from_secs(60));
    /// heartbeat.tick().await;
    /// let before = Instant::now();
    /// heartbeat.reset_after(Duration::from_millis(1));
    /// assert!(heartbeat.tick().await >= before + Duration::from_millis(1));
    /// # });
    /// ```
    pub fn reset_after(&mut self, after: Duration) {
        self.timer.reset(self.timer.now().later(after));
    }

    /// The next tick comes at `deadline`.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.timer.reset(deadline);
    }

    /// The time between two ticks.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// What happens after a tick that came too late.
    #[must_use]
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed
    }

    /// Chooses what happens after a tick that came too late; [`Burst`](MissedTickBehavior::Burst) unless told.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed = behavior;
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::block_on;

    use super::*;
    use crate::runtime::tests::with_runtime;

    const BEHAVIORS: [MissedTickBehavior; 3] = [
        MissedTickBehavior::Burst,
        MissedTickBehavior::Delay,
        MissedTickBehavior::Skip,
    ];

    /// The next deadline in ms after one of 100 whose tick happened at `now_ms`, with a period of 10.
    fn next_ms(behavior: MissedTickBehavior, now_ms: u64) -> u128 {
        next_of(behavior, 10, now_ms)
    }

    /// The same with that period.
    fn next_of(behavior: MissedTickBehavior, period_ms: u64, now_ms: u64) -> u128 {
        let origin = Instant::now();
        let at = |ms| origin + Duration::from_millis(ms);
        (behavior.next(at(100), at(now_ms), Duration::from_millis(period_ms)) - origin).as_millis()
    }

    #[test]
    fn a_tick_in_time_is_followed_after_a_period() {
        for behavior in BEHAVIORS {
            for now_ms in 100..=105 {
                assert_eq!(next_ms(behavior, now_ms), 110, "{behavior:?} at {now_ms}");
            }
        }
    }

    /// By less than a period: two ticks of `Delay` would be closer than that, less what is tolerated.
    #[test]
    fn delay_puts_off_the_next_tick_after_one_that_is_a_little_late() {
        for now_ms in 106..110 {
            let expected = [110, u128::from(now_ms) + 10, 110];
            assert_eq!(BEHAVIORS.map(|behavior| next_ms(behavior, now_ms)), expected);
        }
        assert_eq!(next_of(MissedTickBehavior::Delay, 50, 125), 175);
        // Late by a period, though not by what is tolerated.
        assert_eq!(next_of(MissedTickBehavior::Delay, 2, 101), 102);
        assert_eq!(next_of(MissedTickBehavior::Delay, 2, 103), 105);
    }

    #[test]
    fn after_a_late_tick_each_behavior_goes_its_way() {
        for now_ms in 110..200 {
            assert_eq!(next_ms(MissedTickBehavior::Burst, now_ms), 110);
            assert_eq!(next_ms(MissedTickBehavior::Delay, now_ms), u128::from(now_ms) + 10);
            let multiple = (u128::from(now_ms) / 10 + 1) * 10;
            assert_eq!(next_ms(MissedTickBehavior::Skip, now_ms), multiple);
        }
    }

    #[test]
    fn the_remainder_is_that_of_nanoseconds() {
        for (time, period, rest) in [
            (0, 1, 0),
            (7, 3, 1),
            (5_000_000_001, 2_000_000_000, 1_000_000_001),
            (3, 7, 3),
        ] {
            let rest = Duration::from_nanos(rest);
            assert_eq!(
                remainder(Duration::from_nanos(time), Duration::from_nanos(period)),
                rest
            );
        }
        assert_eq!(remainder(Duration::MAX, Duration::MAX), Duration::ZERO);
    }

    #[test]
    fn the_longest_period_does_not_overflow() {
        let now = Instant::now();
        for behavior in BEHAVIORS {
            assert!(behavior.next(now, now, Duration::MAX) > now);
        }
    }

    #[test]
    fn ticks_come_at_the_start_and_every_period() {
        with_runtime(|| {
            const PERIOD: Duration = Duration::from_millis(2);
            let start = Instant::now();
            let mut interval = interval_at(start, PERIOD);
            for tick in 0..5 {
                let due = block_on(interval.tick());
                assert_eq!(due, start + PERIOD * tick);
                assert!(Instant::now() >= due);
            }
        });
    }

    #[test]
    fn a_burst_makes_up_for_the_past_without_a_wait() {
        with_runtime(|| {
            const PERIOD: Duration = Duration::from_secs(100);
            let now = Instant::now();
            // The clock may not reach back that far on a machine that has just started.
            let Some(start) = now.checked_sub(PERIOD * 5) else {
                return;
            };
            let mut interval = interval_at(start, PERIOD);
            for tick in 0..=5 {
                assert_eq!(block_on(interval.tick()), start + PERIOD * tick);
            }
            assert!(Instant::now() < now + PERIOD);
        });
    }

    #[test]
    fn resetting_moves_the_next_tick() {
        with_runtime(|| {
            let mut interval = interval(Duration::from_secs(1000));
            block_on(interval.tick());
            interval.reset_immediately();
            block_on(interval.tick());
            let deadline = Instant::now() + Duration::from_millis(1);
            interval.reset_at(deadline);
            assert_eq!(block_on(interval.tick()), deadline);
            let before = Instant::now();
            interval.reset();
            assert!(interval.timer.deadline() >= before + interval.period());
            let before = Instant::now();
            interval.reset_after(Duration::from_millis(1));
            let due = block_on(interval.tick());
            assert!(due >= before + Duration::from_millis(1) && due < before + interval.period());
            assert_eq!(interval.timer.deadline(), due + interval.period());
            // Farther than the clock goes.
            interval.reset_after(Duration::MAX);
            assert!(interval.timer.deadline() > due + interval.period());
        });
    }

    #[test]
    #[should_panic(expected = "must not be zero")]
    fn a_period_of_zero_is_refused() {
        with_runtime(|| drop(interval(Duration::ZERO)));
    }
}
