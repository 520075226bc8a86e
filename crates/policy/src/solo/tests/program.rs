//! A program that gets done what it is told, and what disturbs it.

use super::*;

/// A program that is told who works, and how much it gets done then.
pub(super) struct Program {
    pub(super) trial: SoloTrial,
    pub(super) config: Solo,
    pub(super) tally: SoloTally,
    pub(super) step: SoloStep,
    /// Until the next tally, when there was the last.
    pub(super) rest: Nanos,
    /// Units a millisecond with all workers, and with one.
    pub(super) rates: [u64; 2],
    /// Of the units that many per cent are yields, with all workers and with one.
    pub(super) yields: [u64; 2],
    /// Units a poll, and polls of which one moves while all work.
    pub(super) units: u64,
    pub(super) moves: u64,
    pub(super) obeys: bool,
}

impl Program {
    pub(super) fn new(rates: [u64; 2]) -> Self {
        Self {
            trial: SoloTrial::default(),
            config: Solo::default(),
            tally: SoloTally {
                workers: 2,
                ..SoloTally::default()
            },
            step: SoloStep::All,
            rest: Nanos(0),
            rates,
            yields: [0, 0],
            units: 10,
            moves: 2,
            obeys: true,
        }
    }

    /// One of which a worker alone gets half as much again done, and goes on alone for so many milliseconds.
    pub(super) fn that_holds(millis: u64) -> Self {
        let mut program = Self::new([100_000, 150_000]);
        program.config.hold = Nanos::from_millis(millis);
        program.goes_on_alone();
        program
    }

    /// Goes on until the next tally is due, and what follows.
    pub(super) fn step(&mut self) -> SoloStep {
        let (step, next) = self.trial.step(&self.tally, &self.config);
        assert!(next > self.tally.at, "{:?}", self.trial);
        self.step = step;
        self.rest = next.since(self.tally.at);
        self.runs(self.rest);
        step
    }

    /// Until the others are to leave.
    pub(super) fn gathers(&mut self) {
        while !matches!(self.trial.stage, Stage::Gathers { .. }) {
            self.step();
        }
    }

    /// The end of the hold that there is.
    pub(super) fn until(&self) -> Nanos {
        let Stage::Holds { hold, .. } = self.trial.stage else {
            panic!("{:?}", self.trial);
        };
        hold.until
    }

    /// Until one goes on alone.
    pub(super) fn goes_on_alone(&mut self) {
        while !matches!(self.trial.stage, Stage::Holds { .. }) {
            self.step();
        }
    }

    /// Until all are to work. Returns how long that took.
    pub(super) fn comes_back(&mut self) -> Nanos {
        let from = self.tally.at;
        loop {
            let now = self.tally.at;
            if self.step() == SoloStep::All {
                return now.since(from);
            }
        }
    }

    pub(super) fn runs(&mut self, time: Nanos) {
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
    pub(super) fn alone(&mut self, millis: u64) -> (u64, Vec<u64>) {
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

pub(super) fn number(stage: &Stage) -> usize {
    match stage {
        Stage::Rests => 0,
        Stage::All { .. } => 1,
        Stage::Gathers { .. } => 2,
        Stage::Settles { .. } => 3,
        Stage::Alone { .. } => 4,
        Stage::Holds { .. } => 5,
    }
}

/// Less gets done in a window, or others have rescued what is there: the host has taken the CPU away.
pub(super) const DISTURBS: [fn(&mut Program); 2] = [
    |program| program.tally.units -= 200_000,
    |program| program.tally.polls += 10_000,
];
