//! When workers that sleep get up by themselves (F c).

use crossbeam_utils::CachePadded;

use super::park::Sleepers;
use crate::primitives::{AtomicU64, Ordering};

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

/// By worker: when it gets up, if it sleeps; `u64::MAX`: not by itself. One writer each.
#[derive(Debug)]
pub(super) struct Alarms(Box<[CachePadded<AtomicU64>]>);

impl Alarms {
    pub(super) fn new(workers: usize) -> Self {
        Self(
            (0..workers)
                .map(|_| CachePadded::new(AtomicU64::new(u64::MAX)))
                .collect(),
        )
    }

    /// `worker`, which is idle, will sleep no longer than that.
    pub(super) fn set(&self, worker: usize, alarm: Alarm) {
        let time = match alarm {
            Alarm::At { time, .. } => time,
            Alarm::Never | Alarm::Now => u64::MAX,
        };
        // Ordering: Relaxed; who reads it too late wakes somebody in vain.
        self.0[worker].store(time, Ordering::Relaxed);
    }

    /// `worker` is up. Before it announces itself again: else who then reads the time of an earlier sleep would rely on it.
    pub(super) fn clear(&self, worker: usize) {
        // Ordering: Relaxed; its own.
        if self.0[worker].load(Ordering::Relaxed) != u64::MAX {
            // Ordering: Relaxed; (F c) before the fence of its next announcement (W1 B), against that of who asks.
            self.0[worker].store(u64::MAX, Ordering::Relaxed);
        }
    }
}

impl Sleepers {
    /// Whether an idle worker gets up by itself after `now`, and not after `soon`. For one who has fenced (`is_unwatched`).
    pub(super) fn someone_gets_up(&self, now: u64, soon: u64) -> bool {
        self.alarms.0.iter().enumerate().any(|(worker, alarm)| {
            // Ordering: Relaxed; (F c) the caller's fence has come before.
            let time = alarm.load(Ordering::Relaxed);
            now < time && time <= soon && self.is_idle(worker)
        })
    }

    /// Whether `worker`'s idle bit is set.
    pub(crate) fn is_idle(&self, worker: usize) -> bool {
        let seat = self.seat(worker);
        self.idle.members(seat.group) & (1 << seat.member) != 0
    }
}
