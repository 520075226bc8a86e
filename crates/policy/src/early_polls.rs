//! Whether a worker that has run dry polls at once, however short a time ago somebody has.

use crate::Config;

/// [`Config::poll_early`]: no poll is early.
const NEVER: u8 = u8::MAX;

/// How a worker's last early polls have ended, and so whether it polls at once when it has run dry next. A worker keeps
/// one for itself.
///
/// Where a task's own write is what the next one waits for, as with pipes between tasks, the event is there as soon as
/// the worker has run dry. A poll that brings it spares the way to sleep: a search, an announcement, and both taken
/// back. Where the event is yet to come, the poll is one more system call, and dearer than what it would have spared.
/// So a worker polls at once as long as each time has brought something; after one in vain it leaves out 15
/// ([`poll_early`](Config::poll_early)).
///
/// ```
/// use quadrille_policy::{Config, EarlyPolls};
///
/// let config = Config::default();
/// let mut polls = EarlyPolls::default();
/// assert!(polls.are_worth_it(&config));
/// polls.ended(true, &config);
/// assert!(polls.are_worth_it(&config));
/// polls.ended(false, &config);
/// assert_eq!((0..15).filter(|_| polls.are_worth_it(&config)).count(), 0);
/// assert!(polls.are_worth_it(&config));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlyPolls {
    /// So many are yet to be left out.
    left_out: u8,
}

impl EarlyPolls {
    /// Whether to poll, though somebody has less than [`poll_dry`](Config::poll_dry) ago.
    #[inline]
    #[must_use]
    pub fn are_worth_it(&mut self, config: &Config) -> bool {
        let are = self.left_out == 0 && config.poll_early < NEVER;
        self.left_out = self.left_out.saturating_sub(1);
        are
    }

    /// One has ended, with an event that somebody has waited for or without.
    #[inline]
    pub fn ended(&mut self, has_woken: bool, config: &Config) {
        self.left_out = if has_woken { 0 } else { config.poll_early };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of so many times dry, how often a worker polls of whose polls each `period`-th alone is in vain; 0: none is.
    fn polls(config: &str, times: u32, period: u32) -> u32 {
        let config: Config = config.parse().unwrap();
        let mut early = EarlyPolls::default();
        let mut polled = 0;
        for _ in 0..times {
            if early.are_worth_it(&config) {
                polled += 1;
                early.ended(period == 0 || polled % period != 0, &config);
            }
        }
        polled
    }

    #[test]
    fn what_pays_is_done_always_and_what_never_pays_each_sixteenth_time() {
        assert_eq!(polls("default", 1600, 0), 1600);
        assert_eq!(polls("default", 1600, 1), 100);
    }

    /// One of ten in vain: ten polls, and fifteen that are left out.
    #[test]
    fn what_pays_mostly_is_done_in_between() {
        assert_eq!(polls("default", 2500, 10), 1000);
    }

    #[test]
    fn how_many_are_left_out_is_for_the_configuration_to_say() {
        assert_eq!(polls("poll-early=0", 1000, 1), 1000);
        assert_eq!(polls("poll-early=254", 2550, 1), 10);
        assert_eq!(polls("poll-early=255", 1000, 0), 0, "it is off");
    }
}
