//! How long a worker that was woken waits for a CPU until it sleeps again, as the kernel counts it.

use quadrille_policy::{Config, Contention, Nanos};

use crate::sys::clock;
use crate::sys::thread::run_delay;

/// What a worker knows of the contention for its CPU, and a look that is under way.
#[derive(Debug)]
pub(super) struct Contended {
    contention: Contention,
    /// [`WakeCost::look`](quadrille_policy::WakeCost::look); 0: never.
    period: Nanos,
    /// When the last look began.
    looked: Nanos,
    /// When the worker got up, and the kernel's count then.
    since: Option<(Nanos, u64)>,
}

impl Contended {
    /// For one of so many workers. One alone wakes nobody.
    pub(super) fn new(workers: usize, config: &Config) -> Self {
        Self {
            contention: Contention::default(),
            period: if workers > 1 { config.wake_cost.look } else { Nanos(0) },
            looked: Nanos(0),
            since: None,
        }
    }

    /// The calling worker was woken: from now on until it sleeps is what a look sees, if it is time for one. What its
    /// being woken costs by the looks before.
    pub(super) fn gets_up(&mut self, now: Nanos, config: &Config) -> Nanos {
        if self.period > Nanos(0) && now.since(self.looked) >= self.period {
            self.looked = now;
            self.since = self.count().map(|delay| (now, delay));
        }
        self.contention.cost(config.sentinel_interval)
    }

    /// It has nothing left to do.
    #[inline]
    pub(super) fn lies_down(&mut self) {
        if self.since.is_some() {
            self.ends_look();
        }
    }

    #[cold]
    fn ends_look(&mut self) {
        if let (Some((up, before)), Some(after)) = (self.since.take(), self.count()) {
            let now = Nanos(clock::nanos());
            self.contention
                .looked(now.since(up), Nanos(after.saturating_sub(before)));
        }
    }

    /// What the kernel has counted. One that doesn't will not begin to.
    fn count(&mut self) -> Option<u64> {
        let delay = run_delay();
        if delay.is_none() {
            self.period = Nanos(0);
        }
        delay
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;

    /// Whether a look begins when the only one of `workers` gets up after each of these times, and when it is woken again before it sleeps.
    fn looks(workers: usize, look: Nanos, times: &[u64]) -> Vec<bool> {
        let mut config = Config::default();
        config.wake_cost.look = look;
        let mut contended = Contended::new(workers, &config);
        let mut began = |&time: &u64| {
            contended.gets_up(Nanos(time), &config);
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
        let counts = run_delay().is_some();
        assert_eq!(looks(2, Nanos(10), &times), expected.map(|looks| looks && counts));
    }

    #[test]
    fn one_alone_and_one_that_is_told_not_to_never_look() {
        assert_eq!(looks(1, Nanos(10), &[10, 20]), [false; 2]);
        assert_eq!(looks(2, Nanos(0), &[10, 20]), [false; 2]);
    }

    /// This thread and one that computes share a CPU.
    #[cfg(target_os = "linux")]
    #[test]
    fn who_shares_its_cpu_waits() {
        use std::sync::mpsc::{TryRecvError, channel};

        use quadrille_topology::{current_affinity, set_current_affinity};

        if run_delay().is_none() {
            return;
        }
        let all = current_affinity().unwrap();
        set_current_affinity(&all.iter().take(1).collect()).unwrap();
        let mut config = Config::default();
        config.wake_cost.look = Nanos(1);
        let mut contended = Contended::new(2, &config);
        // It inherits the mask, and ends when we do, however that is.
        let (end, ended) = channel::<()>();
        let other = std::thread::spawn(move || while ended.try_recv() == Err(TryRecvError::Empty) {});
        assert_eq!(
            contended.gets_up(Nanos(clock::nanos()), &config),
            Nanos(0),
            "nothing is known yet"
        );
        let (_, before) = contended.since.expect("the kernel counts");
        while run_delay().unwrap() - before < 10_000_000 {}
        contended.lies_down();
        drop(end);
        other.join().unwrap();
        let cost = contended.contention.cost(config.sentinel_interval);
        set_current_affinity(&all).unwrap();
        assert!(cost > Nanos(0), "{contended:?}");
    }
}
