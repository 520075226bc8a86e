//! Cost-aware wake: a worker is unparked only if the expected wait exceeds the cost of waking.
//!
//! Waking a parked worker costs microseconds, on a virtual machine tens of them, part of it paid by the waker; most
//! tasks run for less, so a busy worker that drains the queue is often sooner there. Proposed for Go
//! (<https://github.com/golang/go/issues/54622>) and not shipped there.
//!
//! Expected wait W, with `running` workers that drain the queue and average run `a`: until the first of them is free,
//! a/running (runs end at random), and then a/running for each task queued ahead. With `queued` including the new task,
//! W = a * queued / running. A worker is unparked if W > C, the measured cost from unpark to first instruction, the
//! waker's system call, and what is lost where others want the CPUs; and regardless if nobody runs, if nobody would
//! notice a wrong guess (no sentinel), or if nothing is known about runs, which may then be long.
//!
//! After a new task more are expected to follow, if they did so before: then W is what the last of those waits
//! ([`Bursts`](crate::Bursts)), and somebody is woken for the first.
//!
//! C is no property of the machine alone: where other programs want the same CPUs, who is woken waits for its turn,
//! milliseconds if the kernel's slices are so long, or takes a CPU from somebody on whom our tasks may wait. Then one
//! worker fewer is more. So a measurement counts as what it is, with what is lost after that
//! ([`Contention`](crate::Contention)), up to 10 ms ([`WakeCost::most`]), but as 8 times the average at most
//! (of one below [`WakeCost::first`], as 8 times that): one
//! outlier, of a virtual machine that was not run, hardly doubles it, and contention is known after a few. Who is no
//! longer woken is no longer measured: in each interval of the sentinel a 256th of what exceeds 100 us
//! ([`WakeCost::kept`]) is forgotten, so that 2 ms are 200 us after 0.4 s without a measurement.
//!
//! What other programs make of C decides about unparks alone. Rules that compare C with what a wake-up costs on CPUs
//! that are free count it as `kept` at most ([`WakeGroups::short_runs`](crate::WakeGroups::short_runs)), and the
//! sentinel, who is awake already, comes for a backlog of its interval whatever C is.

use crate::{Nanos, UnparkView, config::WakeCost};

/// The moving average of measured costs, between [`WakeCost::least`] and [`WakeCost::most`].
#[inline]
pub(crate) fn average(config: &WakeCost, old: Nanos, measured: Nanos) -> Nanos {
    let outlier = old.max(config.first).0.saturating_mul(8);
    let new = old.0 - old.0 / 8 + measured.min(config.most).0.min(outlier) / 8;
    Nanos(new).min(config.most).max(config.least)
}

/// What of the average is never forgotten.
pub(crate) fn kept(config: &WakeCost) -> Nanos {
    config.kept.max(config.least)
}

/// What is left of the average after so many intervals of the sentinel.
#[inline]
pub(crate) fn forget(config: &WakeCost, mut cost: Nanos, intervals: u64) -> Nanos {
    let kept = kept(config);
    for _ in 0..intervals {
        let forgotten = cost.0.saturating_sub(kept.0) / 256;
        if forgotten == 0 {
            break;
        }
        cost.0 -= forgotten;
    }
    cost
}

/// Whether the last of so many tasks in a deque waits for so long that the sentinel comes for it.
#[inline]
pub(crate) fn is_slow(cost: Nanos, sentinel_interval: Nanos, (queued, advanced): (u64, u64), elapsed: Nanos) -> bool {
    let wait = |run: u64| queued.saturating_mul(run);
    elapsed
        .0
        .checked_div(advanced)
        .is_some_and(|run| wait(run) > cost.min(sentinel_interval).0)
}

/// Whether to unpark one idle worker: unless somebody searches, if that is expected to pay.
#[inline]
pub(crate) fn pays(view: &UnparkView) -> bool {
    if !is_missing(view) {
        return false;
    }
    if view.running == 0 || !view.sentinel || view.average_run == Nanos(0) {
        return true;
    }
    // W > C without the division.
    let wait = view.average_run.0.saturating_mul(u64::from(view.queued));
    wait.max(view.burst.0) > view.wake_cost.0.saturating_mul(u64::from(view.running))
}

/// Whether to unpark one idle worker: unless somebody searches. The rule without costs.
#[inline]
pub(crate) fn is_missing(view: &UnparkView) -> bool {
    view.idle > 0 && view.searching == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three workers run tasks of 2 us, one is idle, waking costs 8 us.
    const VIEW: UnparkView = UnparkView {
        idle: 1,
        searching: 0,
        sentinel: true,
        running: 3,
        queued: 1,
        average_run: Nanos::from_micros(2),
        burst: Nanos(0),
        wake_cost: Nanos::from_micros(8),
    };

    fn check(view: UnparkView, cost_aware: bool, always_one: bool) {
        assert_eq!(pays(&view), cost_aware, "{view:?}");
        assert_eq!(is_missing(&view), always_one, "{view:?}");
        // Who asks first for what pays while nobody searches relies on it.
        let searched = UnparkView { searching: 1, ..view };
        assert!(!pays(&searched) && !is_missing(&searched), "{view:?}");
    }

    #[test]
    fn measurements_are_averaged_within_bounds() {
        let config = WakeCost::default();
        let after = |count, measured| (0..count).fold(config.first, |old, _| average(&config, old, measured));
        assert_eq!(after(1, Nanos::from_micros(18)), Nanos::from_micros(11));
        let settled = after(100, Nanos::from_micros(50)).0;
        assert!(settled.abs_diff(50_000) < 20, "{settled} ns");
        let most = after(100, Nanos(u64::MAX)).0;
        assert!((9_999_900..=10_000_000).contains(&most), "{most} ns");
        assert_eq!(after(100, Nanos(0)), Nanos::from_micros(1));
        // What it is taken to cost before may exceed that.
        let first = Nanos::from_millis(1_000);
        let config = WakeCost { first, ..config };
        assert_eq!(average(&config, first, Nanos::from_micros(10)), config.most);
    }

    #[test]
    fn wakes_if_the_wait_is_longer_than_the_waking() {
        check(VIEW, false, true);
        check(UnparkView { queued: 12, ..VIEW }, false, true);
        check(UnparkView { queued: 13, ..VIEW }, true, true);
        check(
            UnparkView {
                average_run: Nanos(24_000),
                ..VIEW
            },
            false,
            true,
        );
        check(
            UnparkView {
                average_run: Nanos(24_001),
                ..VIEW
            },
            true,
            true,
        );
        check(
            UnparkView {
                running: 1,
                queued: 5,
                ..VIEW
            },
            true,
            true,
        );
        for (us, expected) in [(8 * 3, false), (8 * 3 + 1, true)] {
            let burst = Nanos::from_micros(us);
            check(UnparkView { burst, ..VIEW }, expected, true);
        }
        let most = Nanos(u64::MAX);
        check(
            UnparkView {
                average_run: most,
                queued: u32::MAX,
                ..VIEW
            },
            true,
            true,
        );
        check(
            UnparkView {
                wake_cost: most,
                queued: u32::MAX,
                ..VIEW
            },
            false,
            true,
        );
    }

    /// Wake-ups that begin to take 3 ms, and intervals without one after that.
    #[test]
    fn what_is_not_measured_again_is_forgotten() {
        let config = WakeCost::default();
        let measured = |cost: Nanos, _| average(&config, cost, Nanos::from_millis(3));
        let dear = (0..16).fold(config.first, measured);
        assert!(dear > Nanos::from_micros(1_900), "{dear}");
        assert!(forget(&config, dear, 100) > Nanos::from_millis(1));
        assert!(forget(&config, dear, 1_000) < Nanos::from_micros(200));
        assert_eq!(forget(&config, dear, 0), dear);
        assert!(forget(&config, dear, u64::MAX).0 - config.kept.0 < 256);
        for kept in [Nanos(0), Nanos::from_micros(2), config.kept] {
            assert_eq!(forget(&config, kept, 1), kept);
        }
        let least = Nanos::from_millis(1);
        let config = WakeCost { least, ..config };
        assert_eq!(forget(&config, least, 9), least, "that is what it costs at least");
    }

    #[test]
    fn the_sentinel_comes_for_what_waits_for_longer_than_a_wake_up_or_its_interval() {
        let interval = Nanos::from_micros(500);
        let is_slow =
            |cost_us, queued, advanced| is_slow(Nanos::from_micros(cost_us), interval, (queued, advanced), interval);
        for (cost_us, queued, advanced, expected) in [
            (50, 1, 10, false),
            (50, 2, 10, true),
            (500, 10, 10, false),
            (10_000, 10, 10, false),
            (10_000, 11, 10, true),
            (50, 1_000, 0, false),
        ] {
            assert_eq!(
                is_slow(cost_us, queued, advanced),
                expected,
                "{cost_us} us, {queued} queued, {advanced} run"
            );
        }
        assert!(is_slow(u64::from(u32::MAX), u64::MAX, 1), "no overflow");
    }

    #[test]
    fn an_outlier_hardly_doubles_the_average() {
        let config = WakeCost::default();
        let usual = Nanos::from_micros(40);
        let after = average(&config, usual, Nanos::from_millis(10));
        assert!(after > usual && after < Nanos(2 * usual.0), "{after}");
        assert_eq!(average(&config, Nanos(0), Nanos::from_millis(10)), config.first);
    }

    #[test]
    fn wakes_if_nobody_else_will_come() {
        check(UnparkView { running: 0, ..VIEW }, true, true);
        check(
            UnparkView {
                sentinel: false,
                ..VIEW
            },
            true,
            true,
        );
        check(
            UnparkView {
                average_run: Nanos(0),
                ..VIEW
            },
            true,
            true,
        );
    }

    #[test]
    fn never_wakes_beside_a_searcher_or_without_a_sleeper() {
        for (idle, searching) in [(0, 0), (0, 1), (4, 1)] {
            for sentinel in [false, true] {
                for running in [0, 3] {
                    check(
                        UnparkView {
                            idle,
                            searching,
                            sentinel,
                            running,
                            ..VIEW
                        },
                        false,
                        false,
                    );
                }
            }
        }
    }
}
