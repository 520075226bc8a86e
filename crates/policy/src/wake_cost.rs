//! Cost-aware wake: a worker is unparked only if the expected wait exceeds the cost of waking.
//!
//! Waking a parked worker costs microseconds, on a virtual machine tens of them, part of it paid by the waker; most tasks
//! run for less, so a busy worker that drains the queue is often sooner there. Proposed for Go
//! (<https://github.com/golang/go/issues/54622>) and not shipped there.
//!
//! Expected wait W, with `running` workers that drain the queue and average run `a`: until the first of them is free,
//! a/running (runs end at random), and then a/running for each task queued ahead. With `queued` including the new
//! task, W = a * queued / running. A worker is unparked if W > C, the measured cost from unpark to first instruction
//! and the waker's system call; and regardless if nobody runs, if nobody would notice a wrong guess (no sentinel), or if
//! nothing is known about runs, which may then be long.
//!
//! After a new task more are expected to follow, if they did so before: then W is what the last of those waits ([`Bursts`](crate::Bursts)), and
//! somebody is woken for the first.
//!
//! C is no property of the machine alone: where other programs want the same CPUs, who is woken waits for its turn, milliseconds if the
//! kernel's slices are so long. So a measurement counts as what it is, up to 10 ms ([`WakeCost::most`]), but as 8 times the average at most: one
//! outlier, of a virtual machine that was not run, hardly doubles it, and contention is known after a few. Who is no longer woken is no longer measured: in each interval of
//! the sentinel a 256th of what exceeds 100 us ([`WakeCost::kept`]) is forgotten, so that 2 ms are 200 us after 0.4 s without a measurement.
//!
//! Or the kernel lets the woken worker run at once, and takes a CPU from somebody on whom our tasks may wait. Of what one worker more gains L is lost for each
//! interval I of the sentinel ([`Contention`](crate::Contention)), an average like C, of which nothing is kept. What waits for W gains W - W * L / I, which has to be more than C; where L is I or more, one worker
//! fewer is more, however much is queued. That is a guess, and neither says who the others are nor whether they are still there: what waits for 4 ms
//! ([`WakeCost::contended`]) is worth a wake-up in any case, if it is worth C.
//!
//! The sentinel, who is awake already, goes by the same rule, for the deque of a worker that comes on, with I in place of a C that is longer. Rules that compare C with what a wake-up costs on CPUs that are free count it as
//! `kept` at most ([`WakeGroups::short_runs`](crate::WakeGroups::short_runs)).

use crate::{Config, Nanos, UnparkView, config::WakeCost};

/// What waking a worker costs: measured once, or the moving average of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waking {
    /// From an unpark to the first instruction of the woken worker, plus the waker's system call. As an average between [`WakeCost::least`] and
    /// [`WakeCost::most`].
    pub cost: Nanos,
    /// What is [lost](crate::Contention::lost) where others want the CPUs, for each interval of the sentinel that the worker gains; zero: nothing. As an average
    /// at most [`WakeCost::most`].
    pub lost: Nanos,
}

impl Waking {
    /// What is assumed before anything is measured.
    pub(crate) fn first(config: &WakeCost) -> Self {
        Self {
            cost: config.first,
            lost: Nanos(0),
        }
    }

    /// The average with one measurement more, which counts an eighth.
    #[inline]
    pub(crate) fn averaged(self, config: &WakeCost, measured: Self) -> Self {
        let average = |old: Nanos, measured: Nanos| {
            let outlier = old.max(config.first).0.saturating_mul(8);
            Nanos(old.0 - old.0 / 8 + measured.min(config.most).0.min(outlier) / 8)
        };
        Self {
            cost: average(self.cost, measured.cost).max(config.least),
            lost: average(self.lost, measured.lost),
        }
    }

    /// What is left of the average after so many intervals of the sentinel.
    #[inline]
    pub(crate) fn forgotten(mut self, config: &WakeCost, intervals: u64) -> Self {
        let kept = kept(config);
        let part = |exceeds: Nanos| exceeds.0 / 256;
        for _ in 0..intervals {
            let (cost, lost) = (part(self.cost.since(kept)), part(self.lost));
            if (cost, lost) == (0, 0) {
                break;
            }
            self.cost.0 -= cost;
            self.lost.0 -= lost;
        }
        self
    }

    /// What has to wait for longer than this is worth one worker more.
    #[inline]
    fn worth(self, config: &Config) -> Nanos {
        if self.lost == Nanos(0) {
            return self.cost;
        }
        let interval = config.sentinel_interval.0;
        let worth = interval
            .checked_sub(self.lost.0)
            .and_then(|left| self.cost.0.saturating_mul(interval).checked_div(left));
        let worth = Nanos(worth.unwrap_or(u64::MAX));
        worth.min(config.wake_cost.contended).max(self.cost)
    }
}

/// What of the average cost is never forgotten.
pub(crate) fn kept(config: &WakeCost) -> Nanos {
    config.kept.max(config.least)
}

/// Whether the last of so many tasks in a deque waits for so long that the sentinel comes for it.
#[inline]
pub(crate) fn is_slow(config: &Config, waking: Waking, (queued, advanced): (u64, u64), elapsed: Nanos) -> bool {
    let awake = Waking {
        cost: waking.cost.min(config.sentinel_interval),
        ..waking
    };
    let wait = |run: u64| queued.saturating_mul(run);
    elapsed
        .0
        .checked_div(advanced)
        .is_some_and(|run| wait(run) > awake.worth(config).0)
}

/// Whether to unpark one idle worker: unless somebody searches, if that is expected to pay.
#[inline]
pub(crate) fn pays(config: &Config, view: &UnparkView) -> bool {
    if !is_missing(view) {
        return false;
    }
    if view.running == 0 || !view.sentinel || view.average_run == Nanos(0) {
        return true;
    }
    // Without the division.
    let wait = view.average_run.0.saturating_mul(u64::from(view.queued));
    let worth = view.waking.worth(config).0;
    wait.max(view.burst.0) > worth.saturating_mul(u64::from(view.running))
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
        waking: Waking {
            cost: Nanos::from_micros(8),
            lost: Nanos(0),
        },
    };

    fn check(view: UnparkView, cost_aware: bool, always_one: bool) {
        assert_eq!(pays(&Config::default(), &view), cost_aware, "{view:?}");
        assert_eq!(is_missing(&view), always_one, "{view:?}");
    }

    #[test]
    fn measurements_are_averaged_within_bounds() {
        let config = WakeCost::default();
        let after = |count, cost| {
            let measured = Waking { cost, lost: Nanos(0) };
            (0..count)
                .fold(Waking::first(&config), |old, _| old.averaged(&config, measured))
                .cost
        };
        assert_eq!(after(1, Nanos::from_micros(18)), Nanos::from_micros(11));
        let settled = after(100, Nanos::from_micros(50)).0;
        assert!(settled.abs_diff(50_000) < 20, "{settled} ns");
        let most = after(100, Nanos(u64::MAX)).0;
        assert!((9_999_900..=10_000_000).contains(&most), "{most} ns");
        assert_eq!(after(100, Nanos(0)), Nanos::from_micros(1));
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
                waking: Waking {
                    cost: most,
                    lost: Nanos(0),
                },
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
        let measured = Waking {
            cost: Nanos::from_millis(3),
            lost: Nanos::from_millis(3),
        };
        let dear = (0..16).fold(Waking::first(&config), |old, _| old.averaged(&config, measured));
        assert!(dear.cost.min(dear.lost) > Nanos::from_micros(1_900), "{dear:?}");
        let after = dear.forgotten(&config, 100);
        assert!(after.cost.min(after.lost) > Nanos::from_millis(1), "{after:?}");
        let after = dear.forgotten(&config, 1_000);
        assert!(after.cost.max(after.lost) < Nanos::from_micros(200), "{after:?}");
        assert_eq!(dear.forgotten(&config, 0), dear);
        let last = dear.forgotten(&config, u64::MAX);
        assert!(last.cost.0 - config.kept.0 < 256 && last.lost.0 < 256, "{last:?}");
        for cost in [Nanos(0), Nanos::from_micros(2), config.kept] {
            let kept = Waking { cost, lost: Nanos(0) };
            assert_eq!(kept.forgotten(&config, 1), kept);
        }
        let least = Waking {
            cost: Nanos::from_millis(1),
            lost: Nanos(0),
        };
        let config = WakeCost {
            least: least.cost,
            ..config
        };
        assert_eq!(least.forgotten(&config, 9), least, "that is what it costs at least");
    }

    /// Costs of 8 us, of which each interval of 500 us loses so much: what has to wait for so long is worth it.
    #[test]
    fn what_is_lost_is_weighed_against_the_wait() {
        let config = Config::default();
        let worth = |cost_us, lost_us| {
            let (cost, lost) = (Nanos::from_micros(cost_us), Nanos::from_micros(lost_us));
            Waking { cost, lost }.worth(&config).0 / 1_000
        };
        for (lost, expected) in [
            (0, 8),
            (66, 9),
            (250, 16),
            (400, 40),
            (499, 4_000),
            (500, 4_000),
            (9_999, 4_000),
        ] {
            assert_eq!(worth(8, lost), expected, "{lost} of 500 us");
        }
        assert_eq!(worth(1, 499), 500);
        assert_eq!(worth(5_000, 1_000), 5_000, "what it costs at least");
        assert_eq!(worth(u64::from(u32::MAX), 499), u64::from(u32::MAX), "no overflow");
        let off: Config = "wake-cost-contended=0ns".parse().unwrap();
        let waking = Waking {
            cost: Nanos(7),
            lost: Nanos(u64::MAX),
        };
        assert_eq!(waking.worth(&off), Nanos(7));
    }

    /// Three workers, tasks of 2 us: 4 ms are 6,000 of them queued.
    #[test]
    fn nobody_is_woken_in_vain_where_others_want_the_cpus() {
        let waking = Waking {
            lost: Nanos::from_micros(500),
            ..VIEW.waking
        };
        for (queued, expected) in [(13, false), (6_000, false), (6_001, true)] {
            let view = UnparkView { queued, waking, ..VIEW };
            check(view, expected, true);
        }
        let burst = Nanos::from_micros(3 * 4_000 + 1);
        check(UnparkView { burst, waking, ..VIEW }, true, true);
        for view in [
            UnparkView { running: 0, ..VIEW },
            UnparkView {
                sentinel: false,
                ..VIEW
            },
        ] {
            check(UnparkView { waking, ..view }, true, true);
        }
    }

    #[test]
    fn the_sentinel_comes_for_what_waits_for_longer_than_a_wake_up_or_its_interval() {
        let config = Config::default();
        let is_slow = |cost_us, lost_us, queued, advanced| {
            let (cost, lost) = (Nanos::from_micros(cost_us), Nanos::from_micros(lost_us));
            let waking = Waking { cost, lost };
            is_slow(&config, waking, (queued, advanced), config.sentinel_interval)
        };
        for (cost_us, lost_us, queued, advanced, expected) in [
            (50, 0, 1, 10, false),
            (50, 0, 2, 10, true),
            (500, 0, 10, 10, false),
            (10_000, 0, 10, 10, false),
            (10_000, 0, 11, 10, true),
            (50, 0, 1_000, 0, false),
            // Half of what is gained is lost.
            (50, 250, 2, 10, false),
            (50, 250, 3, 10, true),
            (10_000, 250, 20, 10, false),
            (10_000, 250, 21, 10, true),
            // All of it.
            (50, 500, 80, 10, false),
            (50, 500, 81, 10, true),
            (10_000, 9_999, 80, 10, false),
            (10_000, 9_999, 81, 10, true),
        ] {
            assert_eq!(
                is_slow(cost_us, lost_us, queued, advanced),
                expected,
                "{cost_us} us, {lost_us} us lost, {queued} queued, {advanced} run"
            );
        }
        let most = u64::from(u32::MAX);
        assert!(is_slow(most, most, u64::MAX, 1), "no overflow");
    }

    /// Nor does one moment without a CPU.
    #[test]
    fn an_outlier_hardly_doubles_the_average() {
        let config = WakeCost::default();
        let after = |cost: Nanos, lost: Nanos| {
            let measured = Waking {
                cost: Nanos::from_millis(10),
                lost: Nanos(u64::MAX),
            };
            Waking { cost, lost }.averaged(&config, measured)
        };
        let usual = Nanos::from_micros(40);
        let Waking { cost, lost } = after(usual, usual);
        assert!(cost > usual && cost < Nanos(2 * usual.0), "{cost}");
        assert_eq!(lost, cost);
        assert_eq!(
            after(Nanos(0), Nanos(0)),
            Waking {
                cost: config.first,
                lost: config.first
            }
        );
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
