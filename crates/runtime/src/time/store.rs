//! The timers of one worker: a heap under a lock, and the time of the first where all may see it.
//!
//! The lock is its worker's in normal life: a task sets its timer on the worker that runs it, and that worker fires it.
//! Others take it to unset or move a timer that was set there, to fire what is overdue there (F), and to set a timer
//! from a thread that is no worker. Nothing foreign runs under it: values go in and come out. It is the lock of
//! channels (`sync/lock`), since it costs one read-modify-write and not two; now and then a section is longer than
//! those are, when a vector grows or a heap of cancelled nodes is rebuilt.

use std::task::Waker;

use super::heap::{Key, Timers};
use crate::panics::quietly;
use crate::primitives::{AtomicU64, Ordering};
use crate::stress;
use crate::sync::lock::Lock;

/// Timers that are fired at once: taken out under the lock, then called without it.
const BATCH: usize = 16;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Store<T> {
    /// No timer here expires before that, ns; `u64::MAX`: none is set. Written under the lock.
    first: AtomicU64,
    state: Lock<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    timers: Timers<T>,
    closed: bool,
}

/// What became of a timer that somebody wants to change.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change<T> {
    /// It is changed; what it had before, to be dropped without the lock.
    Done(T),
    /// It has expired: somebody calls its value, or has.
    Expired,
    /// The store was closed.
    Closed,
}

impl<T> Store<T> {
    pub(crate) fn new() -> Self {
        Self {
            first: AtomicU64::new(u64::MAX),
            state: Lock::new(State {
                timers: Timers::default(),
                closed: false,
            }),
        }
    }

    /// Publishes the first time, under the lock.
    #[inline]
    fn publish(&self, timers: &Timers<T>) {
        let first = timers.first();
        // Ordering: Relaxed; only who holds the lock writes.
        if self.first.load(Ordering::Relaxed) != first {
            // Ordering: Relaxed; the owner reads what it wrote itself, or after its fence what others wrote before
            // theirs (F); the others read a hint.
            self.first.store(first, Ordering::Relaxed);
        }
    }

    /// No timer here expires before that, ns; `u64::MAX` if none is set.
    #[inline]
    pub(crate) fn first(&self) -> u64 {
        // Ordering: Relaxed; see `publish`.
        self.first.load(Ordering::Relaxed)
    }

    /// Sets a timer. Its key, and whether it is now the first to expire; or the value, if the store was closed.
    pub(crate) fn insert(&self, deadline: u64, value: T) -> Result<(Key, bool), T> {
        self.state.with(|state| {
            if state.closed {
                return Err(value);
            }
            let before = state.timers.first();
            let key = state.timers.insert(deadline, value);
            self.publish(&state.timers);
            Ok((key, deadline < before))
        })
    }

    /// Unsets a timer. `None` if it has expired.
    pub(crate) fn remove(&self, key: Key) -> Option<T> {
        self.state.with(|state| {
            let value = state.timers.remove(key);
            self.publish(&state.timers);
            value
        })
    }

    /// Gives a timer another value.
    pub(crate) fn replace(&self, key: Key, value: T) -> (Change<T>, Option<T>) {
        self.state.with(|state| {
            if state.closed {
                return (Change::Closed, Some(value));
            }
            match state.timers.value(key) {
                Some(old) => (Change::Done(std::mem::replace(old, value)), None),
                None => (Change::Expired, Some(value)),
            }
        })
    }

    /// Moves a timer that is set to a deadline not before what it was. False if it isn't set, or that is earlier.
    pub(crate) fn postpone(&self, key: Key, deadline: u64) -> bool {
        // The node stays where it is, so the first time does.
        self.state.with(|state| state.timers.postpone(key, deadline))
    }

    /// Unsets what has expired at `now`, as much as `batch` holds, and puts the values there in the order of their
    /// deadlines. How many.
    pub(crate) fn expire(&self, now: u64, batch: &mut [Option<T>]) -> usize {
        self.state.with(|state| {
            stress::delay();
            let mut count = 0;
            for place in batch {
                let Some(value) = state.timers.expire(now) else { break };
                // Nothing was there: what is overwritten would be dropped here.
                *place = Some(value);
                count += 1;
            }
            self.publish(&state.timers);
            count
        })
    }

    /// Until when the owner may sleep, if timers may be `slack` late to expire together with others.
    pub(crate) fn end_of_batch(&self, slack: u64) -> u64 {
        if self.first() == u64::MAX {
            return u64::MAX;
        }
        self.state.with(|state| state.timers.end_of_batch(slack))
    }

    /// Unsets all timers, and sets none from now on. The values, to be dropped.
    pub(crate) fn close(&self) -> Vec<T> {
        self.state.with(|state| {
            state.closed = true;
            let values = state.timers.take_all();
            self.publish(&state.timers);
            values
        })
    }
}

impl Store<Waker> {
    /// Fires what has expired at `now`. How many timers.
    pub(crate) fn fire(&self, now: u64) -> u64 {
        let mut fired = 0;
        loop {
            let mut batch = [const { None }; BATCH];
            let count = self.expire(now, &mut batch);
            for waker in batch.into_iter().flatten() {
                quietly(|| waker.wake());
            }
            fired += count as u64;
            if count < BATCH {
                return fired;
            }
        }
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_time_is_published() {
        let store = Store::new();
        assert_eq!(store.first(), u64::MAX);
        let (later, first) = store.insert(9, 'b').unwrap();
        assert!(first);
        let (sooner, first) = store.insert(5, 'a').unwrap();
        assert!(first);
        assert_eq!(store.first(), 5);
        assert!(!store.insert(7, 'c').unwrap().1);
        assert_eq!(store.remove(sooner), Some('a'));
        assert_eq!(store.first(), 7);
        let mut batch = [const { None }; 1];
        assert_eq!(store.expire(9, &mut batch), 1);
        assert_eq!((batch[0], store.first()), (Some('c'), 9));
        assert_eq!(store.replace(later, 'd'), (Change::Done('b'), None));
        assert_eq!(store.expire(9, &mut batch), 1);
        assert_eq!((batch[0], store.first()), (Some('d'), u64::MAX));
        assert_eq!(store.replace(later, 'e'), (Change::Expired, Some('e')));
    }

    #[test]
    fn a_closed_store_sets_nothing() {
        let store = Store::new();
        let (key, _) = store.insert(1, 'a').unwrap();
        assert_eq!(store.close(), ['a']);
        assert_eq!(store.insert(1, 'b'), Err('b'));
        assert_eq!(store.replace(key, 'c'), (Change::Closed, Some('c')));
        assert_eq!((store.remove(key), store.first()), (None, u64::MAX));
        assert!(!store.postpone(key, 2));
        assert!(store.close().is_empty());
    }
}
