//! How busy the workers of a last-level cache are.

use quadrille_policy::{Nanos, Utilisation};

/// Counts the busy time of some workers, and samples from it how busy they are.
#[derive(Debug)]
pub(crate) struct BusyTime {
    workers: u64,
    busy: u64,
    /// Busy time of all workers together since the last sample.
    time: Nanos,
    changed: Nanos,
    sampled: Nanos,
    utilisation: Utilisation,
}

impl BusyTime {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers: workers as u64,
            busy: 0,
            time: Nanos(0),
            changed: Nanos(0),
            sampled: Nanos(0),
            utilisation: Utilisation::default(),
        }
    }

    /// A worker, which `counted` or not as busy, is busy or not from `now` on.
    #[inline]
    pub(crate) fn busy(&mut self, now: Nanos, counted: &mut bool, busy: bool) {
        if *counted != busy {
            self.pass(now);
            *counted = busy;
            self.busy = if busy { self.busy + 1 } else { self.busy - 1 };
        }
    }

    fn pass(&mut self, now: Nanos) {
        self.time.0 += self.busy * now.since(self.changed).0;
        self.changed = self.changed.max(now);
    }

    /// Takes a sample if the last one is at least `interval` ago.
    #[inline]
    pub(crate) fn sample(&mut self, now: Nanos, interval: Nanos) {
        let passed = now.since(self.sampled);
        if passed < interval {
            return;
        }
        self.pass(now);
        self.utilisation.sample(self.time, Nanos(passed.0 * self.workers));
        self.sampled = now;
        self.time = Nanos(0);
    }

    /// How busy they are as of the last sample, in 1/1024.
    #[inline]
    pub(crate) fn utilisation(&self) -> u16 {
        self.utilisation.get()
    }

    /// How many they are.
    pub(crate) fn workers(&self) -> u64 {
        self.workers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    /// Four workers, two of which are busy, sampled at these times.
    fn sampled(at_ms: &[u64]) -> u16 {
        let mut busy = BusyTime::new(4);
        let mut counted = [false; 4];
        for worker in &mut counted[..2] {
            busy.busy(Nanos(0), worker, true);
            busy.busy(Nanos(0), worker, true);
        }
        at_ms.iter().for_each(|ms| busy.sample(Nanos::from_millis(*ms), MS));
        busy.utilisation()
    }

    #[test]
    fn a_sample_counts_a_quarter_and_comes_once_an_interval() {
        assert_eq!(sampled(&[0]), 0);
        assert_eq!(sampled(&[1]), 128);
        assert_eq!(sampled(&[1, 1, 1]), 128);
        assert_eq!(sampled(&[1, 2]), 224);
        assert_eq!(sampled(&[40]), 128);
    }
}
