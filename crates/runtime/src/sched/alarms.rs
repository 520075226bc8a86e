//! When workers that sleep get up by themselves (F c).

use std::ops::RangeInclusive;

use crossbeam_utils::CachePadded;

use super::park::Sleepers;
use crate::lines;
use crate::primitives::{AtomicU64, AtomicUsize, Ordering};

/// For how long a worker may sleep for its own sake, whether or not anybody wakes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// As long as it takes.
    Never,
    /// Until that time, by the clock; so many ns from now.
    At { time: u64, left: u64 },
    /// Not at all: there is something to do.
    Now,
}

impl Alarm {
    /// When the sleep ends; `u64::MAX`: not by that.
    pub(super) fn time(self) -> u64 {
        match self {
            Self::At { time, .. } => time,
            Self::Never | Self::Now => u64::MAX,
        }
    }
}

/// When workers get up by themselves.
#[derive(Debug)]
pub(super) struct Alarms {
    /// By worker: when, if it sleeps; `u64::MAX`: not by itself. One writer each.
    times: Box<[CachePadded<AtomicU64>]>,
    /// Whom somebody relied on last: most likely the next one can, too. Else each look would be at all workers.
    likely: CachePadded<AtomicUsize>,
}

impl Alarms {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            times: (0..workers)
                .map(|_| CachePadded::new(AtomicU64::new(u64::MAX)))
                .collect(),
            likely: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    /// `worker`, which is idle, will sleep no longer than until then. Later than it said before only as sentinel:
    /// others rely on it (O).
    pub(super) fn set(&self, worker: usize, time: u64) {
        // Ordering: Relaxed; who reads it too late wakes somebody in vain.
        self.times[worker].store(time, Ordering::Relaxed);
    }

    /// `worker` is up. Before it announces itself again: else who then reads the time of an earlier sleep would rely on
    /// it.
    pub(super) fn clear(&self, worker: usize) {
        // Ordering: Relaxed; its own.
        if self.times[worker].load(Ordering::Relaxed) != u64::MAX {
            // Ordering: Relaxed; (F c) before the fence of its next announcement (W1 B), against that of who asks.
            self.times[worker].store(u64::MAX, Ordering::Relaxed);
        }
    }
}

impl Sleepers {
    /// Whether `worker` is idle and gets up by itself at one of these times. For one who has fenced.
    fn gets_up(&self, worker: usize, times: &RangeInclusive<u64>) -> bool {
        lines::touch(&self.alarms.times[worker]);
        // Ordering: Relaxed; (F c) the caller's fence has come before.
        let time = self.alarms.times[worker].load(Ordering::Relaxed);
        times.contains(&time) && self.is_idle(worker)
    }

    /// The same of any worker. For one who has fenced (`is_unwatched`).
    pub(super) fn someone_gets_up(&self, times: &RangeInclusive<u64>) -> bool {
        if self.likely_gets_up(times) {
            return true;
        }
        let found = (0..self.alarms.times.len()).find(|worker| self.gets_up(*worker, times));
        if let Some(worker) = found {
            self.relies_on(worker);
        }
        found.is_some()
    }

    /// The same of the one that somebody relied on last.
    pub(super) fn likely_gets_up(&self, times: &RangeInclusive<u64>) -> bool {
        lines::touch(&self.alarms.likely);
        // Ordering: Relaxed; a hint.
        self.gets_up(self.alarms.likely.load(Ordering::Relaxed), times)
    }

    /// Others shall look at `worker` first.
    pub(super) fn relies_on(&self, worker: usize) {
        // Ordering: Relaxed; a hint.
        self.alarms.likely.store(worker, Ordering::Relaxed);
    }

    /// When the first idle worker but this one gets up by itself, if any does.
    pub(super) fn first_alarm_but(&self, worker: usize) -> Option<u64> {
        let others = (0..self.alarms.times.len()).filter(|other| *other != worker);
        // Ordering: Relaxed; a hint: whom it keeps asleep for too long is woken (O).
        let first = others
            .map(|other| self.alarms.times[other].load(Ordering::Relaxed))
            .min()?;
        (first != u64::MAX).then_some(first)
    }

    /// Whether `worker`'s idle bit is set.
    pub(crate) fn is_idle(&self, worker: usize) -> bool {
        let seat = self.seat(worker);
        self.idle.members(seat.group) & (1 << seat.member) != 0
    }
}
