//! Whether a worker that drains its injector as fast as others fill it waits a moment, so that more comes together.

use crate::{Config, Nanos};

/// A look that brings so many tasks, or fewer, brings few.
const FEW: usize = 4;
/// After so many in a row that brought few, the next one is put off.
const IN_A_ROW: u8 = 4;
/// After one that was put off and brought few all the same, so many are not.
const LEFT_OUT: u8 = 32;

/// What a worker's last looks into its injector have brought, and so whether it puts off the next one. A worker keeps one for itself.
///
/// A worker that runs short tasks from outside sooner than they are pushed takes each as it comes: for each of them the lines of the queue go from the
/// pusher's CPU to its own and back, which takes both of them longer than the task. If it looks a microsecond later it finds a dozen, for one such
/// transfer. Network cards do the same: interrupt moderation, after Jeffrey Mogul and K. K. Ramakrishnan, "Eliminating receive livelock in an
/// interrupt-driven kernel" (1997), and Jamal Hadi Salim and others, "Beyond softnet" (2001). So after four looks in a row, with none in vain between them,
/// that brought four tasks or fewer each, it waits for `coalesce` before the next one; if that brings few, too, the next 32 looks are not put off.
///
/// ```
/// use quadrille_policy::{Coalescing, Config, Nanos};
///
/// let (config, run) = (Config::default(), Nanos(50));
/// let mut coalescing = Coalescing::default();
/// (0..4).for_each(|_| coalescing.took(1));
/// assert_eq!(coalescing.wait(run, &config), Nanos(1_000));
/// // More came together: it goes on so.
/// coalescing.took(12);
/// assert_eq!(coalescing.wait(run, &config), Nanos(1_000));
/// // There is nothing: who comes next comes alone.
/// coalescing.took(0);
/// assert_eq!(coalescing.wait(run, &config), Nanos(0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalescing {
    /// Looks in a row that brought few, up to what makes it wait.
    few: u8,
    /// Looks that are not put off, whatever they bring.
    left_out: u8,
    /// The next look was put off.
    waits: bool,
}

impl Coalescing {
    /// For how long to put off the next look; mostly not at all. A task takes `run` on average: where that is longer than the wait, what a transfer takes hardly counts.
    #[inline]
    #[must_use]
    pub fn wait(&mut self, run: Nanos, config: &Config) -> Nanos {
        self.waits = self.few >= IN_A_ROW && run <= config.coalesce;
        if self.waits { config.coalesce } else { Nanos(0) }
    }

    /// A look has brought so many tasks.
    #[inline]
    pub fn took(&mut self, tasks: usize) {
        let waits = core::mem::take(&mut self.waits);
        if tasks == 0 {
            // The time between two tasks is longer than a look takes.
            self.few = 0;
        } else if waits && tasks <= FEW {
            (self.few, self.left_out) = (0, LEFT_OUT);
        } else if self.left_out > 0 {
            self.left_out -= 1;
        } else if tasks <= FEW {
            self.few = (self.few + 1).min(IN_A_ROW);
        } else if !waits {
            self.few = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const SHORT: Nanos = Nanos(50);

    /// Which of so many looks are put off, each of which brings so many tasks, and so many if it was put off.
    fn put_off(coalescing: &mut Coalescing, looks: usize, brings: usize, brings_later: usize) -> Vec<usize> {
        let mut looks_late = |_: &usize| {
            let waits = coalescing.wait(SHORT, &Config::default()) > Nanos(0);
            coalescing.took(if waits { brings_later } else { brings });
            waits
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
        assert_eq!(put_off(&mut Coalescing::default(), 100, 1, FEW), expected);
    }

    #[test]
    fn who_finds_many_or_nothing_does_not_wait() {
        for brings in [0, FEW + 1, 100] {
            assert_eq!(put_off(&mut Coalescing::default(), 100, brings, 100), [], "{brings}");
        }
        // Between two looks that bring few is one in vain.
        let mut coalescing = Coalescing::default();
        for _ in 0..100 {
            assert_eq!(put_off(&mut coalescing, 3, 1, 100), []);
            assert_eq!(put_off(&mut coalescing, 1, 0, 100), []);
        }
    }

    #[test]
    fn long_tasks_are_not_put_off_and_nothing_is_with_a_wait_of_0() {
        let mut coalescing = Coalescing::default();
        (0..4).for_each(|_| coalescing.took(1));
        let config = Config::default();
        let off = Config {
            coalesce: Nanos(0),
            ..Config::default()
        };
        assert_eq!(coalescing.wait(Nanos(1_001), &config), Nanos(0));
        assert_eq!(coalescing.wait(SHORT, &off), Nanos(0));
        assert_eq!(coalescing.wait(Nanos(1_000), &config), config.coalesce);
    }
}
