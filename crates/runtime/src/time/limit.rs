//! Until when something is waited for that may spend the budget of each poll.

use std::task::{Context, Poll};
use std::time::Duration;

use super::Instant;
use super::entry::TimerEntry;
use crate::coop;

/// A deadline beside a future or a stream, which is polled first.
#[derive(Debug)]
pub(super) struct Limit {
    timer: TimerEntry,
    /// The last poll that had budget spent all of it.
    spends_all: bool,
}

impl Limit {
    #[track_caller]
    #[inline]
    pub(super) fn after(duration: Duration) -> Self {
        Self::of(TimerEntry::after(duration))
    }

    #[track_caller]
    #[inline]
    pub(super) fn at(deadline: Instant) -> Self {
        Self::of(TimerEntry::at(deadline))
    }

    #[inline]
    fn of(timer: TimerEntry) -> Self {
        Self {
            timer,
            spends_all: false,
        }
    }

    /// Whether the time has passed, after what is waited for was polled and was pending; it `had_budget` then, or had
    /// not.
    #[inline]
    pub(super) fn poll(&mut self, had_budget: bool, cx: &mut Context<'_>) -> Poll<()> {
        let spends_all = had_budget && !coop::has_budget_remaining();
        if spends_all && self.spends_all {
            // It has spent all the budget once more, and may do so in each poll: the deadline counts even so. Not at
            // once: with what was left it may only have come too short.
            return self.timer.poll(cx);
        }
        // A poll without budget says nothing of it.
        if had_budget {
            self.spends_all = spends_all;
        }
        coop::poll_progress(cx, |cx| self.timer.poll(cx))
    }
}
