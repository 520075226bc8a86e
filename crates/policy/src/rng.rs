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
