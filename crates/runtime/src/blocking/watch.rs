//! A thread that is out of jobs watches for the next one before it sleeps.
//!
//! Who waits for a job often has the next one right after, and to wake a thread costs more than most jobs take. So one
//! thread at a time spins for as long as two wake-ups cost: its own, and that of the worker which goes on with the
//! answer. It leaves that out when it has been in vain lately, as workers do ([`Spins`]).

use quadrille_policy::{Config, Nanos, Spins};

use crate::primitives::{AtomicBool, AtomicU64, Ordering};
use crate::sys::clock;

/// What the lock protects of it.
#[derive(Default)]
pub(super) struct Post {
    watcher: Watcher,
    /// How the last watches have ended, whoever it was.
    spins: Spins,
}

#[cfg(all(test, not(quadrille_loom)))]
impl Post {
    /// Whether somebody watches to whom nothing was promised.
    pub(super) fn is_watched(&self) -> bool {
        self.watcher == Watcher::Watching
    }
}

/// Who watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Watcher {
    #[default]
    Nobody,
    /// A thread to whom nothing was promised.
    Watching,
    /// A thread that has been told of a promise, and has not come back.
    Told,
}

/// What is read without the lock.
pub(super) struct Watch {
    config: Config,
    /// For how long to watch, ns; zero: not at all.
    limit: AtomicU64,
    /// What `Watcher::Told` says, for who spins: a hint, he looks under the lock.
    told: AtomicBool,
}

impl Watch {
    pub(super) fn new(config: Config) -> Self {
        Self {
            config,
            limit: AtomicU64::new(0),
            told: AtomicBool::new(false),
        }
    }

    /// From now on a thread watches for so long.
    pub(super) fn lasts(&self, limit: Nanos) {
        // Ordering: Relaxed, here and below; a duration. Written only if it is another: who watches reads the line.
        if self.limit.load(Ordering::Relaxed) != limit.0 {
            self.limit.store(limit.0, Ordering::Relaxed);
        }
    }

    /// For how long the caller, who is about to sleep, shall watch before, unless it is told.
    pub(super) fn begins(&self, post: &mut Post) -> Option<Nanos> {
        // Ordering: Relaxed; as in `lasts`.
        let limit = Nanos(self.limit.load(Ordering::Relaxed));
        let begins = limit != Nanos(0) && post.watcher == Watcher::Nobody && post.spins.are_worth_it(&self.config);
        if !begins {
            return None;
        }
        post.watcher = Watcher::Watching;
        // Ordering: Relaxed; who tells us has the lock after us. Who is late to tell the last one only ends our watch
        // early.
        self.told.store(false, Ordering::Relaxed);
        Some(limit)
    }

    /// Spins; without the lock.
    pub(super) fn spin(&self, limit: Nanos) {
        // Ordering: Relaxed; a hint.
        let _told = clock::spin(limit.0, || self.told.load(Ordering::Relaxed));
    }

    /// The watcher is back.
    pub(super) fn ends(post: &mut Post) {
        let watcher = std::mem::take(&mut post.watcher);
        post.spins.ended(watcher == Watcher::Told);
    }

    /// Whether somebody watches, who has a promise now and needs no wake-up, but to be [told](Self::tells).
    pub(super) fn is_promised(post: &mut Post) -> bool {
        let watches = post.watcher == Watcher::Watching;
        if watches {
            post.watcher = Watcher::Told;
        }
        watches
    }

    /// Ends the spin; without the lock, which who spins takes at once. If he has come back meanwhile, another one who
    /// watches may take it for his, and looks in vain.
    pub(super) fn tells(&self) {
        // Ordering: Relaxed; a hint.
        self.told.store(true, Ordering::Relaxed);
    }
}
