//! What share of time something runs, with what is past counting half every 32 ms, as the kernel tracks load (PELT).

use quadrille_policy::Nanos;

/// Time is taken in pieces of this; what lies longer ago than a piece counts by so much less.
const PERIOD_NS: u64 = 1 << 20;

/// A half to the power of 1/32, in 1/65536.
const DECAY: u64 = 64_132;

/// After so many periods nothing of the past is left.
const PERIODS_MAX: u64 = 512;

/// A share of time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    /// In 1/65536.
    value: u64,
    /// Up to when it has been told.
    until: Nanos,
    /// Of the period that `until` lies in.
    ran: u64,
    runs: bool,
}

impl Share {
    /// It runs or does not from `now` on.
    pub(super) fn set(&mut self, now: Nanos, runs: bool) {
        self.pass(now);
        self.runs = runs;
    }

    /// The share as of `now`, in 1/1024.
    pub(super) fn get(&mut self, now: Nanos) -> u64 {
        self.pass(now);
        self.value >> 6
    }

    fn pass(&mut self, now: Nanos) {
        let oldest = now.0.saturating_sub(PERIODS_MAX * PERIOD_NS);
        self.until.0 = self.until.0.max(oldest);
        while self.until < now {
            let end = (self.until.0 / PERIOD_NS + 1) * PERIOD_NS;
            let part = end.min(now.0) - self.until.0;
            self.ran += if self.runs { part } else { 0 };
            self.until.0 += part;
            if self.until.0 == end {
                let share = (std::mem::take(&mut self.ran) << 16) / PERIOD_NS;
                self.value = (self.value * DECAY + share * ((1 << 16) - DECAY)) >> 16;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_forgotten_in_32_periods() {
        let mut share = Share::default();
        let at = |periods: u64| Nanos(periods * PERIOD_NS);
        share.set(at(0), true);
        for (periods, least) in [(32, 508), (64, 762), (400, 1_018)] {
            let got = share.get(at(periods));
            assert!((least..=least + 6).contains(&got), "{got} after {periods}");
        }
        share.set(at(400), false);
        assert!((503..=512).contains(&share.get(at(432))), "{}", share.get(at(432)));
        assert_eq!(share.get(at(100_000)), 0);
    }

    #[test]
    fn what_runs_by_turns_has_its_share() {
        let mut share = Share::default();
        for turn in 0..4_000 {
            share.set(Nanos(turn * 100_000), turn % 4 == 0);
        }
        let got = share.get(Nanos(400_000_000));
        assert!((246..=262).contains(&got), "{got}");
    }
}
