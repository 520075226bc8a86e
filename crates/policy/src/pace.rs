//! How often a worker looks up from its deque, and how much it takes when it does.
//!
//! It counts tasks, because a clock is dear beside a short one: it reads the clock when it looks up, averages the runs
//! since the last time, and counts down so many tasks as run in half of [`Config::look_up`], at most
//! [`Config::global_interval`].
//!
//! Whatever it takes goes to the end of its deque, behind what it has. So it never takes more than it runs before it
//! takes again: the deque would grow for as long as there is a backlog, and what is woken meanwhile would wait behind
//! all of it.
//!
//! Short tasks have their turns by number: half of those that run are from shared queues, while there are any. Long
//! ones by time: after the deque's, as many as run until the next look up, the shared queues have as long as those ran,
//! one task at least, and no longer than [`Config::look_up`] and the task that passes it. By number each of many short
//! tasks there would wait for a long one of ours.

use crate::{Config, Nanos};

/// A worker's count of tasks until it looks up.
///
/// ```
/// use quadrille_policy::{Config, Nanos, Pace};
///
/// let mut pace = Pace::default();
/// assert!(!pace.is_due() && pace.is_due());
/// pace.looks_up(Nanos::from_micros(5), &Config::default());
/// assert_eq!(pace.average_run(), Nanos::from_micros(5));
/// assert_eq!((1..).find(|_| pace.is_due()), Some(10));
/// assert_eq!(pace.share(128), 5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Of a task, by which the interval is chosen; zero: unknown. While tasks are long, of the deque's alone.
    run: Nanos,
    /// The same with what shared queues had in between.
    average_run: Nanos,
    /// Tasks between two looks up.
    interval: u32,
    /// Whether tasks are long: at most [`LONG`] of them would run between two looks up.
    is_long: bool,
    /// Tasks until the next one, or until the worker is to say that it is not yet due.
    left: u32,
    /// Tasks after those until the next look up: the worker is asked before each of them.
    rest: u32,
    /// Time that has gone into those since the last one, up to the last pause.
    busy: Nanos,
    /// For how long shared queues still go before the deque, while tasks are long.
    allowance: Nanos,
    /// For how long they have.
    theirs: Nanos,
    /// What runs until the next look up is theirs alone.
    is_theirs: bool,
    /// What ran before the last look up was.
    follows_theirs: bool,
}

/// What a look up has found, to be run first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It comes from a queue that others fill, too, or was stuck behind another worker.
    Theirs,
    /// It is the deque's own.
    Ours,
    /// It is the deque's own, and was put up for others, and nobody came.
    TakenBack,
}

/// Tasks between two looks up, if they are long, at most: with 100 us between those that take 5.6 us each and more,
/// where a look up takes a fifth of a microsecond.
const LONG: u32 = 8;

impl Default for Pace {
    /// One that looks up before the second task.
    fn default() -> Self {
        Self {
            run: Nanos(0),
            average_run: Nanos(0),
            interval: 1,
            is_long: true,
            left: 2,
            rest: 0,
            busy: Nanos(0),
            allowance: Nanos(0),
            theirs: Nanos(0),
            is_theirs: false,
            follows_theirs: false,
        }
    }
}

impl Pace {
    /// Counts a task. Whether the worker looks up before it.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        self.left -= 1;
        self.left == 0
    }

    /// It [is due](Self::is_due) before each task from now on, until the next look up.
    pub fn steps(&mut self) {
        self.rest += self.left - 1;
        self.left = 1;
    }

    /// It is due: whether that is the look up, or one of the [steps](Self::steps) to it.
    pub fn has_come(&mut self) -> bool {
        if self.rest > 0 {
            self.rest -= 1;
            self.left = 1;
            return false;
        }
        true
    }

    /// It [has not come](Self::has_come), and the worker looks up all the same: fewer tasks have run.
    pub fn comes_early(&mut self) {
        self.interval = self.interval.saturating_sub(self.rest + 1).max(1);
    }

    /// The worker looks up, `elapsed` after it did so last or came back from a pause; the next time after
    /// [`Config::look_up`], as far as can be told, and at most [`Config::global_interval`] tasks.
    pub fn looks_up(&mut self, elapsed: Nanos, config: &Config) {
        let busy = core::mem::take(&mut self.busy).0.saturating_add(elapsed.0);
        if self.is_theirs {
            self.theirs.0 = self.theirs.0.saturating_add(busy);
            // While the clock stands they take turns by number.
            self.allowance = if busy == 0 {
                Nanos(0)
            } else {
                self.allowance.since(Nanos(busy))
            };
        } else {
            let tasks = u64::from(self.interval);
            let theirs = core::mem::take(&mut self.theirs).0;
            self.run = average(self.run, busy / tasks);
            self.average_run = average(self.average_run, busy.saturating_add(theirs) / tasks);
            self.allowance = Nanos(busy).min(config.look_up);
        }
        let tasks = config.look_up.0 / 2 / self.run.0.max(1);
        self.is_long = tasks <= u64::from(LONG);
        let interval = tasks.clamp(1, u64::from(config.global_interval.max(1)));
        self.interval = u32::try_from(interval).unwrap_or(1);
        self.left = self.interval;
        self.rest = 0;
        self.follows_theirs = core::mem::take(&mut self.is_theirs);
    }

    /// The look up has found something, which runs first. Then, while tasks are short, one of the deque's goes in
    /// between, because shared queues may never be empty; while they are long the worker looks up right after what is
    /// theirs. Of what is taken back no more than one before one of the deque's, because more of it has lost its place
    /// already.
    pub fn found(&mut self, what: Found) {
        // What was stuck behind another worker is found whoever's turn it is.
        let is_their_turn = !self.follows_theirs || self.allowance > Nanos(0);
        self.is_theirs = what == Found::Theirs && self.is_long && is_their_turn;
        self.interval = match what {
            Found::Theirs if self.is_theirs => 1,
            Found::TakenBack => 2,
            Found::Theirs | Found::Ours => self.interval.max(2),
        };
        self.left = self.interval;
    }

    /// The worker is out of work, `elapsed` after it last looked up or came back from such a pause. It goes on counting
    /// afterwards: tasks that come one at a time are averaged like others.
    pub fn pauses(&mut self, elapsed: Nanos) {
        self.busy = Nanos(self.busy.0.saturating_add(elapsed.0));
    }

    /// Average time from the end of one of the deque's tasks to that of the next; zero: unknown.
    #[must_use]
    pub fn average_run(&self) -> Nanos {
        self.average_run
    }

    /// How many tasks a look up takes from a shared queue, of at most `batch`: half as many as run until the next one;
    /// of long ones one, or none once it is the deque's turn.
    #[must_use]
    pub fn share(&self, batch: usize) -> usize {
        if self.is_long {
            return usize::from(!self.follows_theirs || self.allowance > Nanos(0));
        }
        (self.interval as usize / 2).clamp(1, batch.max(1))
    }

    /// How many tasks more than the `queued` ones the worker comes to within `span`, at least one. Were more taken over
    /// from a worker that is stuck, those that have waited longest would go from the end of one deque to the end of the
    /// next, where workers lose their CPU in turn.
    #[must_use]
    pub fn room(&self, span: Nanos, queued: usize) -> usize {
        let tasks = span.0 / self.average_run.0.max(1);
        let tasks = usize::try_from(tasks).unwrap_or(usize::MAX);
        tasks.saturating_sub(queued).max(1)
    }
}

/// A moving average, which takes in a quarter of what is new; zero: none as yet.
fn average(old: Nanos, new: u64) -> Nanos {
    Nanos(if old.0 == 0 { new } else { old.0 - old.0 / 4 + new / 4 }.max(1))
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    /// One that has looked up so often, with tasks of so many ns.
    fn pace(run: u64, looks: u32) -> Pace {
        let mut pace = Pace::default();
        for _ in 0..looks {
            pace.looks_up(Nanos(run * u64::from(pace.interval)), &Config::default());
        }
        pace
    }

    fn tasks_until_due(mut pace: Pace) -> u32 {
        (1..).find(|_| pace.is_due()).unwrap()
    }

    #[test]
    fn looks_up_in_time_or_after_so_many_tasks() {
        for (run, tasks) in [
            (0, 61),
            (100, 61),
            (1_000, 50),
            (20_000, 2),
            (60_000, 1),
            (u64::MAX / 61, 1),
        ] {
            assert_eq!(tasks_until_due(pace(run, 1)), tasks, "{run} ns");
        }
    }

    #[test]
    fn the_intervals_are_those_configured() {
        for (text, tasks) in [
            ("default", 50),
            ("look-up=1ms", 61),
            ("look-up=10us", 5),
            ("global-interval=7", 7),
        ] {
            let mut pace = Pace::default();
            pace.looks_up(Nanos(1_000), &text.parse().unwrap());
            assert_eq!(tasks_until_due(pace), tasks, "{text}");
        }
    }

    #[test]
    fn steps_come_before_each_task_and_the_look_up_when_it_would_have() {
        let mut stepping = pace(1_000, 1);
        stepping.steps();
        let looks = (1..).find(|_| {
            assert!(stepping.is_due());
            stepping.has_come()
        });
        assert_eq!(looks, Some(50));
        stepping.looks_up(Nanos(50_000), &Config::default());
        assert_eq!(tasks_until_due(stepping), 50, "no steps any more");
    }

    #[test]
    fn a_look_up_that_comes_early_is_of_the_tasks_that_have_run() {
        for tasks in 1..50 {
            let mut stepping = pace(1_000, 1);
            stepping.steps();
            for _ in 0..tasks {
                assert!(stepping.is_due() && !stepping.has_come());
            }
            stepping.comes_early();
            stepping.looks_up(Nanos(1_000 * tasks), &Config::default());
            assert_eq!(stepping.average_run(), Nanos(1_000), "{tasks}");
        }
    }

    #[test]
    fn the_average_takes_in_a_quarter_of_what_is_new() {
        let mut pace = pace(1_000, 9);
        assert_eq!(pace.average_run(), Nanos(1_000));
        pace.looks_up(Nanos(5_000 * 50), &Config::default());
        assert_eq!(pace.average_run(), Nanos(2_000));
    }

    #[test]
    fn tasks_between_pauses_are_averaged_like_others() {
        let mut pace = pace(1_000, 1);
        for _ in 1..50 {
            assert!(!pace.is_due());
            pace.pauses(Nanos(9_000));
        }
        assert!(pace.is_due());
        pace.looks_up(Nanos(9_000), &Config::default());
        assert_eq!(pace.average_run(), Nanos(3_000));
        let again = pace;
        pace.pauses(Nanos(u64::MAX));
        pace.looks_up(Nanos(u64::MAX), &Config::default());
        assert!(pace.average_run() > again.average_run(), "no overflow");
    }

    #[test]
    fn one_of_its_own_comes_after_what_is_found() {
        for (run, theirs, ours) in [(100, 61, 61), (5_000, 10, 10), (7_000, 1, 7), (60_000, 1, 2)] {
            for (what, tasks) in [(Found::Theirs, theirs), (Found::Ours, ours), (Found::TakenBack, 2)] {
                let mut pace = pace(run, 1);
                pace.found(what);
                assert_eq!(tasks_until_due(pace), tasks, "{run} ns, {what:?}");
            }
        }
    }

    /// How many tasks of `theirs` run between two of `ours`, while there are always some of both. By a clock that goes,
    /// or stands while theirs run.
    fn theirs_between_ours(ours: Nanos, theirs: Nanos, goes: bool) -> Vec<usize> {
        let (mut pace, mut counts, mut count, mut elapsed) = (pace(ours.0, 9), vec![], 0, Nanos(0));
        while counts.len() < 24 {
            let mut is_ours = true;
            if pace.is_due() {
                pace.looks_up(elapsed, &Config::default());
                elapsed = Nanos(0);
                if pace.share(128) > 0 {
                    pace.found(Found::Theirs);
                    is_ours = false;
                }
            }
            if is_ours {
                counts.push(count);
            }
            elapsed.0 += if is_ours { ours.0 } else { theirs.0 * u64::from(goes) };
            count = if is_ours { 0 } else { count + 1 };
        }
        // The first look up comes before anything has run.
        counts.split_off(20)
    }

    #[test]
    fn beside_long_tasks_shared_queues_have_a_share_of_the_time() {
        let us = Nanos::from_micros;
        for (ours, theirs, between) in [
            (us(30), us(1), 30),
            (us(30), us(29), 2),
            (us(30), us(30), 1),
            (us(30), us(200), 1),
            (us(200), us(200), 1),
            (us(200), us(1), 100),
            (us(20_000), us(1), 100),
            (us(20_000), us(20_001), 1),
        ] {
            assert_eq!(theirs_between_ours(ours, theirs, true), [between; 4], "{ours} {theirs}");
        }
        // Two of ours between two looks up.
        let mut between = theirs_between_ours(us(20), us(1), true);
        between.sort_unstable();
        assert_eq!(between, [0, 0, 40, 40]);
    }

    /// By how long they are, not by how often the worker is to look up.
    #[test]
    fn short_tasks_have_their_turns_by_number_however_small_the_interval() {
        let config = Config {
            global_interval: 8,
            ..Config::default()
        };
        for (run, share, due) in [(100, 4, 8), (60_000, 1, 1)] {
            let mut pace = Pace::default();
            pace.looks_up(Nanos(run), &config);
            assert_eq!(pace.share(128), share, "{run} ns");
            pace.found(Found::Theirs);
            assert_eq!(tasks_until_due(pace), due, "{run} ns");
        }
    }

    #[test]
    fn what_is_found_after_their_turn_is_followed_by_one_of_ours() {
        let mut pace = pace(60_000, 9);
        pace.found(Found::Theirs);
        pace.looks_up(Nanos(60_000), &Config::default());
        assert_eq!(pace.share(128), 0, "it is the deque's turn");
        pace.found(Found::Theirs);
        assert_eq!(tasks_until_due(pace), 2);
    }

    #[test]
    fn while_the_clock_stands_long_tasks_take_turns_by_number() {
        let us = Nanos::from_micros;
        assert_eq!(theirs_between_ours(us(200), us(1), false).iter().max(), Some(&1));
    }

    #[test]
    fn what_shared_queues_have_is_part_of_how_long_ours_wait() {
        let mut pace = pace(60_000, 9);
        pace.found(Found::Theirs);
        pace.looks_up(Nanos(40_000), &Config::default());
        pace.looks_up(Nanos(60_000), &Config::default());
        assert_eq!(pace.average_run(), Nanos(70_000));
        assert_eq!(pace.run, Nanos(60_000));
    }

    #[test]
    fn no_more_is_taken_than_is_run() {
        assert_eq!([0, 1, 128].map(|batch| pace(100, 1).share(batch)), [1, 1, 30]);
        assert_eq!(pace(60_000, 1).share(128), 1);
        let span = Nanos::from_micros(500);
        assert_eq!(
            [0, 40, 50, 60].map(|queued| pace(10_000, 1).room(span, queued)),
            [50, 10, 1, 1]
        );
        assert_eq!(Pace::default().room(span, 0), 500_000, "unknown is short");
    }
}
