//! Whether one worker gets more done than all of them: it is tried, and measured.
//!
//! Where all tasks talk to each other every message crosses from one CPU's cache to another's, and two workers may take half as long again as
//! one. No worker can tell from what it sees of itself: with two, polls are more, because each finds less to do. What tells is how far the program
//! comes, and that is counted: each message, read or expired timer spends a unit of its task's budget, and a task that gives way has done something, too. So where tasks are short, do what counts, and often run on another worker than
//! before, all but one hand over what they have and sleep, for a window; if that one gets more done alone it goes on for a while.
//!
//! The rule is a state machine that is told of one tally after the other:
//!
//! | stage | until | then |
//! |---|---|---|
//! | rests | its time has come | all are measured |
//! | all are measured | a window has passed | the others leave; or it rests, since it does not look like a gain |
//! | others leave | they sleep | one settles; or it rests, since they do not |
//! | one settles | half a window has passed | one is measured |
//! | one is measured | a window has passed | it goes on alone; or it rests for longer each time |
//! | goes on alone | it is over | it rests, for a moment |
//! | | what gets done is another than was, or by others | it rests, as after a trial in vain |

use crate::{Nanos, Solo};

/// So many windows pass before the next look at a program for which it is not worth a trial, or of which a window said nothing.
const LOOK: u64 = 8;
/// Units, or yields, are few if they are less than one of so many of all that counts, and then may be as many as they are.
const FEW: u64 = 16;
/// Else a gain is none if more than one of so many of them is lost.
const LOST: u64 = 8;
/// Times that a hold is doubled, and a pause.
const HOLDS: u32 = 6;
const PAUSES: u32 = 5;

/// What has been done since the runtime began, by all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoloTally {
    /// When it was counted, by the clock.
    pub at: Nanos,
    /// Workers of the runtime.
    pub workers: u32,
    /// Units of budgets that were spent, and tasks that have ended.
    pub units: u64,
    /// Times that a task gave way.
    pub yields: u64,
    /// Polls of tasks.
    pub polls: u64,
    /// Polls of tasks that another worker had polled before.
    pub moves: u64,
    /// Polls by the worker that counts.
    pub own_polls: u64,
    /// All others are asleep.
    pub others_sleep: bool,
    /// There are tasks, or user-level threads, that can't leave their worker.
    pub any_bound: bool,
}

/// Who works until the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SoloStep {
    /// All.
    All,
    /// The worker that has counted; the others hand over to it what they have, and sleep.
    Gathers,
    /// The worker that has counted; the others sleep unless something wakes them.
    Alone,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Rests,
    All {
        from: SoloTally,
    },
    Gathers {
        rates: Rates,
        since: Nanos,
    },
    Settles {
        rates: Rates,
        since: Nanos,
    },
    Alone {
        from: SoloTally,
        rates: Rates,
    },
    Holds {
        from: SoloTally,
        rates: Rates,
        until: Nanos,
    },
}

/// How much was done in a millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rates {
    units: u64,
    yields: u64,
}

impl Rates {
    /// From one tally to the next.
    fn of(from: &SoloTally, to: &SoloTally) -> Self {
        let time = to.at.since(from.at).0.max(1);
        let rate = |count: u64| count.saturating_mul(1_000_000) / time;
        Self {
            units: rate(to.units.wrapping_sub(from.units)),
            yields: rate(to.yields.wrapping_sub(from.yields)),
        }
    }

    fn done(&self) -> u64 {
        self.units.saturating_add(self.yields)
    }

    /// Whether no more than one of `div` is lost of either kind, unless there were few of it: what one takes may be as long as many of the other, and
    /// more of what is short is no gain.
    fn keeps(&self, before: &Self, div: u64) -> bool {
        let keeps = |now: u64, then: u64| then < before.done() / FEW || now >= then - then / div;
        keeps(self.units, before.units) && keeps(self.yields, before.yields)
    }

    /// Whether that is more by `config`.
    fn gains_on(&self, before: &Self, config: &Solo) -> bool {
        let done = before.done();
        let enough = done.saturating_add(done.saturating_mul(u64::from(config.gain)) / 100);
        self.done() > enough && self.keeps(before, LOST)
    }
}

/// All that counts, from one tally to the next.
fn done(from: &SoloTally, to: &SoloTally) -> u64 {
    let units = to.units.wrapping_sub(from.units);
    units.saturating_add(to.yields.wrapping_sub(from.yields))
}

/// The rule, and what it knows so far. One a runtime.
///
/// ```
/// use quadrille_policy::{Config, Nanos, SoloStep, SoloTally, SoloTrial};
///
/// let (config, mut trial) = (Config::default(), SoloTrial::default());
/// let mut tally = SoloTally { workers: 2, ..SoloTally::default() };
/// // A thousand polls in a window, of which each second was elsewhere before.
/// let mut window = |units: u64, others_sleep: bool| {
///     tally.units += units;
///     tally.polls += 1000;
///     tally.own_polls += 1000;
///     tally.moves += 500;
///     tally.others_sleep = others_sleep;
///     let (step, next) = trial.step(&tally, &config.solo);
///     tally.at = next;
///     step
/// };
/// assert_eq!(window(0, false), SoloStep::All);
/// assert_eq!(window(100_000, false), SoloStep::Gathers);
/// assert_eq!(window(1_000, true), SoloStep::Alone);
/// assert_eq!(window(75_000, true), SoloStep::Alone);
/// // One gets half as much again done: it goes on alone, for 20 ms.
/// for _ in 0..10 {
///     assert_eq!(window(150_000, true), SoloStep::Alone);
/// }
/// assert_eq!(window(150_000, true), SoloStep::All);
/// ```
#[derive(Debug, Default)]
pub struct SoloTrial {
    stage: Stage,
    /// How many holds in a row were right to their end, and trials in vain.
    right: u32,
    wrong: u32,
}

impl SoloTrial {
    /// A tally that comes more than so many windows after the one before ends what there was: the worker that goes on alone sleeps.
    pub const STALE: u64 = 4;

    /// What follows from the tally of now, and when the next is due.
    pub fn step(&mut self, now: &SoloTally, config: &Solo) -> (SoloStep, Nanos) {
        let (step, wait) = self.next(now, config);
        (step, Nanos(now.at.0.saturating_add(wait)))
    }

    fn next(&mut self, now: &SoloTally, config: &Solo) -> (SoloStep, u64) {
        let window = config.window.0;
        let passed = |from: Nanos| now.at.since(from).0;
        match self.stage {
            Stage::Rests => self.measures_all(now, window),
            Stage::All { from } if is_late(passed(from.at), window) => self.measures_all(now, window),
            Stage::All { from } if promises(&from, now, config) => {
                let rates = Rates::of(&from, now);
                self.stage = Stage::Gathers { rates, since: now.at };
                (SoloStep::Gathers, window / 16)
            }
            Stage::All { .. } => {
                self.right /= 2;
                self.rests(LOOK * window)
            }
            Stage::Gathers { since, .. } if passed(since) > Self::STALE * window => self.rests(LOOK * window),
            Stage::Gathers { rates, .. } if now.others_sleep => {
                self.stage = Stage::Settles { rates, since: now.at };
                (SoloStep::Alone, window / 2)
            }
            Stage::Gathers { since, .. } if passed(since) < window / 2 => (SoloStep::Gathers, window / 16),
            // The others find something to do.
            Stage::Gathers { .. } => self.was_wrong(config),
            // What waited meanwhile is done: it is no gain.
            Stage::Settles { since, .. } if is_late(passed(since), window) => self.rests(LOOK * window),
            Stage::Settles { rates, .. } => {
                self.stage = Stage::Alone { from: *now, rates };
                (SoloStep::Alone, window)
            }
            Stage::Alone { from, .. } if is_late(passed(from.at), window) => self.rests(LOOK * window),
            Stage::Alone { from, rates: before } => {
                let alone = Rates::of(&from, now);
                if !alone.gains_on(&before, config) || !is_alone(&from, now) {
                    return self.was_wrong(config);
                }
                let hold = config.hold.0.saturating_mul(1 << self.right.min(HOLDS));
                self.goes_on(now, alone, Nanos(now.at.0.saturating_add(hold)), window)
            }
            Stage::Holds { from, .. } if passed(from.at) > Self::STALE * window => {
                self.right = 0;
                self.rests(LOOK * window)
            }
            Stage::Holds { from, rates, .. } if !is_steady(&from, now, &rates) => self.was_wrong(config),
            Stage::Holds { until, .. } if now.at >= until => {
                self.right = self.right.saturating_add(1);
                self.wrong = 0;
                // Those who slept come back, and take some of the tasks again, before they are measured.
                self.rests(window / 2)
            }
            Stage::Holds { rates, until, .. } => self.goes_on(now, rates, until, window),
        }
    }

    fn measures_all(&mut self, now: &SoloTally, window: u64) -> (SoloStep, u64) {
        self.stage = Stage::All { from: *now };
        (SoloStep::All, window)
    }

    fn goes_on(&mut self, now: &SoloTally, rates: Rates, until: Nanos, window: u64) -> (SoloStep, u64) {
        self.stage = Stage::Holds {
            from: *now,
            rates,
            until,
        };
        (SoloStep::Alone, window)
    }

    fn rests(&mut self, wait: u64) -> (SoloStep, u64) {
        self.stage = Stage::Rests;
        (SoloStep::All, wait)
    }

    fn was_wrong(&mut self, config: &Solo) -> (SoloStep, u64) {
        let pause = config.pause.0.saturating_mul(1 << self.wrong.min(PAUSES));
        self.wrong = self.wrong.saturating_add(1);
        self.right = 0;
        self.rests(pause)
    }
}

/// Whether what was done between the two looks like work that one worker might do sooner.
fn promises(from: &SoloTally, to: &SoloTally, config: &Solo) -> bool {
    let polls = to.polls.wrapping_sub(from.polls);
    let moves = to.moves.wrapping_sub(from.moves);
    let time = to.at.since(from.at).0.saturating_mul(u64::from(to.workers));
    // Where polls do nothing that counts nobody can tell how far the program comes.
    let counts = done(from, to) >= polls;
    let is_short = polls > 0 && time / polls <= config.run.0;
    counts && is_short && moves.saturating_mul(u64::from(config.moves)) >= polls && !to.any_bound
}

/// Whether a window was longer than it should be: nobody looked up, so somebody was idle in it, or had no CPU.
fn is_late(passed: u64, window: u64) -> bool {
    passed > window.saturating_add(window / 4)
}

/// Whether others did next to nothing.
fn is_alone(from: &SoloTally, to: &SoloTally) -> bool {
    let polls = to.polls.wrapping_sub(from.polls);
    let others = polls.saturating_sub(to.own_polls.wrapping_sub(from.own_polls));
    others <= polls / 16
}

/// Whether a worker that goes on alone gets done what it got done when it was measured, and is alone.
fn is_steady(from: &SoloTally, to: &SoloTally, rates: &Rates) -> bool {
    let now = Rates::of(from, to);
    let most = rates.done().saturating_add(rates.done() / 2);
    now.done() < most && now.keeps(rates, 4) && is_alone(from, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A program that is told who works, and how much it gets done then.
    struct Program {
        trial: SoloTrial,
        config: Solo,
        tally: SoloTally,
        step: SoloStep,
        /// Units a millisecond with all workers, and with one.
        rates: [u64; 2],
        /// Of the units that many per cent are yields, with all workers and with one.
        yields: [u64; 2],
        /// Units a poll, and polls of which one moves while all work.
        units: u64,
        moves: u64,
        obeys: bool,
    }

    impl Program {
        fn new(rates: [u64; 2]) -> Self {
            Self {
                trial: SoloTrial::default(),
                config: Solo::default(),
                tally: SoloTally {
                    workers: 2,
                    ..SoloTally::default()
                },
                step: SoloStep::All,
                rates,
                yields: [0, 0],
                units: 10,
                moves: 2,
                obeys: true,
            }
        }

        /// Goes on until the next tally is due, and what follows.
        fn step(&mut self) -> SoloStep {
            let (step, next) = self.trial.step(&self.tally, &self.config);
            assert!(next > self.tally.at, "{:?}", self.trial);
            self.step = step;
            self.runs(next.since(self.tally.at));
            step
        }

        fn runs(&mut self, time: Nanos) {
            let alone = self.step != SoloStep::All && self.obeys;
            let units = self.rates[usize::from(alone)] * time.0 / 1_000_000;
            let polls = units / self.units;
            self.tally.at = Nanos(self.tally.at.0 + time.0);
            let yields = units * self.yields[usize::from(alone)] / 100;
            self.tally.units += units - yields;
            self.tally.yields += yields;
            self.tally.polls += polls;
            self.tally.own_polls += if alone { polls } else { polls / 2 };
            self.tally.moves += if alone { 0 } else { polls / self.moves };
            self.tally.others_sleep = alone;
        }

        /// Of so many milliseconds, how many were with one worker, and the times at which trials began, in milliseconds.
        fn alone(&mut self, millis: u64) -> (u64, Vec<u64>) {
            let end = self.tally.at.0 + millis * 1_000_000;
            let (mut alone, mut trials) = (0, Vec::new());
            while self.tally.at.0 < end {
                let (from, before) = (self.tally.at, self.step);
                let step = self.step();
                if step != SoloStep::All {
                    alone += self.tally.at.since(from).0;
                }
                if step == SoloStep::Gathers && before == SoloStep::All {
                    trials.push(from.0 / 1_000_000);
                }
            }
            (alone / 1_000_000, trials)
        }
    }

    #[test]
    fn who_gets_more_done_alone_goes_on_alone_for_longer_and_longer() {
        let (alone, trials) = Program::new([100_000, 150_000]).alone(10_000);
        // Each 4 ms of a trial, and twice as long a hold as before, up to 1.28 s.
        assert!(alone > 9_850, "{alone}");
        let holds: Vec<u64> = trials.windows(2).map(|two| two[1] - two[0]).collect();
        let expected = [20, 40, 80, 160, 320, 640, 1280, 1280, 1280];
        assert!(holds.len() >= expected.len(), "{holds:?}");
        for (hold, expected) in holds.iter().zip(expected) {
            assert!((expected..expected + 8).contains(hold), "{holds:?}");
        }
    }

    /// What tasks do for a unit, or before they give way, may be long: more of what is short is no gain then.
    #[test]
    fn who_does_less_of_one_kind_alone_gains_nothing() {
        let alone = |yields| {
            let mut program = Program::new([100_000, 150_000]);
            program.yields = yields;
            program.alone(10_000).0
        };
        // Yields are all, a half, and as many in a time as before but for an eighth; units are; and either is few.
        for yields in [[100, 100], [50, 50], [50, 30], [50, 70], [5, 0], [95, 100]] {
            assert!(alone(yields) > 9_850, "{yields:?}");
        }
        for yields in [[50, 29], [50, 0], [7, 0], [50, 71], [50, 100], [93, 100]] {
            assert!(alone(yields) < 60, "{yields:?}");
        }
    }

    /// Also in the middle of a hold: as much gets done, but of one kind alone.
    #[test]
    fn a_hold_ends_when_one_kind_is_lost() {
        for later in [0, 100] {
            let mut program = Program::new([100_000, 150_000]);
            program.config.hold = Nanos::from_millis(1_000);
            program.yields = [50, 50];
            while !matches!(program.trial.stage, Stage::Holds { .. }) {
                program.step();
            }
            assert_eq!(program.step(), SoloStep::Alone);
            program.yields[1] = later;
            assert!([program.step(), program.step()].contains(&SoloStep::All), "{later}");
        }
    }

    #[test]
    fn who_gets_less_done_alone_tries_less_and_less_often() {
        // The second gains, but too little.
        for one in [50_000, 109_000] {
            let (alone, trials) = Program::new([100_000, one]).alone(60_000);
            assert!(alone < 60, "{alone} of 60,000 ms");
            let pauses: Vec<u64> = trials.windows(2).map(|two| two[1] - two[0]).collect();
            for (pause, expected) in pauses.iter().zip([200, 400, 800, 1600, 3200, 6400, 6400]) {
                assert!((expected..expected + 8).contains(pause), "{pauses:?}");
            }
        }
    }

    #[test]
    fn nothing_is_tried_without_a_promise() {
        let promising = || Program::new([100_000, 150_000]);
        let with = |change: fn(&mut Program)| {
            let mut program = promising();
            change(&mut program);
            program.alone(1_000).1.len()
        };
        assert!(with(|_| {}) > 0);
        // Tasks stay where they are; are long; do nothing that counts; can't leave.
        assert_eq!(with(|program| program.moves = 17), 0);
        assert!(with(|program| program.moves = 16) > 0);
        assert_eq!(with(|program| program.units = 1_100), 0);
        assert_eq!(with(|program| program.rates = [0, 0]), 0);
        assert_eq!(with(|program| program.tally.any_bound = true), 0);
    }

    /// Polls of which nobody knows what they did.
    #[test]
    fn polls_that_spend_nothing_say_nothing() {
        let config = Solo::default();
        let tally = |at: u64, units: u64| SoloTally {
            at: Nanos::from_millis(at),
            workers: 2,
            units: units / 2,
            yields: units - units / 2,
            polls: at * 1000,
            moves: at * 1000,
            ..SoloTally::default()
        };
        for (units, step) in [(1_999, SoloStep::All), (2_000, SoloStep::Gathers)] {
            let mut trial = SoloTrial::default();
            trial.step(&tally(0, 0), &config);
            assert_eq!(trial.step(&tally(2, units), &config).0, step);
        }
    }

    #[test]
    fn others_that_do_not_leave_end_it() {
        let mut program = Program::new([100_000, 150_000]);
        program.obeys = false;
        let (_, trials) = program.alone(1_000);
        // After half a window each, and a pause.
        assert!((2..=4).contains(&trials.len()), "{trials:?}");
    }

    /// It gains in the trial, and then it does not.
    #[test]
    fn a_hold_that_breaks_counts_as_a_trial_in_vain() {
        let mut program = Program::new([100_000, 150_000]);
        let mut pauses = Vec::new();
        for _ in 0..3 {
            program.rates[1] = 150_000;
            while !matches!(program.trial.stage, Stage::Holds { .. }) {
                program.step();
            }
            program.rates[1] = 50_000;
            while program.step() != SoloStep::All {}
            let (_, next) = (program.step, program.tally.at);
            pauses.push(next.0);
        }
        let waits: Vec<u64> = pauses.windows(2).map(|two| (two[1] - two[0]) / 1_000_000).collect();
        assert!(
            (400..420).contains(&waits[0]) && (800..820).contains(&waits[1]),
            "{waits:?}"
        );
    }

    #[test]
    fn a_pause_while_it_settles_ends_it() {
        let mut program = Program::new([100_000, 150_000]);
        while !matches!(program.trial.stage, Stage::Settles { .. }) {
            program.step();
        }
        program.runs(Nanos::from_millis(2));
        assert_eq!(program.step(), SoloStep::All);
    }

    #[test]
    fn what_others_have_done_is_no_gain() {
        let mut program = Program::new([100_000, 150_000]);
        while !matches!(program.trial.stage, Stage::Alone { .. }) {
            program.step();
        }
        // A tenth of the polls.
        program.tally.polls += program.tally.polls / 10;
        program.step();
        assert!(matches!(program.trial.stage, Stage::Rests), "{:?}", program.trial);
    }

    #[test]
    fn who_is_alone_notices_that_the_program_has_changed() {
        type Change = fn(&mut Program);
        let changes: [Change; 4] = [
            // Less gets done, or more; somebody else works; nobody has counted for long.
            |program| program.rates[1] = 110_000,
            |program| program.rates[1] = 230_000,
            |program| program.obeys = false,
            |program| program.runs(Nanos::from_millis(9)),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut program = Program::new([100_000, 150_000]);
            program.config.hold = Nanos::from_millis(1_000);
            while !matches!(program.trial.stage, Stage::Holds { .. }) {
                program.step();
            }
            assert_eq!(program.step(), SoloStep::Alone);
            change(&mut program);
            // The window in which it changed may be half of the old.
            assert!([program.step(), program.step()].contains(&SoloStep::All), "{number}");
            assert!(
                matches!(program.trial.stage, Stage::Rests | Stage::All { .. }),
                "{number}"
            );
        }
    }

    /// Whatever it is told it answers, and never for when it was.
    #[test]
    fn any_tally_is_answered() {
        let mut rng = crate::Rng::new(7);
        let mut any = || (u64::from(rng.below(u32::MAX)) << 32) | u64::from(rng.below(u32::MAX));
        for config in [
            Solo::default(),
            Solo {
                window: Nanos(u64::MAX / 64),
                gain: u16::MAX,
                hold: Nanos(u64::MAX),
                pause: Nanos(u64::MAX),
                moves: u32::MAX,
                ..Solo::default()
            },
        ] {
            let mut trial = SoloTrial::default();
            for round in 0..10_000_u64 {
                let tally = SoloTally {
                    at: Nanos(if round % 2 == 0 { round * 1_000_000 } else { any() }),
                    workers: (any() % 3) as u32,
                    units: any(),
                    yields: any(),
                    polls: any(),
                    moves: any(),
                    own_polls: any(),
                    others_sleep: any() % 2 == 0,
                    any_bound: any() % 4 == 0,
                };
                let (step, next) = trial.step(&tally, &config);
                assert!(next >= tally.at);
                // Nobody is to leave without a tally that says so.
                assert!(step == SoloStep::All || !matches!(trial.stage, Stage::Rests | Stage::All { .. }));
            }
        }
    }
}
