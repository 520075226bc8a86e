//! Whether stealing pays: from a victim whose tasks end at once, it costs more than it takes over.
//!
//! A stolen task drags its cache lines along: header, body and result come from the victim's cache, and whoever joins it
//! fetches them back. If it then runs for nanoseconds and is gone, both workers have done more than one alone would. If it
//! stays, and runs again and again, the same move was cheap. Nothing tells beforehand, so a thief looks back when what it
//! took is used up: it ran each task about once, for less than a move costs ([`Steal::move_cost`]). The second time in a
//! row it leaves that victim alone for a while ([`Steal::pause`]). What is stuck there is rescued as ever.
//!
//! Not from a paper, and off by default. Tasks that are spawned and joined, a thousand at a time, took 1.13 times as long on
//! two workers as on one without it and 1.02 times with it; an hour later, on the same virtual machine, 0.84 without and 1.04
//! with it. How far apart the host had put the two CPUs decided, which the length of a haul does not tell.

use crate::{Nanos, WorkerId, config::Steal};

/// Times in a row that stealing did not pay before the victim is left alone.
const CHEAP_MAX: u8 = 2;

/// What a thief took, once it is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Haul {
    /// From whom.
    pub victim: WorkerId,
    /// Tasks taken.
    pub tasks: u32,
    /// Polls that the thief has made since.
    pub polls: u64,
    /// Time since.
    pub elapsed: Nanos,
}

/// What one worker has learned about its hauls.
///
/// ```
/// use quadrille_policy::{Haul, Nanos, Profit, Steal, WorkerId};
///
/// let haul = Haul {
///     victim: WorkerId(1),
///     tasks: 100,
///     polls: 100,
///     elapsed: Nanos(2_000),
/// };
/// let steal = Steal {
///     move_cost: Nanos(250),
///     ..Steal::default()
/// };
/// let mut profit = Profit::default();
/// assert_eq!(profit.pause(&steal, &haul), None);
/// assert_eq!(profit.pause(&steal, &haul), Some(Nanos::from_millis(1)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profit {
    /// Hauls in a row that did not pay.
    cheap: u8,
}

impl Profit {
    /// Takes a haul into account. For how long the thief, and everybody else, should leave the victim alone, if at all.
    pub fn pause(&mut self, steal: &Steal, haul: &Haul) -> Option<Nanos> {
        let once = haul.polls <= 2 * u64::from(haul.tasks);
        let short = haul.elapsed.0 < steal.move_cost.0.saturating_mul(haul.polls);
        if !(once && short) {
            self.cheap = 0;
            return None;
        }
        self.cheap = (self.cheap + 1).min(CHEAP_MAX);
        (self.cheap == CHEAP_MAX).then_some(steal.pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn far_apart() -> Steal {
        Steal {
            move_cost: Nanos(250),
            ..Steal::default()
        }
    }

    /// What comes of two hauls in a row, the second as given.
    fn check(tasks: u32, polls: u64, elapsed: u64, pays: bool) {
        let steal = far_apart();
        let haul = |tasks, polls, elapsed| Haul {
            victim: WorkerId(3),
            tasks,
            polls,
            elapsed: Nanos(elapsed),
        };
        let mut profit = Profit::default();
        assert_eq!(profit.pause(&steal, &haul(1, 1, 0)), None);
        let pause = profit.pause(&steal, &haul(tasks, polls, elapsed));
        assert_eq!(pause.is_none(), pays, "{tasks} tasks, {polls} polls, {elapsed} ns");
        assert_eq!(profit.cheap == 0, pays);
    }

    #[test]
    fn it_pays_if_tasks_run_again_or_for_longer_than_a_move_takes() {
        check(100, 100, 24_999, false);
        check(100, 100, 25_000, true);
        check(100, 200, 24_999, false);
        check(100, 201, 24_999, true);
        check(1, 1, 249, false);
        check(1, 1, 250, true);
        check(u32::MAX, u64::MAX, u64::MAX, true);
    }

    #[test]
    fn every_further_cheap_haul_prolongs_the_pause_and_one_that_pays_ends_it() {
        let steal = far_apart();
        let mut haul = Haul {
            victim: WorkerId(0),
            tasks: 8,
            polls: 8,
            elapsed: Nanos(100),
        };
        let mut profit = Profit::default();
        let pauses: [bool; 4] = core::array::from_fn(|_| profit.pause(&steal, &haul).is_some());
        assert_eq!(pauses, [false, true, true, true]);
        haul.polls = 1000;
        assert_eq!(profit.pause(&steal, &haul), None);
        haul.polls = 8;
        assert_eq!(profit.pause(&steal, &haul), None);
    }

    #[test]
    fn a_move_that_costs_nothing_always_pays() {
        let steal = Steal::default();
        let haul = Haul {
            victim: WorkerId(0),
            tasks: 8,
            polls: 8,
            elapsed: Nanos(0),
        };
        let mut profit = Profit::default();
        assert!((0..9).all(|_| profit.pause(&steal, &haul).is_none()));
    }
}
