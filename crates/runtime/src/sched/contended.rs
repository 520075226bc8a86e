//! How long a worker that was unparked waits for a CPU until it lies down again, as the kernel counts it.

use quadrille_policy::{Contention, Nanos, Policy};

use crate::sys::clock;
use crate::sys::thread::DelayCount;

/// After so many periods without a look that ended, what was seen says nothing any more: 1 s with looks each 10 ms.
const STALE: u64 = 100;

/// What a worker knows of the contention for CPUs, and a look that is under way.
#[derive(Debug)]
pub(super) struct Contended {
    contention: Contention,
    /// `None`: it never looks.
    count: Option<DelayCount>,
    /// [`WakeCost::look`](quadrille_policy::WakeCost::look).
    period: Nanos,
    /// When the last look began.
    looked: Nanos,
    /// When the last look ended.
    seen: Nanos,
    /// When the worker got up, and the kernel's count then.
    since: Option<(Nanos, u64)>,
}

impl Contended {
    /// For the calling thread, one of so many workers. One alone is unparked whatever that costs.
    pub(super) fn new(workers: usize, policy: &Policy) -> Self {
        let period = policy.config.wake_cost.look;
        let looks = workers > 1 && policy.active().wake_cost && period > Nanos(0);
        Self {
            contention: Contention::default(),
            count: looks.then(DelayCount::of_this_thread).flatten(),
            period,
            looked: Nanos(0),
            seen: Nanos(0),
            since: None,
        }
    }

    /// The calling worker was unparked. If it is time, a look begins, which ends when it lies down. Returns what the looks before say that this costs.
    pub(super) fn gets_up(&mut self, now: Nanos, interval: Nanos) -> Nanos {
        let Some(count) = &self.count else { return Nanos(0) };
        if now.since(self.seen).0 / STALE >= self.period.0 {
            self.contention = Contention::default();
        }
        if now.since(self.looked) >= self.period {
            self.looked = now;
            self.since = count.read().map(|delay| (now, delay));
        }
        self.contention.cost(interval)
    }

    /// It is about to go to sleep.
    #[inline]
    pub(super) fn lies_down(&mut self) {
        if let Some(since) = self.since.take() {
            self.ends_look(since);
        }
    }

    #[cold]
    fn ends_look(&mut self, (up, before): (Nanos, u64)) {
        if let Some(after) = self.count.as_ref().and_then(DelayCount::read) {
            self.seen = Nanos(clock::nanos());
            self.contention
                .looked(self.seen.since(up), Nanos(after.saturating_sub(before)));
        }
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use std::time::{Duration, Instant};

    use quadrille_topology::{current_affinity, set_current_affinity};

    use super::*;
    use crate::primitives::Ordering;
    use crate::sched::still::Still;

    const INTERVAL: Nanos = Nanos::from_micros(500);

    fn contended(workers: usize, config: &str) -> Contended {
        Contended::new(workers, &Still::new("core:2", config).shared.policy)
    }

    /// Whether a look begins at each of these times, when the worker gets up and then lies down.
    fn looks(mut contended: Contended, times: &[u64]) -> Vec<bool> {
        let mut began = |&time: &u64| {
            contended.gets_up(Nanos(time), INTERVAL);
            let began = contended.since.is_some();
            contended.lies_down();
            assert!(contended.since.is_none());
            began
        };
        times.iter().map(&mut began).collect()
    }

    #[test]
    fn it_looks_once_a_period() {
        let times = [9, 10, 11, 19, 20, 500];
        let expected = [false, true, false, false, true, true];
        // Elsewhere nobody counts.
        let counts = DelayCount::of_this_thread().is_some();
        let looks = looks(contended(2, "wake-cost-look=10ns"), &times);
        assert_eq!(looks, expected.map(|looks| looks && counts));
    }

    #[test]
    fn one_alone_and_one_that_is_told_not_to_never_look() {
        for (workers, config) in [
            (1, "wake-cost-look=10ns"),
            (2, "wake-cost-look=0ns"),
            (2, "wake-cost-look=10ns,wake-cost=off"),
        ] {
            assert_eq!(looks(contended(workers, config), &[10, 20]), [false; 2], "{config}");
        }
    }

    #[test]
    fn what_was_seen_long_ago_says_nothing() {
        let mut contended = contended(2, "wake-cost-look=10ns");
        if contended.count.is_none() {
            return;
        }
        contended.contention.looked(Nanos(3), Nanos(1));
        contended.seen = Nanos(5_000);
        let cost = contended.gets_up(Nanos(5_999), INTERVAL);
        assert_eq!(cost, Nanos::from_millis(1), "however long ago that look began");
        assert_eq!(contended.gets_up(Nanos(6_000), INTERVAL), Nanos(0));
    }

    /// What the cost of a wake-up is after one that took no time, if this was seen before.
    fn cost_after(contention: Contention) -> Nanos {
        let mut still = Still::new("core:2", "default");
        let mut worker = still.worker(0);
        if worker.contended.count.is_none() {
            return Nanos::from_millis(1);
        }
        worker.contended.contention = contention;
        let now = Nanos(clock::nanos());
        (worker.contended.looked, worker.contended.seen) = (now, now);
        let told = &worker.context.me().told;
        told.unparked_at.store(now.0, Ordering::Relaxed);
        worker.measure_wake(now);
        still.shared.wake_cost()
    }

    #[test]
    fn what_is_lost_is_part_of_what_a_wake_up_costs() {
        let mut contention = Contention::default();
        contention.looked(Nanos(3), Nanos(1));
        let first = quadrille_policy::Config::default().wake_cost.first;
        assert!(cost_after(contention) > first);
    }

    #[test]
    fn a_look_ends_where_a_worker_goes_to_sleep() {
        let mut still = Still::new("core:2", "default");
        let mut worker = still.worker(0);
        worker.contended.since = Some((Nanos(0), 0));
        // It does not: there is nobody to wake it.
        still.shared.sleepers.stop();
        worker.context.shared.sleepers.start_search(0);
        _ = worker.sleep();
        assert!(worker.contended.since.is_none());
    }

    /// On a thread of its own: it and one that computes share a CPU.
    #[cfg(target_os = "linux")]
    #[test]
    fn who_shares_its_cpu_waits() {
        use std::sync::mpsc::{TryRecvError, channel};

        let seen = || {
            let mut contended = contended(2, "wake-cost-look=1ns");
            let count = DelayCount::of_this_thread()?;
            let one = current_affinity().ok()?.iter().take(1).collect();
            set_current_affinity(&one).ok()?;
            // It inherits the mask, and ends when we do, however that is.
            let (end, ended) = channel::<()>();
            let other = std::thread::spawn(move || while ended.try_recv() == Err(TryRecvError::Empty) {});
            let cost = contended.gets_up(Nanos(clock::nanos()), INTERVAL);
            assert_eq!(cost, Nanos(0), "nothing is known yet");
            let (before, start) = (count.read()?, Instant::now());
            // Where the other is never run beside us we know nothing.
            while count.read()? - before < 10_000_000 {
                if start.elapsed() > Duration::from_secs(10) {
                    return None;
                }
            }
            contended.lies_down();
            drop(end);
            other.join().unwrap();
            Some(contended.contention.cost(INTERVAL))
        };
        let seen = std::thread::spawn(seen).join().unwrap();
        assert!(seen.is_none_or(|cost| cost > Nanos(0)), "{seen:?}");
    }
}
