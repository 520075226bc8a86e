//! Whether a worker that drains its injector faster than others fill it waits a moment, so that more comes together.

use crate::{Config, Nanos};

/// A look that finds so many tasks, or fewer, finds few.
const FEW: usize = 4;
/// After so many in a row that found few, the next ones are put off.
const IN_A_ROW: u8 = 4;
/// After one that was put off in vain, so many that find something are not.
const LEFT_OUT: u8 = 32;

/// What a worker's last looks into its injector have found, and so whether it puts off the next one. A worker keeps one
/// for itself.
///
/// A worker that runs short tasks from outside sooner than they are pushed takes each as it comes: for each of them the
/// lines of the queue go from the pusher's CPU to its own and back, which takes both of them longer than the task. If
/// it looks a microsecond later it finds a dozen, for one such transfer. Network cards do the same: interrupt
/// moderation, after Jeffrey Mogul and K. K. Ramakrishnan, "Eliminating receive livelock in an interrupt-driven kernel"
/// (1997), and Jamal Hadi Salim and others, "Beyond softnet" (2001). So after four looks in a row that found one to
/// four tasks each it waits for `coalesce` before each look, unless the one before has left more than that, until it
/// finds none. If the first such look finds few, too, or nothing, the next 32 that find something are not put off.
///
/// ```
/// use quadrille_policy::{Coalescing, Config, Nanos};
///
/// let (config, run) = (Config::default(), Nanos(50));
/// let mut coalescing = Coalescing::default();
/// (0..4).for_each(|_| coalescing.found(1, 0));
/// assert_eq!(coalescing.put_off(run, &config), Nanos(1_000));
/// // More came together: it goes on so.
/// coalescing.found(12, 0);
/// assert_eq!(coalescing.put_off(run, &config), Nanos(1_000));
/// // There are more than it takes.
/// coalescing.found(100, 50);
/// assert_eq!(coalescing.put_off(run, &config), Nanos(0));
/// coalescing.found(50, 0);
/// // There is nothing: who comes next comes alone.
/// assert_eq!(coalescing.put_off(run, &config), Nanos(1_000));
/// coalescing.found(0, 0);
/// assert_eq!(coalescing.put_off(run, &config), Nanos(0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalescing {
    /// Looks in a row that found few, up to what makes it wait.
    few: u8,
    /// Looks that find something and are not put off.
    left_out: u8,
    /// The next look was put off.
    is_put_off: bool,
    /// One that was put off found more than few, since it began to wait.
    has_paid: bool,
    /// The last one left more than few.
    leaves_many: bool,
}

impl Coalescing {
    /// For how long to put off the next look; mostly not at all. A task takes `run` on average: where that is longer
    /// than the wait, what a transfer takes hardly counts.
    #[inline]
    #[must_use]
    pub fn put_off(&mut self, run: Nanos, config: &Config) -> Nanos {
        self.is_put_off = self.few >= IN_A_ROW && !self.leaves_many && run <= config.coalesce;
        if self.is_put_off { config.coalesce } else { Nanos(0) }
    }

    /// A look has found so many tasks, and left so many of them.
    #[inline]
    pub fn found(&mut self, tasks: usize, left: usize) {
        self.leaves_many = left > FEW;
        let was_put_off = core::mem::take(&mut self.is_put_off);
        self.has_paid |= was_put_off && tasks > FEW;
        if was_put_off && tasks <= FEW && !(tasks == 0 && self.has_paid) {
            *self = Self {
                left_out: LEFT_OUT,
                ..Self::default()
            };
        } else if tasks == 0 {
            // The time between two tasks is longer than a look takes.
            (self.few, self.has_paid) = (0, false);
        } else if self.left_out > 0 {
            self.left_out -= 1;
        } else if tasks <= FEW {
            self.few = (self.few + 1).min(IN_A_ROW);
        } else if self.few < IN_A_ROW {
            self.few = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const SHORT: Nanos = Nanos(50);

    /// Which of so many looks are put off, each of which finds so many tasks, and so many if it was put off.
    fn put_off(coalescing: &mut Coalescing, looks: usize, finds: usize, finds_later: usize) -> Vec<usize> {
        let mut looks_late = |_: &usize| {
            let is_put_off = coalescing.put_off(SHORT, &Config::default()) > Nanos(0);
            coalescing.found(if is_put_off { finds_later } else { finds }, 0);
            is_put_off
        };
        (0..looks).filter(|look| looks_late(look)).collect()
    }

    #[test]
    fn who_is_on_the_heels_of_the_pusher_waits_each_time() {
        let expected: Vec<usize> = (4..100).collect();
        assert_eq!(put_off(&mut Coalescing::default(), 100, 1, 5), expected);
        assert_eq!(put_off(&mut Coalescing::default(), 100, FEW, 5), expected);
    }

    #[test]
    fn a_wait_in_vain_is_tried_now_and_then() {
        let expected: Vec<usize> = (0..3).map(|time| 4 + 37 * time).collect();
        for finds_later in [0, FEW] {
            assert_eq!(
                put_off(&mut Coalescing::default(), 100, 1, finds_later),
                expected,
                "{finds_later}"
            );
        }
    }

    #[test]
    fn what_ends_after_waits_that_paid_was_not_in_vain() {
        let mut coalescing = Coalescing::default();
        for _ in 0..10 {
            assert_eq!(put_off(&mut coalescing, 6, 1, 12), [4, 5]);
            // The end of a batch.
            assert_eq!(put_off(&mut coalescing, 1, 0, 0), [0]);
        }
    }

    #[test]
    fn who_finds_many_or_nothing_does_not_wait() {
        for finds in [0, FEW + 1, 100] {
            assert_eq!(put_off(&mut Coalescing::default(), 100, finds, 100), [], "{finds}");
        }
        // Between two looks that find few is one in vain.
        let mut coalescing = Coalescing::default();
        for _ in 0..100 {
            assert_eq!(put_off(&mut coalescing, 3, 1, 100), []);
            assert_eq!(put_off(&mut coalescing, 1, 0, 100), []);
        }
    }

    /// Those who push have become faster: it does not wait beside a queue that is full.
    #[test]
    fn nothing_is_put_off_while_many_are_left() {
        let mut coalescing = Coalescing::default();
        assert_eq!(put_off(&mut coalescing, 5, 1, 5), [4]);
        for left in [FEW + 1, 100, FEW + 1] {
            coalescing.found(left + 1, left);
            assert_eq!(coalescing.put_off(SHORT, &Config::default()), Nanos(0));
        }
        coalescing.found(FEW + 1, FEW);
        assert_eq!(put_off(&mut coalescing, 2, FEW, 5), [0, 1]);
    }

    #[test]
    fn long_tasks_are_not_put_off_and_nothing_is_with_a_wait_of_0() {
        let mut coalescing = Coalescing::default();
        (0..4).for_each(|_| coalescing.found(1, 0));
        let config = Config::default();
        let off = Config {
            coalesce: Nanos(0),
            ..Config::default()
        };
        assert_eq!(coalescing.put_off(Nanos(1_001), &config), Nanos(0));
        assert_eq!(coalescing.put_off(SHORT, &off), Nanos(0));
        assert_eq!(coalescing.put_off(Nanos(1_000), &config), config.coalesce);
    }
}
