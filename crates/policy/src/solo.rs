//! Whether one worker gets more done than all of them: it is tried, and measured.
//!
//! Where all tasks talk to each other every message crosses from one CPU's cache to another's, and two workers may take
//! half as long again as one. No worker can tell from what it sees of itself: with two, polls are more, because each
//! finds less to do. What tells is how far the program comes, and that is counted: each message, read or expired timer
//! spends a unit of its task's budget, and a task that gives way has done something, too. So where tasks are short, do
//! what counts, and often run on another worker than before, all but one hand over what they have and sleep, for a
//! window; if that one gets more done alone it goes on for a while.
//!
//! The rule is a state machine that is told of one tally after the other:
//!
//! | stage | until | then |
//! |---|---|---|
//! | rests | its time has come | all are measured |
//! | all are measured | a window has passed | the others leave; or it rests, since it does not look like a gain, or was none lately |
//! | others leave | they sleep | one settles; or it rests, since they do not |
//! | one settles | half a window has passed | one is measured, or goes on alone if it did before; or it rests, since it was late |
//! | one is measured | a window has passed | it goes on alone; or it rests for longer each time; or it was late |
//! | goes on alone | it is over | it rests, for a moment |
//! | | less gets done than was, or by others, or it is late while others leave | others leave once more; the third time in a row it rests, as after a trial in vain |
//! | | half as much again gets done | it rests, as after a trial in vain |
//! | any in which others leave | they go on polling | it rests, as after a trial in vain |
//!
//! A host that others use takes a CPU away for milliseconds. Then less gets done in a window, those who were to leave
//! are in the middle of a poll, and others rescue what the one has: all that says nothing of the program. So who goes
//! on alone is doubted before it is given up, and who does not poll is waited for.

use crate::{Nanos, Solo};

/// So many windows pass before the next look at a program for which it is not worth a trial, or of which a window said
/// nothing.
const LOOK: u64 = 8;
/// Units, or yields, are few if they are less than one of so many of all that counts, and then may be as many as they
/// are.
const FEW: u64 = 16;
/// Else a gain is none if more than one of so many of them is lost.
const LOST: u64 = 8;
/// Who gained nothing is tried before its time only if it would gain so many per cent more than it must.
const MORE: u64 = 20;
/// Looks in a row that find others polling while they are to leave, by which they won't.
const BUSY: u32 = 8;
/// Unlike windows in a row by which a hold is over.
const DOUBTS: u32 = 3;
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
        /// What they got done in the window before, if that was little.
        little: Option<Rates>,
    },
    Gathers {
        since: Nanos,
        last: SoloTally,
        /// Looks in a row, up to now, that found others polling.
        busy: u32,
        goal: Goal,
    },
    Settles {
        since: Nanos,
        goal: Goal,
    },
    Alone {
        from: SoloTally,
        trial: Trial,
    },
    Holds {
        from: SoloTally,
        hold: Hold,
    },
}

/// What others leave for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    Measure(Trial),
    GoOn(Hold),
}

/// What one is measured against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trial {
    all: Rates,
    /// It comes before its time.
    is_early: bool,
}

/// A time that is spent alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hold {
    one: Rates,
    until: Nanos,
    /// Windows, up to now, in which it wasn't like that.
    doubts: u32,
    is_early: bool,
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

    /// Whether no more than one of `div` is lost of either kind, unless there were few of it: what one takes may be as
    /// long as many of the other, and more of what is short is no gain.
    fn keeps(&self, before: &Self, div: u64) -> bool {
        let keeps = |now: u64, then: u64| then < before.done() / FEW || now >= then - then / div;
        keeps(self.units, before.units) && keeps(self.yields, before.yields)
    }

    /// Whether it is half as much again: another program than was measured.
    fn is_another(&self, before: &Self) -> bool {
        self.done() >= before.done().saturating_add(before.done() / 2)
    }

    /// Whether it is more by so many per cent, and no less of either kind.
    fn gains_on(&self, before: &Self, percent: u64) -> bool {
        let done = before.done();
        let enough = done.saturating_add(done.saturating_mul(percent) / 100);
        self.done() > enough && self.keeps(before, LOST)
    }
}

/// Twice as long, so many times.
fn doubled(time: u64, times: u32) -> u64 {
    time.saturating_mul(1 << times)
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
    /// How often others were waited for in vain, or the one came late, since there was a result.
    vain: u32,
    /// One gained nothing and got this done: until then it is tried again only if all get so little done that it would
    /// gain more than it must.
    pause: Option<(Nanos, Rates)>,
}

impl SoloTrial {
    /// A tally that comes more than so many windows after the one before ends what there was: the worker that goes on
    /// alone sleeps.
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
            Stage::Rests => self.measures_all(now, None, window),
            Stage::All { from, .. } if is_late(passed(from.at), window) => self.measures_all(now, None, window),
            Stage::All { from, little } if promises(&from, now, config) => {
                self.tries(now, Rates::of(&from, now), little, config)
            }
            Stage::All { .. } => {
                self.right /= 2;
                self.rests(window.saturating_mul(LOOK))
            }
            Stage::Gathers { since, last, goal, .. }
                if passed(since) > window.saturating_mul(Self::STALE) || passed(last.at) > window =>
            {
                self.waits(goal, passed(since), now, config)
            }
            Stage::Gathers { goal, .. } if now.others_sleep => {
                self.stage = Stage::Settles { since: now.at, goal };
                (SoloStep::Alone, window / 2)
            }
            Stage::Gathers {
                since,
                last,
                busy,
                goal,
            } => {
                let busy = if is_alone(&last, now) { 0 } else { busy + 1 };
                // The others find something to do.
                if busy >= BUSY {
                    return self.was_wrong(config);
                }
                self.stage = Stage::Gathers {
                    since,
                    last: *now,
                    busy,
                    goal,
                };
                (SoloStep::Gathers, window / 16)
            }
            // What waited meanwhile is done: it is no gain.
            Stage::Settles { since, goal } if is_late(passed(since), window) => {
                self.waits(goal, passed(since), now, config)
            }
            Stage::Settles { goal, .. } => match goal {
                Goal::Measure(trial) => {
                    self.stage = Stage::Alone { from: *now, trial };
                    (SoloStep::Alone, window)
                }
                Goal::GoOn(hold) if now.at >= hold.until => self.rests(window / 2),
                Goal::GoOn(hold) => self.goes_on(now, hold, window),
            },
            Stage::Alone { from, .. } if is_late(passed(from.at), window) => self.was_in_vain(window),
            Stage::Alone { from, trial } => self.compares(&from, trial, now, config),
            Stage::Holds { from, .. } if passed(from.at) > window.saturating_mul(Self::STALE) => {
                self.right = 0;
                self.rests(window.saturating_mul(LOOK))
            }
            Stage::Holds { from, hold } => self.holds(&from, hold, now, config),
        }
    }

    /// All have been measured, and it looks like a gain.
    fn tries(&mut self, now: &SoloTally, all: Rates, little: Option<Rates>, config: &Solo) -> (SoloStep, u64) {
        let window = config.window.0;
        let trial = |all, is_early| Goal::Measure(Trial { all, is_early });
        let Some((end, one)) = self.pause.filter(|(end, _)| now.at < *end) else {
            return self.gathers(now, trial(all, false), window);
        };
        if !one.gains_on(&all, u64::from(config.gain) + MORE) {
            return self.watches(now, end, window);
        }
        let Some(before) = little else {
            // They may have had no CPU.
            return self.measures_all(now, Some(all), window);
        };
        let better = if before.done() > all.done() { before } else { all };
        self.gathers(now, trial(better, true), window)
    }

    /// One has been measured.
    fn compares(&mut self, from: &SoloTally, trial: Trial, now: &SoloTally, config: &Solo) -> (SoloStep, u64) {
        let (one, window) = (Rates::of(from, now), config.window.0);
        if !is_alone(from, now) {
            return self.was_wrong(config);
        }
        self.vain = 0;
        if !one.gains_on(&trial.all, config.gain.into()) {
            let end = Nanos(now.at.0.saturating_add(self.pauses(config)));
            self.pause = Some((end, one));
            return self.watches(now, end, window);
        }
        self.pause = None;
        let time = doubled(config.hold.0, self.right.min(HOLDS));
        let hold = Hold {
            one,
            until: Nanos(now.at.0.saturating_add(time)),
            doubts: 0,
            is_early: trial.is_early,
        };
        self.goes_on(now, hold, window)
    }

    /// One has gone on alone for a window.
    fn holds(&mut self, from: &SoloTally, hold: Hold, now: &SoloTally, config: &Solo) -> (SoloStep, u64) {
        let window = config.window.0;
        let rates = Rates::of(from, now);
        if rates.is_another(&hold.one) {
            return self.was_wrong(config);
        }
        if !rates.keeps(&hold.one, 4) || !is_alone(from, now) {
            return self.doubts(hold, now, config);
        }
        if now.at < hold.until {
            return self.goes_on(now, Hold { doubts: 0, ..hold }, window);
        }
        self.right = self.right.saturating_add(1);
        // What comes early may have come for want of a CPU.
        self.wrong = if hold.is_early { self.wrong / 2 } else { 0 };
        // Those who slept come back, and take some of the tasks again, before they are measured.
        self.rests(window / 2)
    }

    /// Something was unlike the hold.
    fn doubts(&mut self, hold: Hold, now: &SoloTally, config: &Solo) -> (SoloStep, u64) {
        let (doubts, window) = (hold.doubts + 1, config.window.0);
        if doubts >= DOUBTS {
            self.was_wrong(config)
        } else if now.at >= hold.until {
            self.rests(window / 2)
        } else {
            self.gathers(now, Goal::GoOn(Hold { doubts, ..hold }), window)
        }
    }

    /// Others are waited for in vain, or who waits came late: it had no CPU, and they may have rescued what it has.
    fn waits(&mut self, goal: Goal, passed: u64, now: &SoloTally, config: &Solo) -> (SoloStep, u64) {
        match goal {
            Goal::GoOn(hold) if passed <= config.window.0.saturating_mul(Self::STALE) => self.doubts(hold, now, config),
            _ => self.was_in_vain(config.window.0),
        }
    }

    /// Nothing is known of the program by it.
    fn was_in_vain(&mut self, window: u64) -> (SoloStep, u64) {
        let rest = doubled(window.saturating_mul(LOOK), self.vain.min(PAUSES));
        self.vain = self.vain.saturating_add(1);
        self.rests(rest)
    }

    fn measures_all(&mut self, now: &SoloTally, little: Option<Rates>, window: u64) -> (SoloStep, u64) {
        self.stage = Stage::All { from: *now, little };
        (SoloStep::All, window)
    }

    fn gathers(&mut self, now: &SoloTally, goal: Goal, window: u64) -> (SoloStep, u64) {
        self.stage = Stage::Gathers {
            since: now.at,
            last: *now,
            busy: 0,
            goal,
        };
        (SoloStep::Gathers, window / 16)
    }

    fn goes_on(&mut self, now: &SoloTally, hold: Hold, window: u64) -> (SoloStep, u64) {
        self.stage = Stage::Holds { from: *now, hold };
        (SoloStep::Alone, window)
    }

    fn rests(&mut self, wait: u64) -> (SoloStep, u64) {
        self.stage = Stage::Rests;
        (SoloStep::All, wait)
    }

    fn was_wrong(&mut self, config: &Solo) -> (SoloStep, u64) {
        let pause = self.pauses(config);
        self.rests(pause)
    }

    /// For how long nothing is tried after a trial in vain.
    fn pauses(&mut self, config: &Solo) -> u64 {
        let pause = doubled(config.pause.0, self.wrong.min(PAUSES));
        self.wrong = self.wrong.saturating_add(1);
        self.right = 0;
        self.pause = None;
        pause
    }

    /// Until `end` all are measured now and then.
    fn watches(&mut self, now: &SoloTally, end: Nanos, window: u64) -> (SoloStep, u64) {
        let look = doubled(window.saturating_mul(LOOK), self.wrong.saturating_sub(1).min(PAUSES));
        self.rests(look.min(end.since(now.at).0))
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

/// Whether others did next to nothing. Both tallies are the same worker's: another counts only when the window says
/// nothing any more, which is asked first.
fn is_alone(from: &SoloTally, to: &SoloTally) -> bool {
    let polls = to.polls.wrapping_sub(from.polls);
    let others = polls.saturating_sub(to.own_polls.wrapping_sub(from.own_polls));
    others <= polls / 16
}

#[cfg(test)]
mod tests;
