//! Random numbers from a seed: the same for every runtime and run.

use std::time::Duration;

/// SplitMix64 (Steele, Lea, Flood 2014): a counter and a mix; the Go program has the same.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `from` to `to`, both included.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.number() % (to - from + 1)
    }

    /// The time until the next event of those that come independently of each other, one a `mean` on average.
    #[expect(clippy::cast_precision_loss, reason = "53 bits of a random number")]
    pub fn until_next(&mut self, mean: Duration) -> Duration {
        // From 2^-53 to 1, so that there is a logarithm.
        let fraction = ((self.number() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        mean.mul_f64(-fraction.ln())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_sequence() {
        // The first outputs of the published algorithm for seed 0.
        let mut random = Random::new(0);
        assert_eq!(
            [random.number(), random.number()],
            [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]
        );
    }

    #[test]
    fn numbers_stay_within_and_reach_both_ends() {
        let mut random = Random::new(1);
        let seen: Vec<u64> = (0..200).map(|_| random.between(3, 5)).collect();
        assert!((3..=5).all(|number| seen.contains(&number)) && seen.iter().all(|number| (3..=5).contains(number)));
    }

    #[test]
    fn events_come_at_their_rate() {
        let (mut random, mean) = (Random::new(7), Duration::from_micros(100));
        let all: Duration = (0..10_000).map(|_| random.until_next(mean)).sum();
        let off = all.as_secs_f64() / 1.0 - 1.0;
        assert!(off.abs() < 0.05, "{all:?} for 10,000 events of 100 us");
    }
}
