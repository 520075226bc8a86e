//! Whether a worker that has run dry polls at once, however short a time ago somebody has.

/// After a poll in vain, so many are left out.
const LEFT_OUT: u8 = 15;

/// How a worker's last early polls have ended, and so whether it polls at once when it has run dry next. A worker keeps one for itself.
///
/// Where a task's own write is what the next one waits for, as with pipes and sockets between tasks, the event is there as soon as the worker has run dry. A
/// poll that brings it spares what the way to sleep takes: a search, an announcement, and both taken back. Where the event is yet to come, the poll is one more system call, and dearer than what it
/// would have spared. So it polls at once as long as each time has brought something; after one in vain it leaves out 15.
///
/// ```
/// use quadrille_policy::EarlyPolls;
///
/// let mut polls = EarlyPolls::default();
/// assert!(polls.are_worth_it());
/// polls.ended(true);
/// assert!(polls.are_worth_it());
/// polls.ended(false);
/// assert_eq!((0..15).filter(|_| polls.are_worth_it()).count(), 0);
/// assert!(polls.are_worth_it());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlyPolls {
    /// So many are yet to be left out.
    left_out: u8,
}

impl EarlyPolls {
    /// Whether to poll, though somebody has less than [`poll_dry`](crate::Config::poll_dry) ago.
    #[inline]
    #[must_use]
    pub fn are_worth_it(&mut self) -> bool {
        let are = self.left_out == 0;
        self.left_out = self.left_out.saturating_sub(1);
        are
    }

    /// One has ended, with an event that somebody has waited for or without.
    #[inline]
    pub fn ended(&mut self, has_woken: bool) {
        self.left_out = if has_woken { 0 } else { LEFT_OUT };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of so many times dry, how often a worker polls of whose polls each `period`-th alone is in vain; 0: none is.
    fn polls(times: u32, period: u32) -> u32 {
        let mut early = EarlyPolls::default();
        let mut polled = 0;
        for _ in 0..times {
            if early.are_worth_it() {
                polled += 1;
                early.ended(period == 0 || polled % period != 0);
            }
        }
        polled
    }

    #[test]
    fn what_pays_is_done_always_and_what_never_pays_each_sixteenth_time() {
        assert_eq!(polls(1600, 0), 1600);
        assert_eq!(polls(1600, 1), 100);
    }

    /// One of ten in vain: ten polls, and fifteen that are left out.
    #[test]
    fn what_pays_mostly_is_done_in_between() {
        assert_eq!(polls(2500, 10), 1000);
    }
}
