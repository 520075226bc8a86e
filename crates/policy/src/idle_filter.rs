//! Policy 2: how likely a search for an idle worker is, given how busy a last-level cache is.
//!
//! From Chen Yu's `SIS_UTIL` (Linux 6.0): with utilisation u and the margin 1.17 of the kernel's load balancer, a scan
//! of N processors is cut to N * (1 - (1.17 u)^2). Idle workers are found in a mask here, so depth costs nothing; what
//! is worth limiting is the migration that a search ends in, and the same factor is the *chance* of a search.

use crate::{Nanos, Rng, config::IdleFilter};

/// 1 in the fixed-point numbers of this module.
pub(crate) const ONE: u16 = 1024;

/// The chance (1/1024) that a waker looks beyond the task's group, at utilisation `util` (1/1024) of its cache.
///
/// The margin is squared as an integer: with a rounded 1.17^2 some of the published depths come out one off.
#[inline]
pub(crate) fn search_chance(filter: &IdleFilter, util: u16) -> u16 {
    let util = u64::from(util.min(ONE));
    let margin = u64::from(filter.cutoff_margin_pct.min(1000));
    // At most 1024^2 * 1000^2, so it fits; 100^2 takes the percents out again.
    let busy = util * util * margin * margin / (10_000 * u64::from(ONE));
    ONE - u16::try_from(busy).unwrap_or(ONE).min(ONE)
}

/// Whether this waker searches: always at light load, where a search in a mask finds at once. Draws a number only if
/// the outcome is open.
#[inline]
pub(crate) fn searches(filter: &IdleFilter, util: u16, rng: &mut Rng) -> bool {
    if util < filter.light_load {
        return true;
    }
    match search_chance(filter, util) {
        0 => false,
        ONE => true,
        chance => rng.below(u32::from(ONE)) < u32::from(chance),
    }
}

/// How busy the workers of one last-level cache are: a moving average of samples, in 1/1024.
///
/// ```
/// use quadrille_policy::{Nanos, Utilisation};
///
/// let mut utilisation = Utilisation::default();
/// for _ in 0..100 {
///     utilisation.sample(Nanos::from_millis(6), Nanos::from_millis(8)); // 8 workers, 1 ms
/// }
/// assert_eq!(utilisation.get(), 768);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Utilisation {
    /// In 1/65536, so that steps of a quarter still arrive at the target.
    value: u32,
}

impl Utilisation {
    /// Adds a sample, taken each [`IdleFilter::sample`]: of `elapsed` worker time, `busy` was spent on tasks. A sample
    /// counts a quarter; one of no time counts nothing.
    pub fn sample(&mut self, busy: Nanos, elapsed: Nanos) {
        if elapsed.0 == 0 {
            return;
        }
        let share = u128::from(busy.0.min(elapsed.0)) << 16;
        let share = i64::try_from(share / u128::from(elapsed.0)).unwrap_or(1 << 16);
        let value = i64::from(self.value);
        // Rounded away from the old value, or it would stop 3 steps short of the target.
        let step = (share - value + 3 * (share - value).signum()) / 4;
        self.value = u32::try_from(value + step).unwrap_or_default();
    }

    /// Adds a sample of so many workers, `elapsed` after the last one. Intervals that went by without one were like
    /// this; sixteen of them leave 1 % of the past, and more are not counted.
    pub fn sample_late(&mut self, busy: Nanos, workers: u64, elapsed: Nanos, interval: Nanos) {
        let elapsed_of_all = Nanos(workers.saturating_mul(elapsed.0));
        for _ in 0..(elapsed.0 / interval.0.max(1)).min(16) {
            self.sample(busy, elapsed_of_all);
        }
    }

    /// The average as one word, for those who share it.
    #[inline]
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        self.value
    }

    /// The average that [`to_bits`](Self::to_bits) gave.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self {
            value: if bits > 1 << 16 { 1 << 16 } else { bits },
        }
    }

    /// The average, in 1/1024.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u16 {
        #[expect(clippy::cast_possible_truncation, reason = "at most 1024")]
        {
            (self.value >> 6) as u16
        }
    }
}

/// How a waker looks for an idle worker of a last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// At two workers at random, and no further.
    Probe,
    /// At two workers at random, then at the mask of idle groups.
    ProbeThenMask,
    /// At the mask of idle groups.
    Mask,
}

/// How often a waker's random probes of two workers meet an idle one, and what follows from it: where they often do the
/// mask, which everybody writes, saves nothing; where they seldom do it saves the misses. A worker keeps one for
/// itself.
///
/// | rate at the end of a [`regime`](IdleFilter::regime) | until the next |
/// |---|---|
/// | above [`probe_above`](IdleFilter::probe_above) | probes |
/// | below [`mask_below`](IdleFilter::mask_below) | the mask; every eighth search ([`probe_every`](IdleFilter::probe_every)) probes first, to see whether it still is so |
/// | between | as before |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeRate {
    /// Moving average of probes, a sample counts an eighth; in 1/65536.
    rate: u32,
    mask: bool,
    /// Searches in the regime of the mask, modulo [`IdleFilter::probe_every`].
    turn: u8,
    decided: Nanos,
}

impl Default for ProbeRate {
    fn default() -> Self {
        Self {
            rate: 1 << 15,
            mask: true,
            turn: 0,
            decided: Nanos(0),
        }
    }
}

impl ProbeRate {
    /// Takes in whether a probe met an idle worker.
    pub fn record(&mut self, met: bool) {
        self.rate -= self.rate / 8;
        if met {
            self.rate += (1 << 16) / 8;
        }
    }

    /// How to search now, at utilisation `util` (1/1024) of the cache.
    pub(crate) fn search(&mut self, filter: &IdleFilter, util: u16, now: Nanos) -> Search {
        if now.since(self.decided) >= filter.regime {
            self.decided = now;
            let above = self.rate > u32::from(filter.probe_above) << 6;
            let below = self.rate < u32::from(filter.mask_below) << 6;
            self.mask = below || self.mask && !above;
        }
        if !self.mask {
            return if util < filter.light_load {
                Search::ProbeThenMask
            } else {
                Search::Probe
            };
        }
        self.turn = self.turn.wrapping_add(1) % filter.probe_every.max(1);
        if self.turn == 0 {
            Search::ProbeThenMask
        } else {
            Search::Mask
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Utilisation in percent, and the published depths for 112 and for 16 processors.
    const PUBLISHED: [(u16, u16, u16); 10] = [
        (0, 112, 16),
        (5, 111, 15),
        (15, 108, 15),
        (25, 102, 14),
        (35, 93, 13),
        (45, 81, 11),
        (55, 65, 9),
        (65, 47, 6),
        (75, 25, 3),
        (85, 1, 0),
    ];

    fn of_1024(percent: u16) -> u16 {
        u16::try_from(u32::from(percent) * 1024 / 100).unwrap()
    }

    #[test]
    fn the_chance_times_n_is_the_published_depth() {
        let filter = IdleFilter::default();
        for (percent, depth_112, depth_16) in PUBLISHED {
            let chance = u32::from(search_chance(&filter, of_1024(percent)));
            assert_eq!(112 * chance / 1024, u32::from(depth_112), "{percent} % of 112");
            assert_eq!(16 * chance / 1024, u32::from(depth_16), "{percent} % of 16");
        }
    }

    #[test]
    fn the_chance_never_rises_and_ends_at_the_cutoff() {
        for margin in [100, 117, 200, 1000] {
            let filter = IdleFilter {
                cutoff_margin_pct: margin,
                ..IdleFilter::default()
            };
            let mut last = ONE;
            for util in 0..=u16::MAX {
                let chance = search_chance(&filter, util);
                assert!(chance <= last, "margin {margin}, utilisation {util}");
                let cut_off = u32::from(util.min(ONE)) * u32::from(margin) >= 102_400;
                assert!(!cut_off || chance == 0, "margin {margin}, utilisation {util}");
                last = chance;
            }
        }
    }

    #[test]
    fn searches_as_often_as_the_chance_says() {
        let filter = IdleFilter::default();
        let mut rng = Rng::new(7);
        let untouched = rng;
        assert!(searches(&filter, 0, &mut rng));
        assert!(!searches(&filter, 900, &mut rng));
        assert_eq!(rng, untouched);
        let count = (0..100_000).filter(|_| searches(&filter, 512, &mut rng));
        let expected = 100_000 * usize::from(search_chance(&filter, 512)) / 1024;
        assert!(count.count().abs_diff(expected) < 1_000);
    }

    #[test]
    fn utilisation_arrives_at_what_is_sampled() {
        let mut utilisation = Utilisation::default();
        for percent in [100, 0, 37, 85, 20, 0] {
            for _ in 0..100 {
                utilisation.sample(Nanos(percent), Nanos(100));
            }
            assert_eq!(u64::from(utilisation.get()), percent * 1024 / 100);
        }
        utilisation.sample(Nanos(u64::MAX), Nanos(1));
        assert_eq!(utilisation.get(), 256);
        utilisation.sample(Nanos(1), Nanos(0));
        assert_eq!(utilisation.get(), 256);
    }

    /// The regime after `probes` probes of which `met` of 8 met an idle worker, from the regime `mask`.
    fn regime(mask: bool, met: u32) -> bool {
        let filter = IdleFilter::default();
        let mut rate = ProbeRate {
            mask,
            ..ProbeRate::default()
        };
        for probe in 0..800_u32 {
            rate.record(probe % 8 < met);
        }
        rate.search(&filter, 900, Nanos::from_millis(10));
        rate.mask
    }

    #[test]
    fn the_regime_follows_the_probes_with_hysteresis() {
        for mask in [false, true] {
            assert!(!regime(mask, 8) && !regime(mask, 6), "{mask}");
            assert!(regime(mask, 0) && regime(mask, 1), "{mask}");
            assert_eq!(regime(mask, 3), mask);
        }
    }

    #[test]
    fn the_regime_is_decided_once_an_interval() {
        let filter = IdleFilter::default();
        let mut rate = ProbeRate::default();
        (0..100).for_each(|_| rate.record(true));
        assert_ne!(rate.search(&filter, 900, Nanos::from_millis(9)), Search::Probe);
        assert_eq!(rate.search(&filter, 900, Nanos::from_millis(10)), Search::Probe);
        (0..100).for_each(|_| rate.record(false));
        assert_eq!(rate.search(&filter, 900, Nanos::from_millis(19)), Search::Probe);
        assert_eq!(rate.search(&filter, 900, Nanos::from_millis(20)), Search::Mask);
    }

    #[test]
    fn a_light_load_never_stops_at_a_miss() {
        let filter = IdleFilter::default();
        let mut rate = ProbeRate::default();
        (0..100).for_each(|_| rate.record(true));
        for util in 0..=1024 {
            let search = rate.search(&filter, util, Nanos::from_millis(10));
            assert_eq!(search == Search::Probe, util >= 512, "{util}");
        }
    }

    #[test]
    fn the_mask_regime_goes_on_probing() {
        for (probe_every, expected) in [(1, 80), (8, 10), (40, 2)] {
            let filter = IdleFilter {
                probe_every,
                ..IdleFilter::default()
            };
            let mut rate = ProbeRate::default();
            let probes = (0..80).filter(|_| rate.search(&filter, 0, Nanos(0)) != Search::Mask);
            assert_eq!(probes.count(), expected, "one in {probe_every}");
        }
    }
}
