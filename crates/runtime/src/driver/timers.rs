//! The timers of one driver, in the order of their deadlines. Time is an argument.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::{Duration, Instant};

/// Names a timer that is set: its deadline, and a number that tells apart those with the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    deadline: Instant,
    number: u64,
}

/// For how long the thread is about to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wait {
    /// It isn't waiting, or somebody has notified it: it will look at the timers before it waits.
    #[default]
    No,
    /// Until then at most.
    Until(Instant),
    /// Until it is notified.
    Forever,
}

/// Timers that are set, and the note of the thread.
#[derive(Debug, Default)]
pub(super) struct Timers {
    entries: BTreeMap<Key, Waker>,
    number: u64,
    wait: Wait,
}

/// What became of an insertion.
#[derive(Debug)]
#[must_use = "the thread may have to be notified, and the waker has to be dropped without the lock"]
pub(super) struct Inserted {
    pub(super) key: Key,
    /// The thread waits for longer than that: notify it.
    pub(super) notify: bool,
    /// The waker that was there, to be dropped without the lock.
    pub(super) replaced: Option<Waker>,
}

impl Timers {
    /// How many timers are set.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Sets a new timer.
    pub(super) fn insert(&mut self, deadline: Instant, waker: Waker) -> Inserted {
        self.number += 1;
        self.set(
            Key {
                deadline,
                number: self.number,
            },
            waker,
        )
    }

    /// Sets the timer `key`, whether or not it is set, with another waker.
    pub(super) fn set(&mut self, key: Key, waker: Waker) -> Inserted {
        let replaced = self.entries.insert(key, waker);
        let notify = match self.wait {
            Wait::No => false,
            Wait::Until(until) => key.deadline < until,
            Wait::Forever => true,
        };
        if notify {
            self.wait = Wait::No;
        }
        Inserted { key, notify, replaced }
    }

    /// Unsets a timer, if it has not expired. Drop the waker without the lock.
    pub(super) fn remove(&mut self, key: Key) -> Option<Waker> {
        self.entries.remove(&key)
    }

    /// Unsets all timers.
    pub(super) fn take(&mut self) -> BTreeMap<Key, Waker> {
        std::mem::take(&mut self.entries)
    }

    /// Takes the timers that have expired at `now`, and notes that the thread isn't waiting.
    pub(super) fn expire(&mut self, now: Instant, wakers: &mut Vec<Waker>) {
        self.wait = Wait::No;
        while let Some(first) = self.entries.first_entry() {
            if first.key().deadline > now {
                break;
            }
            wakers.push(first.remove());
        }
    }

    /// How long the thread may wait at `now` (`None`: until it is notified), and notes it.
    pub(super) fn begin_wait(&mut self, now: Instant) -> Option<Duration> {
        match self.entries.first_key_value() {
            None => {
                self.wait = Wait::Forever;
                None
            }
            Some((first, _)) if first.deadline <= now => {
                self.wait = Wait::No;
                Some(Duration::ZERO)
            }
            Some((first, _)) => {
                self.wait = Wait::Until(first.deadline);
                Some(first.deadline - now)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ms` milliseconds after some origin.
    fn at(origin: Instant, ms: u64) -> Instant {
        origin + Duration::from_millis(ms)
    }

    /// How many timers expire at `now`.
    fn expire(timers: &mut Timers, now: Instant) -> usize {
        let mut wakers = Vec::new();
        timers.expire(now, &mut wakers);
        wakers.len()
    }

    #[test]
    fn timers_expire_at_their_deadline_and_not_before() {
        let origin = Instant::now();
        let mut timers = Timers::default();
        for ms in [5, 1, 3, 3, 9] {
            let _ = timers.insert(at(origin, ms), Waker::noop().clone());
        }
        let fired: Vec<usize> = (0..=10).map(|ms| expire(&mut timers, at(origin, ms))).collect();
        assert_eq!(fired, [0, 1, 0, 2, 0, 1, 0, 0, 0, 1, 0]);
        assert_eq!(timers.len(), 0);
    }

    #[test]
    fn a_removed_timer_does_not_expire_and_another_with_its_deadline_does() {
        let origin = Instant::now();
        let mut timers = Timers::default();
        let first = timers.insert(at(origin, 1), Waker::noop().clone()).key;
        let second = timers.insert(at(origin, 1), Waker::noop().clone()).key;
        assert_ne!(first, second);
        assert!(timers.remove(first).is_some());
        assert!(timers.remove(first).is_none());
        assert_eq!(expire(&mut timers, at(origin, 1)), 1);
        assert!(timers.remove(second).is_none());
    }

    /// Every note of the thread against every place of a new deadline.
    #[test]
    fn the_thread_is_notified_exactly_if_it_waits_beyond_the_deadline() {
        let origin = Instant::now();
        for deadline in [1, 2, 3] {
            let notified = |prepare: &dyn Fn(&mut Timers)| {
                let mut timers = Timers::default();
                prepare(&mut timers);
                timers.insert(at(origin, deadline), Waker::noop().clone()).notify
            };
            assert!(!notified(&|_| {}), "it has not waited so far");
            assert!(
                notified(&|timers| assert_eq!(timers.begin_wait(origin), None)),
                "it waits for ever"
            );
            let until_two = |timers: &mut Timers| {
                let _ = timers.insert(at(origin, 2), Waker::noop().clone());
                assert_eq!(timers.begin_wait(origin), Some(Duration::from_millis(2)));
            };
            assert_eq!(notified(&until_two), deadline < 2, "it waits until 2");
            let woken = |timers: &mut Timers| {
                until_two(timers);
                timers.expire(origin, &mut Vec::new());
            };
            assert!(!notified(&woken), "it is awake and looks before it waits");
            let late = |timers: &mut Timers| {
                let _ = timers.insert(origin, Waker::noop().clone());
                assert_eq!(timers.begin_wait(origin), Some(Duration::ZERO));
            };
            assert!(!notified(&late), "it doesn't wait");
        }
    }

    #[test]
    fn the_thread_is_notified_once_a_wait() {
        let origin = Instant::now();
        let mut timers = Timers::default();
        assert_eq!(timers.begin_wait(origin), None);
        assert!(timers.insert(at(origin, 5), Waker::noop().clone()).notify);
        assert!(!timers.insert(at(origin, 1), Waker::noop().clone()).notify);
        assert_eq!(timers.begin_wait(origin), Some(Duration::from_millis(1)));
    }

    #[test]
    fn setting_a_timer_again_gives_back_its_waker() {
        let origin = Instant::now();
        let mut timers = Timers::default();
        let key = timers.insert(at(origin, 1), Waker::noop().clone()).key;
        assert!(timers.set(key, Waker::noop().clone()).replaced.is_some());
        assert_eq!(timers.len(), 1);
        assert_eq!(timers.take().len(), 1);
        assert_eq!(timers.begin_wait(origin), None);
    }
}
