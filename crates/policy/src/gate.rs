//! Success-proportional gates on the non-local levels of a search.
//!
//! From Peter Zijlstra's newidle balancing (Linux commit 33cf66d88306): a level where searches seldom find anything is
//! looked at seldom, by throwing dice. With ratio r = successes of the last 1024 calls:
//!
//! 1. a search looks with probability (1 + r)/1024; one that does not counts as a call without success;
//! 2. a success counts for 1024/(1 + r), so that r estimates what always looking would find;
//! 3. after 1024 calls, r becomes the successes, and calls and successes are halved;
//! 4. after 8 skips in a row ([`Skip::max_count`]) a search looks anyway; that one's success counts once, because it
//!    was certain to look.
//!
//! A gate is asked once a search and level, as the kernel asks once a domain, and not for each cache of the level: a
//! closed one would let every 9th look pass, which with three caches is always at the same.
//!
//! A gate only delays. A worker's final look before it parks asks none, and neither does the search that it goes on
//! with if it has seen something; nor does a rescuer. So nobody sleeps because of a gate, and the last searcher finds
//! what there is one search later at most. What such a search finds counts once, as in 4.
//!
//! The own cache has no gate, although the kernel gates that too: the final look goes there in any case, and mates that
//! pass work to each other would have to search twice for it. DESIGN.md has figures.

use crate::{
    Rng,
    config::{Skip, Steal},
};

/// How far away a searcher looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The searcher's own group. It has no gate.
    Group,
    /// Its last-level cache. It has no gate.
    Llc,
    /// Its NUMA node.
    Node,
    /// The rest of the machine.
    Machine,
}

/// One gate a level, kept by a worker for itself. The default is open: every search looks everywhere.
///
/// ```
/// use quadrille_policy::{Gates, Level, Rng, Skip, Steal};
///
/// let mut rng = Rng::new(1);
/// let mut gates = Gates::new(&Steal::default(), &Skip::default());
/// if gates.attempt(Level::Node, &mut rng) {
///     let found = false; // … look there …
///     gates.record(Level::Node, found);
/// }
/// assert!(Gates::default().attempt(Level::Machine, &mut rng));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// For Node and Machine; `None`: open.
    gates: Option<[Gate; 2]>,
}

impl Gates {
    /// Gates that start as configured, whatever [`Steal::gates`] says;
    /// [`Policy::new_gates`](crate::Policy::new_gates) asks that too.
    #[must_use]
    pub fn new(steal: &Steal, skip: &Skip) -> Self {
        Self {
            gates: Some([Gate::new(steal, skip); 2]),
        }
    }

    /// Whether to look at `level` in this search. If so, [`Gates::record`] must be told what came of it.
    #[inline]
    pub fn attempt(&mut self, level: Level, rng: &mut Rng) -> bool {
        self.of(level).is_none_or(|gate| gate.attempt(rng))
    }

    /// This search looks at `level` whatever the gate would say: a rescue, or one that goes for what was seen.
    /// [`Gates::record`] must be told what came of it.
    #[inline]
    pub fn force(&mut self, level: Level) {
        if let Some(gate) = self.of(level) {
            gate.force();
        }
    }

    /// Tells the gate whether a search that looked at `level` found something there.
    #[inline]
    pub fn record(&mut self, level: Level, found: bool) {
        if let Some(gate) = self.of(level) {
            gate.record(found);
        }
    }

    #[inline]
    fn of(&mut self, level: Level) -> Option<&mut Gate> {
        let [node, machine] = self.gates.as_mut()?;
        match level {
            Level::Group | Level::Llc => None,
            Level::Node => Some(node),
            Level::Machine => Some(machine),
        }
    }
}

/// Calls after which the ratio is renewed; the kernel's. Not configured: it is also the unit of the ratio, which is
/// told in 1/1024.
const PERIOD: u16 = 1024;

/// One success.
const ONE: u32 = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gate {
    calls: u16,
    /// In 1/1024, and credited: up to 1024 a call, hence below 2^31.
    successes: u32,
    /// 1 + the success ratio of the last period: 1 to 1024.
    weight: u16,
    /// What a success that dice allowed counts, in 1/1024. Whole numbers would do for small ratios only: from 683 on
    /// the nearest is 1, and the ratio could not grow.
    credit: u32,
    /// What a success of the current attempt counts, in 1/1024.
    stake: u32,
    skips: u8,
    skips_max: u8,
}

impl Gate {
    fn new(steal: &Steal, skip: &Skip) -> Self {
        let mut gate = Self {
            calls: PERIOD / 2,
            successes: u32::from(steal.gate_start) * ONE / 2,
            weight: 0,
            credit: 0,
            stake: 0,
            skips: 0,
            skips_max: skip.max_count,
        };
        gate.set_ratio(u32::from(steal.gate_start));
        gate
    }

    fn set_ratio(&mut self, ratio: u32) {
        self.weight = 1 + u16::try_from(ratio).unwrap_or(PERIOD).min(PERIOD - 1);
        self.credit = u32::from(PERIOD) * ONE / u32::from(self.weight);
    }

    #[inline]
    fn attempt(&mut self, rng: &mut Rng) -> bool {
        if rng.below(u32::from(PERIOD)) < u32::from(self.weight) {
            self.stake = self.credit;
            self.skips = 0;
        } else if self.skips >= self.skips_max {
            self.force();
        } else {
            self.skips += 1;
            self.count(0);
            return false;
        }
        true
    }

    #[inline]
    fn force(&mut self) {
        self.stake = ONE;
        self.skips = 0;
    }

    #[inline]
    fn record(&mut self, found: bool) {
        self.count(if found { self.stake } else { 0 });
    }

    #[inline]
    fn count(&mut self, successes: u32) {
        self.calls += 1;
        self.successes += successes;
        if self.calls >= PERIOD {
            self.set_ratio(self.successes / ONE);
            self.calls /= 2;
            self.successes /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates() -> Gates {
        Gates::new(&Steal::default(), &Skip::default())
    }

    /// Share (1/1024) of searches that look, once a level finds something in `found_of_1024` of all looks.
    fn share(found_of_1024: u32, seed: u64) -> u32 {
        let (mut gates, mut rng) = (gates(), Rng::new(seed));
        let mut attempts = 0;
        for call in 0..200_000 {
            if gates.attempt(Level::Node, &mut rng) {
                attempts += u32::from(call >= 100_000);
                let found = rng.below(1024) < found_of_1024;
                gates.record(Level::Node, found);
            }
        }
        attempts * 1024 / 100_000
    }

    #[test]
    fn looks_as_often_as_it_finds() {
        for seed in 1..=8 {
            for found in [256, 512, 768] {
                let share = share(found, seed);
                assert!(share.abs_diff(found) < 128, "seed {seed}: {share} for {found}");
            }
            assert!(share(1024, seed) > 1000, "seed {seed}");
            // Never less than once in 9 searches.
            let least = share(0, seed);
            assert!((113..=118).contains(&least), "seed {seed}: {least}");
        }
    }

    #[test]
    fn the_estimate_is_unbiased_even_where_little_is_found() {
        let mut total = 0;
        for seed in 1..=64 {
            let (mut gates, mut rng) = (gates(), Rng::new(seed));
            for _ in 0..50_000 {
                if gates.attempt(Level::Node, &mut rng) {
                    gates.record(Level::Node, rng.below(1024) < 100);
                }
            }
            total += u32::from(gates.of(Level::Node).unwrap().weight - 1);
        }
        assert!((total / 64).abs_diff(100) < 30, "{}", total / 64);
    }

    #[test]
    fn at_most_eight_skips_in_a_row() {
        let (mut gates, mut rng) = (gates(), Rng::new(3));
        let (mut skips, mut most) = (0, 0);
        for _ in 0..50_000 {
            if gates.attempt(Level::Machine, &mut rng) {
                gates.record(Level::Machine, false);
                skips = 0;
            } else {
                skips += 1;
                most = skips.max(most);
            }
        }
        assert_eq!(most, 8);
    }

    #[test]
    fn a_search_that_asks_no_gate_counts_once() {
        let weight = |force: bool| {
            let (mut gates, mut rng) = (gates(), Rng::new(5));
            let mut looks = 0;
            while looks < 50_000 {
                if force {
                    gates.force(Level::Node);
                } else if !gates.attempt(Level::Node, &mut rng) {
                    continue;
                }
                looks += 1;
                gates.record(Level::Node, rng.below(1024) < 100);
            }
            u32::from(gates.of(Level::Node).unwrap().weight - 1)
        };
        for force in [true, false] {
            assert!(weight(force).abs_diff(100) < 40, "{force}: {}", weight(force));
        }
        // It ends a row of skips.
        let (mut gates, mut rng) = (
            Gates::new(
                &Steal {
                    gate_start: 0,
                    ..Steal::default()
                },
                &Skip::default(),
            ),
            Rng::new(1),
        );
        for _ in 0..4 {
            let row = (0..8).filter(|_| gates.attempt(Level::Machine, &mut rng)).count();
            assert_eq!(row, 0);
            gates.force(Level::Machine);
            gates.record(Level::Machine, false);
        }
    }

    #[test]
    fn the_own_cache_and_open_gates_are_always_looked_at() {
        let mut rng = Rng::new(1);
        let untouched = rng;
        for level in [Level::Group, Level::Llc, Level::Node, Level::Machine] {
            for _ in 0..3_000 {
                assert!(level > Level::Llc || gates().attempt(level, &mut rng));
                let mut open = Gates::default();
                assert!(open.attempt(level, &mut rng));
                open.record(level, false);
            }
        }
        assert_eq!(rng, untouched);
    }

    #[test]
    fn starts_like_the_kernel() {
        let gate = Gate::new(&Steal::default(), &Skip::default());
        assert_eq!(
            (gate.calls, gate.successes, gate.weight, gate.credit),
            (512, 256 * ONE, 513, 2044)
        );
        let mut gate = Gate::new(
            &Steal {
                gate_start: 0,
                ..Steal::default()
            },
            &Skip::default(),
        );
        assert_eq!((gate.weight, gate.credit), (1, 1024 * ONE));
        gate.set_ratio(u32::MAX);
        assert_eq!((gate.weight, gate.credit), (1024, ONE));
    }
}
