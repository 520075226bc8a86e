//! Whether a worker that has run dry polls before it goes to sleep.

use crate::{Config, Nanos};

/// [`Config::poll_early`]: no poll is early; [`Config::poll_vain`]: no late one is left out.
const NEVER: u8 = u8::MAX;

/// How a worker's last polls have ended that it made when it had run dry, and so whether it makes the next. A worker
/// keeps one for itself.
///
/// A poll that brings something spares the way to sleep: a search, an announcement, and both taken back, and with many
/// connections a sleep. Where the event is yet to come, the poll is one more system call, and dearer than what it would
/// have spared. How likely it is depends on how long ago somebody has polled last, so that two kinds are told apart:
///
/// - *Early*, sooner than 20 us after that ([`poll_dry`](Config::poll_dry)). Where a task's own write is what the next
///   one waits for, as with pipes between tasks, the event is there as soon as the worker has run dry. So it polls as
///   long as each such poll has brought something; after one in vain it leaves out 15
///   ([`poll_early`](Config::poll_early)).
/// - *Late*: tasks have run for a while. Of many connections one has often sent something meanwhile, and who finds it
///   awake collects more together; a single one still waits for the answer that it was sent just now. After eight in a
///   row in vain ([`poll_vain`](Config::poll_vain)) as many are left out after each one, until one brings something.
///
/// ```
/// use quadrille_policy::{Config, DryPolls, Nanos};
///
/// let config = Config::default();
/// let mut polls = DryPolls::default();
/// let early = Nanos::from_micros(2);
/// assert!(polls.are_worth_it(early, &config));
/// polls.ended(early, false, &config);
/// assert_eq!((0..15).filter(|_| polls.are_worth_it(early, &config)).count(), 0);
/// assert!(polls.are_worth_it(early, &config));
///
/// let late = Nanos::from_micros(20);
/// for _ in 0..8 {
///     assert!(polls.are_worth_it(late, &config));
///     polls.ended(late, false, &config);
/// }
/// assert_eq!((0..15).filter(|_| polls.are_worth_it(late, &config)).count(), 0);
/// assert!(polls.are_worth_it(late, &config));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DryPolls {
    /// So many early ones are yet to be left out.
    early_left_out: u8,
    /// So many late ones are.
    late_left_out: u8,
    /// So many late ones in a row were in vain; 255: or more.
    late_in_vain: u8,
}

impl DryPolls {
    /// Whether to poll, so long after somebody has polled last.
    #[inline]
    #[must_use]
    pub fn are_worth_it(&mut self, since: Nanos, config: &Config) -> bool {
        let is_early = since < config.poll_dry;
        let left_out = if is_early {
            &mut self.early_left_out
        } else {
            &mut self.late_left_out
        };
        let are = *left_out == 0 && !(is_early && config.poll_early == NEVER);
        *left_out = left_out.saturating_sub(1);
        are
    }

    /// The poll has ended that came so long after the one before, with an event that somebody has waited for or
    /// without.
    #[inline]
    pub fn ended(&mut self, since: Nanos, has_woken: bool, config: &Config) {
        if since < config.poll_dry {
            self.early_left_out = if has_woken { 0 } else { config.poll_early };
            return;
        }
        self.late_in_vain = if has_woken {
            0
        } else {
            self.late_in_vain.saturating_add(1)
        };
        if config.poll_vain < NEVER && config.poll_early < NEVER && self.late_in_vain >= config.poll_vain {
            self.late_left_out = config.poll_early;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLY: Nanos = Nanos::from_micros(5);
    const LATE: Nanos = Nanos::from_micros(20);

    /// Of so many times dry, how often a worker polls; `brings` says of each poll, counted from 1, whether it brings
    /// something.
    fn polls(config: &str, since: Nanos, times: u32, brings: impl Fn(u32) -> bool) -> u32 {
        let config: Config = config.parse().unwrap();
        let mut dry = DryPolls::default();
        let mut polled = 0;
        for _ in 0..times {
            if dry.are_worth_it(since, &config) {
                polled += 1;
                dry.ended(since, brings(polled), &config);
            }
        }
        polled
    }

    #[test]
    fn what_pays_is_done_always_and_what_never_pays_each_sixteenth_time() {
        assert_eq!(polls("default", EARLY, 1600, |_| true), 1600);
        assert_eq!(polls("default", EARLY, 1600, |_| false), 100);
        assert_eq!(polls("default", LATE, 1600, |_| true), 1600);
        assert_eq!(polls("default", LATE, 7 + 1600, |_| false), 7 + 100);
    }

    /// One of ten in vain: of the early ones ten polls, and fifteen that are left out.
    #[test]
    fn what_pays_mostly_is_done_in_between() {
        assert_eq!(polls("default", EARLY, 2500, |poll| !poll.is_multiple_of(10)), 1000);
    }

    #[test]
    fn of_late_ones_none_is_left_out_before_eight_in_a_row_were_in_vain() {
        assert_eq!(polls("default", LATE, 800, |poll| poll.is_multiple_of(8)), 800);
        // Nine polls, of which the eighth is followed by a pause.
        assert_eq!(polls("default", LATE, 24 * 100, |poll| poll.is_multiple_of(9)), 900);
    }

    #[test]
    fn how_many_are_left_out_is_for_the_configuration_to_say() {
        let never = |_| false;
        assert_eq!(polls("poll-early=0", EARLY, 1000, never), 1000);
        assert_eq!(polls("poll-early=254", EARLY, 2550, never), 10);
        assert_eq!(polls("poll-early=255", EARLY, 1000, |_| true), 0, "it is off");
        assert_eq!(polls("poll-early=0", LATE, 1000, never), 1000);
        assert_eq!(polls("poll-early=255", LATE, 1000, never), 1000);
        assert_eq!(polls("poll-vain=1", LATE, 1600, never), 100);
        assert_eq!(polls("poll-vain=254", LATE, 253 + 160, never), 253 + 10);
        assert_eq!(polls("poll-vain=255", LATE, 1000, never), 1000, "none is left out");
        assert_eq!(polls("poll-dry=0ns", EARLY, 7 + 1600, never), 7 + 100, "each is late");
    }

    #[test]
    fn the_two_kinds_say_nothing_of_each_other() {
        let config = Config::default();
        let mut dry = DryPolls::default();
        dry.ended(EARLY, false, &config);
        assert!(dry.are_worth_it(LATE, &config) && !dry.are_worth_it(EARLY, &config));
        let mut dry = DryPolls::default();
        (0..8).for_each(|_| dry.ended(LATE, false, &config));
        assert!(dry.are_worth_it(EARLY, &config) && !dry.are_worth_it(LATE, &config));
    }
}
