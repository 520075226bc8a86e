//! Which tasks of a worker are long, and when short ones go before them.
//!
//! Its deque and its bound FIFO are first in, first out, so a task that has little to do waits for one poll of each
//! that has much. Here tasks take turns by time in place of number: once a long task has had its turn, the others go
//! first for as long as that took ([`Overtake`]). What is passed over goes to the back of its queue, so each queue is
//! gone through in a circle; of the long tasks of both that one has the next turn which was passed over first. So each
//! one waits for those that were passed over before it, and for as much time of others as each of these took. Who has
//! been passed over and is gone keeps nobody waiting: items leave a deque at its front, or are polled here, so whatever
//! was put before its front is not there any more, and what is bound is polled by its worker alone. What is long and is
//! not known, as it is new, and what a look up has found elsewhere, has no turn that others wait for: it is run as it
//! comes, and those who wait don't wait longer for that. What is known carries a mark once it has come here again, and
//! is known by that to a thief, in whose deque it is the last of those that wait.
//!
//! One long poll proves nothing: the system may have had the CPU in the middle of a short one, as it has for 50 us and
//! more at each tick of some virtual machines. So a task is long from the second of two long polls with no more than
//! one short one between, until a short one that is timed; and a look up that is late says something if others have had
//! no more than three quarters of a millisecond since the one before: where they have a millisecond of each long
//! poll's, nothing is to be gained, and ticks, of which there are a thousand a second at most, are further apart.
//!
//! A long task computes. One that sends a hundred messages in a poll, as one pipe allows, may take as long, but it has
//! given way as often as its budget says, and would take as many short polls with a smaller one: what it loses by going
//! behind others is that it finds less to do each time. So where a poll has spent more than a few units of its budget,
//! the time that they may take is not counted: with a budget of 128 a poll of up to 386 us may not be long. With one of
//! 255, which is no limit, no units are known.
//!
//! A poll is timed alone only if somebody has cause to think it long, because a clock is dear beside a short one. As
//! long as a worker looks up in time nothing is done at all. From the second late look up on it reads the clock each 8
//! polls, and before and after each poll of a task that was long lately. Where 8 polls took as long as one long one,
//! and from the beginning, it times each one alone until it has found one that was long and not known, or the clock has
//! taken half of that time: a task that gives way comes again once each of its deque has had its turn, and a pair of
//! those may have a hundred polls in a row. What comes again later than that is not found, and runs by number: others
//! have had about as much time in between, but where polls are shorter than 64 ns, or it took more than 0.26 ms. When
//! others have computed for three milliseconds without a long poll all that ends, or for half of it after one that
//! proves nothing, unless a long one waits for its turn.

use alloc::collections::BTreeMap;
use core::ops::RangeInclusive;

use crate::{Adversary, Nanos, config::Overtake};

/// Tasks that were long lately, of which a worker knows at a time, at most. More of them count as short.
const MOST: usize = 512;
/// So many long polls later who waits for no turn has ended, or has gone elsewhere, if there is no room for others. Of
/// more that come one after the other none is found.
const OLD: u64 = 4 * MOST as u64;
/// Long polls between two looks for those.
const SWEEP: u64 = MOST as u64 / 8;
/// Polls between two looks at the clock.
const POLLS_A_LOOK: u8 = 8;
/// Polls that are timed alone after others that took long together, at most; and at least. So few are left once one is
/// found that was not known as long, as there may be more of them.
const TIMED_ALONE: RangeInclusive<u64> = 32..=4096;
/// For each so many nanoseconds that those took one is timed alone: the clock, some 30 ns, takes half of that time.
const NANOS_A_LOOK: u64 = 64;
/// So many units of its budget a poll may spend and be long as if it had spent none.
const UNITS: u64 = 16;
/// So long each further one may take, as a system call with a message takes on a busy machine.
const UNIT: Nanos = Nanos::from_micros(3);
/// What polls other than long ones take until it is off, in times of [`Overtake::time`].
const QUIET: u64 = 3;

/// What a task's latest polls say of it. Two short ones: nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lately {
    /// A long one, which may have been the system's.
    LongOnce,
    /// Two long ones, with no more than one short one between.
    Long,
    /// A short one since.
    ShortOnce,
}

/// A task that may be long.
#[derive(Clone, Copy, Debug)]
struct Known {
    lately: Lately,
    /// How many long polls there had been when it was noted.
    since: u64,
    /// When it was first passed over since it last ran, in the order in which that happened; 0: it was not.
    ticket: u64,
    /// With a ticket: where it was put when it was last passed over; see [`Overtaking::passes`].
    at: Option<u64>,
}

/// What a worker knows of the long tasks of its deque and its bound FIFO. It keeps one for itself.
///
/// ```
/// use quadrille_policy::{Adversary, Nanos, Overtake, Overtaking};
///
/// let mut overtaking = Overtaking::new(&Overtake::default(), true, Adversary::None);
/// // 8 tasks took 300 us, where the worker meant to look up after 50, and did again.
/// for _ in 0..2 {
///     overtaking.looks_up(Nanos::from_micros(300), Nanos::from_micros(100), 0);
/// }
/// assert!(overtaking.is_on());
/// // Task 7 takes 100 us of them the next two times.
/// overtaking.ended(Nanos::from_micros(400));
/// for end in [500, 600] {
///     overtaking.begins(7);
///     overtaking.ended(Nanos::from_micros(end));
/// }
/// assert!(overtaking.is_long(7) && !overtaking.is_long(8));
/// assert!(overtaking.meets(7, false), "it is marked, so that others know");
/// // Others go first until 700 us.
/// let (front, at) = (0, Some(1));
/// assert!(overtaking.passes(7, Nanos::from_micros(650), front, at));
/// assert!(!overtaking.passes(7, Nanos::from_micros(700), front, at));
/// ```
#[derive(Clone, Debug)]
pub struct Overtaking {
    config: Overtake,
    /// Whether the policy is used at all.
    may: bool,
    /// For tests of the mechanism: any task may be passed over, at any time.
    is_silly: bool,
    is_on: bool,
    /// What short polls have taken since the last long one, about, or since the last look up that was late if it is
    /// off.
    quiet: Nanos,
    /// When the clock was read last, if the worker has gone on since.
    since: Option<Nanos>,
    /// Polls that have begun since.
    polls: u8,
    /// Units of their budgets that these have spent, as far as the worker has said.
    units: u64,
    /// Those that had been spent in all when it said so last.
    units_in_all: u64,
    /// Whose the last of them is.
    last: u64,
    /// Whether that one was long lately.
    last_is_known: bool,
    /// So many more polls are timed alone.
    timed_alone: u16,
    /// By their number.
    known: BTreeMap<u64, Known>,
    /// Whom it is worth while to look for among them, by a hash.
    filter: Filter,
    /// Until then others go before long tasks.
    others_until: Nanos,
    /// Those that were given.
    tickets: u64,
    /// Long polls so far.
    long_polls: u64,
    /// How many there were when old ones were looked for.
    swept: u64,
    /// The long task that was passed over first.
    next: Option<u64>,
    /// Whose turn it is, if its poll has yet to end.
    turn: Option<u64>,
}

impl Overtaking {
    /// A worker's, if the policy is used at all.
    #[must_use]
    pub fn new(config: &Overtake, may: bool, adversary: Adversary) -> Self {
        Self {
            config: config.clone(),
            may,
            is_silly: adversary != Adversary::None,
            is_on: false,
            quiet: Nanos(u64::MAX),
            since: None,
            polls: 0,
            units: 0,
            units_in_all: 0,
            last: 0,
            last_is_known: false,
            timed_alone: 0,
            known: BTreeMap::new(),
            filter: Filter::default(),
            others_until: Nanos(0),
            tickets: 0,
            long_polls: 0,
            swept: 0,
            next: None,
            turn: None,
        }
    }

    /// Whether there have been long polls lately: only then is anybody asked for anything below.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// The worker has looked up, `elapsed` after it did so last, or paused; no time if the clock stands. It means to do
    /// so within `look_up`. Its deque begins at index `front`, as for [`passes`](Self::passes).
    pub fn looks_up(&mut self, elapsed: Nanos, look_up: Nanos, front: u64) {
        let late = look_up.max(Nanos(self.config.poll.0.saturating_mul(2)));
        let was_late = elapsed >= late || self.is_silly;
        let quiet = Nanos(self.quiet.0.saturating_add(elapsed.min(late).0));
        if !self.is_on {
            let is_second = self.quiet.0 < self.config.time.0 / 4 * 3 || self.is_silly;
            self.quiet = if was_late { Nanos(0) } else { quiet };
            if self.may && was_late && is_second {
                self.begins_anew(elapsed);
            }
        } else if elapsed == Nanos(0) && !self.is_silly {
            // A test goes on as it does each time.
            self.is_on = false;
            self.quiet = Nanos(u64::MAX);
        } else {
            self.quiet = quiet;
            if quiet >= self.quiet_at_the_end() {
                // Who waits for a turn is met once the queues have been gone through. Nobody has number 0.
                self.forgets_gone(0, front);
                self.is_on = self.next.is_some() || self.is_silly;
            }
        }
    }

    fn quiet_at_the_end(&self) -> Nanos {
        Nanos(self.config.time.0.saturating_mul(QUIET))
    }

    fn begins_anew(&mut self, late: Nanos) {
        self.is_on = true;
        self.quiet = Nanos(0);
        // Who is long says so by a mark; these may have one that is not true any more.
        self.keeps(|known| known.lately == Lately::ShortOnce);
        self.next = None;
        self.turn = None;
        self.timed_alone = times_alone(late);
        self.pauses();
    }

    /// Whether the clock is to be read before the next poll.
    #[inline]
    #[must_use]
    pub fn needs_time(&self) -> bool {
        self.last_is_known || self.timed_alone > 0 || self.polls >= POLLS_A_LOOK
    }

    /// The worker's polls have spent so many units of their budgets in all; to be said before [`ended`](Self::ended),
    /// whose polls have spent what has been added since.
    #[inline]
    pub fn have_spent(&mut self, in_all: u64) {
        self.units = in_all.wrapping_sub(self.units_in_all);
        self.units_in_all = in_all;
    }

    /// From what time on a poll is long that has spent so many units.
    fn long_from(&self, units: u64) -> Nanos {
        let messages = units.saturating_sub(UNITS);
        Nanos(self.config.poll.0.saturating_add(messages.saturating_mul(UNIT.0)))
    }

    /// The clock was read after the polls that have begun.
    pub fn ended(&mut self, now: Nanos) {
        self.last_is_known = false;
        let polls = core::mem::take(&mut self.polls);
        let units = core::mem::take(&mut self.units);
        let had_turn = self.turn.take() == Some(self.last);
        let Some(since) = self.since.replace(now) else {
            return;
        };
        let took = now.since(since);
        match polls {
            0 => {}
            1 => {
                self.timed_alone = self.timed_alone.saturating_sub(1);
                if took >= self.long_from(units) {
                    self.notes_long(took, now, had_turn);
                } else {
                    self.notes_short();
                }
            }
            // Whatever they have spent: one that has spent nothing may be among them.
            _ if took >= self.config.poll => self.timed_alone = times_alone(took),
            _ => {}
        }
    }

    /// The last one's poll was long. Others go first for it if that was its turn, or if nobody waits for such a turn:
    /// those who wait don't wait for what others do out of turn, be it unknown or from elsewhere.
    fn notes_long(&mut self, took: Nanos, now: Nanos, had_turn: bool) {
        self.long_polls += 1;
        if had_turn || self.next.is_none() {
            self.others_until = Nanos(now.0.saturating_add(took.min(self.config.time).0));
        }
        let lately = match self.lately(self.last) {
            None => Lately::LongOnce,
            Some(_) => Lately::Long,
        };
        if self.lately(self.last) != Some(Lately::Long) {
            self.timed_alone = self.timed_alone.min(times_alone(Nanos(0)));
        }
        self.quiet = match lately {
            Lately::Long => Nanos(0),
            _ => self.quiet.min(Nanos(self.quiet_at_the_end().0 / 2)),
        };
        self.knows(self.last, lately);
    }

    /// The last one's poll was short.
    fn notes_short(&mut self) {
        match self.lately(self.last) {
            None => {}
            // If it was marked as long, it has lost that before this poll.
            Some(Lately::ShortOnce) => {
                self.known.remove(&self.last);
            }
            Some(_) => self.knows(self.last, Lately::ShortOnce),
        }
    }

    /// Notes that of a task, which does not wait for a turn. If there are too many it is not noted, and counts as
    /// short.
    fn knows(&mut self, task: u64, lately: Lately) {
        let known = Known {
            lately,
            since: self.long_polls,
            ticket: 0,
            at: None,
        };
        if let Some(before) = self.known.get_mut(&task) {
            *before = known;
            return;
        }
        self.makes_room(lately);
        if self.known.len() < MOST {
            self.known.insert(task, known);
            self.filter.add(task);
        }
    }

    /// For one more. Who had one long poll is worth nothing before its next one, so it must be kept until then, which
    /// may be after many others.
    fn makes_room(&mut self, for_one: Lately) {
        let now = self.long_polls;
        if self.known.len() < MOST {
            if self.filter.added > 2 * self.known.len() + MOST / 8 {
                self.keeps(|_| true);
            }
            return;
        }
        if now - self.swept >= SWEEP {
            self.swept = now;
            self.keeps(|known| known.ticket > 0 || now - known.since < OLD);
        }
        if self.known.len() >= MOST && for_one == Lately::Long {
            self.keeps(|known| known.ticket > 0);
        }
    }

    fn keeps(&mut self, which: impl Fn(&Known) -> bool) {
        self.known.retain(|_, known| which(known));
        self.filter = Filter::default();
        self.known.keys().for_each(|&task| self.filter.add(task));
    }

    /// What is known of it.
    #[inline]
    fn known(&self, task: u64) -> Option<&Known> {
        if self.filter.has(task) {
            self.known.get(&task)
        } else {
            None
        }
    }

    #[inline]
    fn lately(&self, task: u64) -> Option<Lately> {
        self.known(task).map(|known| known.lately)
    }

    /// Of those that were passed over, who was first.
    fn oldest(&self) -> Option<u64> {
        let passed = self.known.iter().filter(|(_, known)| known.ticket > 0);
        passed.min_by_key(|(_, known)| known.ticket).map(|(&task, _)| task)
    }

    /// The task's poll begins.
    #[inline]
    pub fn begins(&mut self, task: u64) {
        self.polls = self.polls.saturating_add(1);
        self.last = task;
        let lately = self.lately(task);
        self.last_is_known = lately.is_some();
        if let Some(lately) = lately {
            self.knows(task, lately);
            if self.next == Some(task) {
                self.next = self.oldest();
            }
        }
    }

    /// The worker is out of work: what time passes until it has some again nobody took.
    #[inline]
    pub fn pauses(&mut self) {
        self.since = None;
        self.polls = 0;
        self.last_is_known = false;
    }

    /// The task comes, marked as long or not, and may be from elsewhere. Whether it is marked from now on.
    pub fn meets(&mut self, task: u64, is_marked: bool) -> bool {
        match self.lately(task) {
            // Others have found it long. Where we have seen a short one, they may have before or after that: it is long
            // with the next long one.
            None | Some(Lately::LongOnce) if is_marked => {
                self.knows(task, Lately::Long);
                true
            }
            lately => lately == Some(Lately::Long),
        }
    }

    /// The worker has gone through its queues until then, which no task took.
    pub fn resumes_at(&mut self, now: Nanos) {
        self.since = Some(now);
    }

    /// Whether its last poll was long, and one of the two before, as far as they were timed here.
    #[inline]
    #[must_use]
    pub fn is_long(&self, task: u64) -> bool {
        self.lately(task) == Some(Lately::Long)
    }

    /// Whether the clock is read before the task's next poll, which tells whether it is long, and it is asked if the
    /// task [is passed over](Self::passes).
    #[inline]
    #[must_use]
    pub fn may_pass(&self, task: u64) -> bool {
        self.is_silly || self.known(task).is_some()
    }

    /// Whether a task, which comes next, goes behind the other ones of its queue. The deque begins at index `front`,
    /// and indices grow. `at`: with which one the task would be in it; `None`: it is bound, and would be in the FIFO of
    /// such, which it leaves to be polled by this worker alone.
    pub fn passes(&mut self, task: u64, now: Nanos, front: u64, at: Option<u64>) -> bool {
        if self.is_silly {
            return !(now.0 ^ task).is_multiple_of(3);
        }
        if !self.is_long(task) {
            return false;
        }
        if now >= self.others_until {
            self.forgets_gone(task, front);
            if self.next.is_none_or(|next| next == task) {
                self.turn = Some(task);
                return false;
            }
        }
        self.takes_ticket(task, at);
        true
    }

    /// Who would be next and is not in the deque any more, stolen or waiting for something, has no claim. Not the task
    /// that comes: it is out of it to be asked.
    fn forgets_gone(&mut self, comes: u64, front: u64) {
        while let Some(next) = self.next.filter(|&next| next != comes) {
            // Whoever is next is known, as none of those is forgotten that wait.
            let is_there = self.known.get_mut(&next).is_some_and(|known| {
                let is_there = known.at.is_none_or(|at| at >= front);
                known.ticket *= u64::from(is_there);
                is_there
            });
            if is_there {
                return;
            }
            self.next = self.oldest();
        }
    }

    fn takes_ticket(&mut self, task: u64, at: Option<u64>) {
        let Some(known) = self.known.get_mut(&task) else {
            return;
        };
        known.at = at;
        if known.ticket == 0 {
            self.tickets += 1;
            known.ticket = self.tickets;
            self.next = self.next.or(Some(task));
        }
    }

    /// There is nothing but long tasks, so no others have a claim to time.
    pub fn nobody_else(&mut self) {
        self.others_until = Nanos(0);
    }
}

/// How many polls are timed alone after others that took so long together.
fn times_alone(took: Nanos) -> u16 {
    let polls = (took.0 / NANOS_A_LOOK).clamp(*TIMED_ALONE.start(), *TIMED_ALONE.end());
    u16::try_from(polls).unwrap_or(u16::MAX)
}

/// A set of numbers that may seem to have more of them.
#[derive(Clone, Copy, Debug, Default)]
struct Filter {
    bits: [u64; 16],
    /// How many it was given.
    added: usize,
}

impl Filter {
    /// The word and the bit. Numbers come in blocks, one a thread: the high bits of a multiple of the golden ratio are
    /// spread alike.
    fn place(task: u64) -> (usize, u64) {
        let hash = task.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((hash >> 60) as usize, 1 << (hash >> 54 & 63))
    }

    fn add(&mut self, task: u64) {
        let (word, bit) = Self::place(task);
        self.bits[word] |= bit;
        self.added += 1;
    }

    #[inline]
    fn has(&self, task: u64) -> bool {
        let (word, bit) = Self::place(task);
        self.bits[word] & bit != 0
    }
}

#[cfg(test)]
mod tests;
