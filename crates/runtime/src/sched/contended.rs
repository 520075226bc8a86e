//! How long a worker that was unparked waits for a CPU until it lies down again, as the kernel counts it.

use quadrille_policy::{Config, Contention, Nanos, Policy};

use crate::sys::clock;
use crate::sys::thread::DelayCount;

/// What a worker knows of the contention for CPUs, and a look that is under way.
#[derive(Debug)]
pub(super) struct Contended {
    contention: Contention,
    /// `None`: it never looks.
    count: Option<DelayCount>,
    /// When the last look began.
    looked: Nanos,
    /// When the worker got up, and the kernel's count then.
    since: Option<(Nanos, u64)>,
}

impl Contended {
    /// For the calling thread, one of so many workers. One alone is unparked whatever that costs.
    pub(super) fn new(workers: usize, policy: &Policy) -> Self {
        let looks = workers > 1 && policy.active().wake_cost && policy.config.wake_cost.look > Nanos(0);
        Self {
            contention: Contention::default(),
            count: looks.then(DelayCount::of_this_thread).flatten(),
            looked: Nanos(0),
            since: None,
        }
    }

    /// The calling worker was unparked. If it is time, a look begins, which ends when it lies down. Returns what the
    /// looks before say that this costs.
    pub(super) fn gets_up(&mut self, now: Nanos, config: &Config) -> Nanos {
        let Some(count) = &self.count else { return Nanos(0) };
        if now.since(self.looked) >= config.wake_cost.look {
            self.looked = now;
            self.since = count.read().map(|delay| (now, delay));
        }
        self.contention.cost(now, config)
    }

    /// It is about to go to sleep.
    #[inline]
    pub(super) fn lies_down(&mut self, config: &Config) {
        if let Some(since) = self.since.take() {
            self.ends_look(since, config);
        }
    }

    #[cold]
    fn ends_look(&mut self, (up, before): (Nanos, u64), config: &Config) {
        if let Some(after) = self.count.as_ref().and_then(DelayCount::read) {
            let (now, waited) = (Nanos(clock::nanos()), Nanos(after.saturating_sub(before)));
            self.contention.looked(now, now.since(up), waited, config);
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

    /// Whether a look begins at each of these times, when one of so many workers gets up and then lies down.
    fn looks(workers: usize, config: &str, times: &[u64]) -> Vec<bool> {
        let still = Still::new("core:2", config);
        let policy = &still.shared.policy;
        let mut contended = Contended::new(workers, policy);
        let mut began = |&time: &u64| {
            contended.gets_up(Nanos(time), &policy.config);
            let began = contended.since.is_some();
            contended.lies_down(&policy.config);
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
        let looks = looks(2, "wake-cost-look=10ns", &times);
        assert_eq!(looks, expected.map(|looks| looks && counts));
    }

    #[test]
    fn one_alone_and_one_that_is_told_not_to_never_look() {
        for (workers, config) in [
            (1, "wake-cost-look=10ns"),
            (2, "wake-cost-look=0ns"),
            (2, "wake-cost-look=10ns,wake-cost=off"),
        ] {
            assert_eq!(looks(workers, config, &[10, 20]), [false; 2], "{config}");
        }
    }

    #[test]
    fn what_is_lost_is_part_of_what_a_wake_up_costs() {
        let mut still = Still::new("core:2", "default");
        let mut worker = still.worker(0);
        if worker.contended.count.is_none() {
            return;
        }
        let (shared, now) = (still.shared.clone(), Nanos(clock::nanos()));
        let config = &shared.policy.config;
        worker.contended.looked = now;
        worker.contended.contention.looked(now, Nanos(3), Nanos(1), config);
        let told = &worker.context.me().told;
        told.unparked_at.store(now.0, Ordering::Relaxed);
        worker.measure_wake(now);
        assert!(shared.wake_cost() > config.wake_cost.first);
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
            let still = Still::new("core:2", "wake-cost-look=1us");
            let policy = &still.shared.policy;
            let mut contended = Contended::new(2, policy);
            let count = DelayCount::of_this_thread()?;
            let one = current_affinity().ok()?.iter().take(1).collect();
            set_current_affinity(&one).ok()?;
            // It inherits the mask, and ends when we do, however that is.
            let (end, ended) = channel::<()>();
            let other = std::thread::spawn(move || while ended.try_recv() == Err(TryRecvError::Empty) {});
            let cost = contended.gets_up(Nanos(clock::nanos()), &policy.config);
            assert_eq!(cost, Nanos(0), "nothing is known yet");
            let (before, start) = (count.read()?, Instant::now());
            // Where the other is never run beside us we know nothing.
            while count.read()? - before < 10_000_000 {
                if start.elapsed() > Duration::from_secs(10) {
                    return None;
                }
            }
            contended.lies_down(&policy.config);
            drop(end);
            other.join().unwrap();
            Some(contended)
        };
        let seen = std::thread::spawn(seen).join().unwrap();
        let cost = |seen: &Contended| seen.contention.cost(Nanos(0), &Config::default());
        assert!(seen.iter().all(|seen| cost(seen) > Nanos(0)), "{seen:?}");
    }
}
