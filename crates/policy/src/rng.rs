//! A small pseudo-random generator; its seed is an argument.

/// xorshift64*: eight bytes of state, a few instructions a number. Not for secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rng(u64);

impl Rng {
    /// A generator from `seed`; zero, which the recurrence can't leave, is replaced.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(if seed == 0 { 0x9E37_79B9_7F4A_7C15 } else { seed })
    }

    /// Generator `number` of those that `seed` determines: unlike those of neighbouring seeds, they have nothing in
    /// common from their first numbers on (the finalizer of splitmix64).
    ///
    /// ```
    /// use quadrille_policy::Rng;
    ///
    /// assert_eq!(Rng::nth(7, 1), Rng::nth(7, 1));
    /// assert_ne!(Rng::nth(7, 1), Rng::nth(7, 2));
    /// ```
    #[must_use]
    pub const fn nth(seed: u64, number: u64) -> Self {
        let mut bits = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self::new(bits ^ (bits >> 31))
    }

    /// The next 32 bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    }

    /// A number in `0..bound`, `0` if `bound` is zero (multiply-shift; the bias is below 2^-32 * bound).
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.next_u32()) * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_everything() {
        let numbers = |seed| {
            let mut rng = Rng::new(seed);
            core::array::from_fn::<u32, 8, _>(|_| rng.next_u32())
        };
        assert_eq!(numbers(5), numbers(5));
        assert_ne!(numbers(5), numbers(6));
        // xorshift cannot leave zero.
        assert_ne!(numbers(0), [0; 8]);
    }

    /// Neither neighbouring numbers nor neighbouring seeds begin alike.
    #[test]
    fn generators_of_a_seed_begin_differently() {
        for seed in [0, 1, 0x5EED, u64::MAX] {
            let ones = (0..1_000).map(|number| Rng::nth(seed, number).below(2)).sum::<u32>();
            assert!((400..600).contains(&ones), "seed {seed}: {ones}");
        }
        let ones = (0..1_000).map(|seed| Rng::nth(seed, 0).below(2)).sum::<u32>();
        assert!((400..600).contains(&ones), "{ones}");
    }

    #[test]
    fn below_reaches_every_number_below_its_bound() {
        let mut rng = Rng::new(9);
        assert_eq!((rng.below(0), rng.below(1)), (0, 0));
        let mut seen = [0; 7];
        for _ in 0..7_000 {
            seen[rng.below(7) as usize] += 1;
        }
        assert!(
            seen.iter().all(|&count: &i32| (800..1_200).contains(&count)),
            "{seen:?}"
        );
    }
}
