//! The park word: how one worker sleeps and is woken.

use std::time::Duration;

use quadrille_policy::Nanos;

use crate::primitives::Ordering;
use crate::reactor::Polled;
use crate::sys::clock;
use crate::sys::futex::Futex;

/// Its worker is awake, or about to look at the word.
const RUN: u32 = 0;
/// Its worker sleeps on the word.
const PARKED: u32 = 1;
/// Somebody owes nothing any more: the worker shall go on.
const TOKEN: u32 = 2;
/// Its worker sleeps in the poll of a shard: this one, and so on (L).
const POLLING: u32 = 3;

/// What ended a wait on a park word.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A token, which is consumed.
    Token,
    /// The time-out.
    TimedOut,
    /// Events, which are collected (L).
    Events,
    /// Nothing that concerns the worker: a notification for who held the duty before (L a), or events that nobody waits
    /// for.
    Nothing,
}

/// Where a token has found a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Awake, or it has a token already.
    Awake,
    /// Asleep on the word; it was woken.
    Parked,
    /// Asleep in the poll of this shard, which is to be notified.
    Polling(usize),
}

/// A worker's park word: only its worker waits on it, anyone who owes it a token posts one.
#[derive(Debug)]
pub(crate) struct ParkWord(Futex);

impl ParkWord {
    pub(crate) fn new() -> Self {
        Self(Futex::new(RUN))
    }

    /// Posts a token; calls the kernel only if the worker sleeps on the word.
    #[must_use = "one that polls is to be notified"]
    pub(crate) fn unpark(&self) -> Found {
        // Ordering: Release; (P a) what the claimer published happens before what the worker does after `consume`.
        match self.0.word.swap(TOKEN, Ordering::Release) {
            RUN | TOKEN => Found::Awake,
            PARKED => {
                self.0.wake();
                Found::Parked
            }
            polling => Found::Polling((polling - POLLING) as usize),
        }
    }

    /// Whether a token is there.
    #[inline]
    pub(crate) fn has_token(&self) -> bool {
        // Ordering: Relaxed; `consume` acquires.
        self.0.word.load(Ordering::Relaxed) == TOKEN
    }

    /// Spins until a token is there, but not for longer than `limit`; whether it is.
    pub(crate) fn spin(&self, limit: Nanos) -> bool {
        clock::spin(limit.0, || self.has_token())
    }

    /// Takes a token if there is one.
    pub(crate) fn consume(&self) -> bool {
        // Ordering: Acquire; pairs with `unpark` (P a).
        self.0
            .word
            .compare_exchange(TOKEN, RUN, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Sleeps until a token is posted, or `timeout` has passed.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Wait {
        // Ordering: Acquire on failure; a token was there first (P a). Relaxed on success; nothing was handed over.
        if self
            .0
            .word
            .compare_exchange(RUN, PARKED, Ordering::Relaxed, Ordering::Acquire)
            .is_ok()
        {
            loop {
                self.0.wait(PARKED, timeout);
                // Ordering: Relaxed; the swap below acquires.
                if self.0.word.load(Ordering::Relaxed) == TOKEN {
                    break;
                }
                // Spurious returns of an untimed wait go round; those of a timed one count as time-outs.
                if timeout.is_some()
                    && self
                        .0
                        .word
                        .compare_exchange(PARKED, RUN, Ordering::Relaxed, Ordering::Relaxed)
                        .is_ok()
                {
                    return Wait::TimedOut;
                }
            }
        }
        self.take_token()
    }

    /// Takes the token that is there.
    fn take_token(&self) -> Wait {
        // Ordering: Acquire; pairs with `unpark` (P a).
        self.0.word.swap(RUN, Ordering::Acquire);
        Wait::Token
    }

    /// Sleeps in the poll of `shard`, whose duty the caller has, by calling `poll` once.
    pub(crate) fn wait_polling(&self, shard: usize, poll: impl FnOnce() -> Polled) -> Wait {
        let polling = POLLING + u32::try_from(shard).expect("LLCs fit u16");
        // Ordering: Acquire on failure; a token was there first (P a). Relaxed on success; nothing was handed over.
        let exchanged = self
            .0
            .word
            .compare_exchange(RUN, polling, Ordering::Relaxed, Ordering::Acquire);
        if exchanged.is_ok() {
            let polled = poll();
            // Ordering: Relaxed; nothing was handed over. With a token there the swap below acquires.
            let left = self
                .0
                .word
                .compare_exchange(polling, RUN, Ordering::Relaxed, Ordering::Relaxed);
            if left.is_ok() {
                return match polled {
                    Polled::Events(_) => Wait::Events,
                    Polled::Notified => Wait::Nothing,
                    Polled::Nothing => Wait::TimedOut,
                };
            }
        }
        self.take_token()
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_spin_ends_with_the_token_or_with_its_time() {
        let word = ParkWord::new();
        assert!(!word.spin(Nanos(0)));
        let start = clock::nanos();
        assert!(!word.spin(Nanos::from_micros(100)));
        assert!(clock::nanos() - start >= 100_000);
        assert_eq!(word.unpark(), Found::Awake, "nobody sleeps");
        assert!(word.spin(Nanos(u64::MAX)));
        assert!(word.consume(), "it takes nothing");
    }
}
