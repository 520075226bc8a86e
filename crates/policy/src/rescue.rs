//! When a group's queue is drained by somebody who is no member of it.
//!
//! 1. **By a searcher of the same cache**: what has waited for longer than
//!    [`rescue_llc`](crate::WakeGroups::rescue_llc), and then, whatever its age, what is left to members who are all
//!    away ([`Policy::members_are_away`]). A member between two short tasks comes sooner than the waiting task's data
//!    would come to another cache. Where all members are in tasks so long that none of them is expected within that
//!    patience, to wait gains nothing, and costs the whole patience, or the sentinel's, once the searcher sleeps. It is
//!    so for a task that posts to another at the end of a long run: who is posted to goes home, to somebody in the
//!    middle of the next long run, while its waker is about to have nothing to do.
//! 2. **By the sentinel** ([`Glances`]), which looks for queues that nobody drains, mailboxes being nobody's own.

use crate::{Config, Nanos, Policy};

impl Policy {
    /// Whether none of the `members` of a group, all of whom are in a task, is expected within
    /// [`rescue_llc`](crate::WakeGroups::rescue_llc), so that a searcher of their last-level cache need not wait so
    /// long for them.
    ///
    /// `shortest_run` is the average run of the member whose tasks are the shortest (zero: unknown). Of members who are
    /// each somewhere in a run of that length, the first will be through after one part in `members + 1` of it. Without
    /// groups nothing waits there but new threads for a worker that was woken for them, and the answer is always no.
    /// There is no other switch: `rescue-llc=1s,rescue-any=1s` waits for nearly everybody.
    ///
    /// ```
    /// use quadrille_policy::{Config, Nanos, Plan, Policy};
    ///
    /// let config: Config = "groups=on".parse()?;
    /// let plan = Plan::compile(&"l2:2 core:4".parse()?, &config.plan_options(None))?;
    /// let policy = Policy::new(config, plan);
    /// assert!(!policy.members_are_away(4, Nanos::from_micros(250)));
    /// assert!(policy.members_are_away(4, Nanos::from_micros(251)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn members_are_away(&self, members: usize, shortest_run: Nanos) -> bool {
        let patience = self.config.wake_groups.rescue_llc.0;
        self.groups_on() && shortest_run.0 > patience.saturating_mul(members as u64 + 1)
    }
}

/// What a sentinel's glances at the groups' queues have seen, and so when it glances next. A worker keeps one for
/// itself.
///
/// A queue that nobody drains is found within twice [`rescue_any`](crate::WakeGroups::rescue_any), which is what a
/// glance each `rescue_any` costs: a sleep and its end, 5,000 times a second, as long as anybody works now and then.
/// Where members come to their queues in time, and nearly everywhere they do, that buys nothing. So after 8 looks in a
/// row that found nothing overdue (`glance-vain`), also because nobody was awake, it looks once in its whole interval
/// ([`Config::sentinel_interval`]), until something is: the first such queue waits for at most the two together, 700
/// us.
///
/// ```
/// use quadrille_policy::{Config, Glances, Nanos};
///
/// let config = Config::default();
/// let mut glances = Glances::default();
/// assert_eq!(glances.interval(&config), Nanos::from_micros(200));
/// (0..8).for_each(|_| glances.ended(false));
/// assert_eq!(glances.interval(&config), Nanos::from_micros(500));
/// glances.ended(true);
/// assert_eq!(glances.interval(&config), Nanos::from_micros(200));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Glances {
    /// Looks in a row that found nothing, as far as that can be counted.
    vain: u8,
}

/// A sentinel sleeps for so long at least, as by the range of its interval: with a rescue age of zero it would never
/// sleep.
const GLANCE_MIN: Nanos = Nanos::from_micros(20);

impl Glances {
    /// Between a look at the groups' queues and the next.
    #[inline]
    #[must_use]
    pub fn interval(&self, config: &Config) -> Nanos {
        let Config {
            wake_groups,
            sentinel_interval,
            ..
        } = config;
        if self.vain < wake_groups.glance_vain || wake_groups.glance_vain == u8::MAX {
            wake_groups.rescue_any.max(GLANCE_MIN).min(*sentinel_interval)
        } else {
            *sentinel_interval
        }
    }

    /// A look at the groups' queues has ended, and found one that is overdue or did not.
    #[inline]
    pub fn ended(&mut self, found: bool) {
        self.vain = if found { 0 } else { self.vain.saturating_add(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    fn are_away(config: &str, members: usize, run_us: u64) -> bool {
        let config: Config = config.parse().unwrap();
        let plan = Plan::compile(&"l2:2 core:4".parse().unwrap(), &config.plan_options(None)).unwrap();
        Policy::new(config, plan).members_are_away(members, Nanos::from_micros(run_us))
    }

    #[test]
    fn the_first_of_n_is_expected_after_one_part_in_n_and_one() {
        for (members, longest) in [(1, 100), (2, 150), (4, 250)] {
            assert!(!are_away("groups=on", members, 0), "unknown");
            assert!(!are_away("groups=on", members, longest), "{members}");
            assert!(are_away("groups=on", members, longest + 1), "{members}");
            assert!(!are_away("groups=off", members, longest + 1), "{members}");
        }
        assert!(!are_away("groups=on,rescue-llc=200us", 1, 400));
        assert!(are_away("groups=on,rescue-llc=0ns", 1, 1));
    }

    /// The interval after so many glances in vain, in microseconds.
    fn interval(config: &str, vain: u32) -> u64 {
        let mut glances = Glances::default();
        (0..vain).for_each(|_| glances.ended(false));
        glances.interval(&config.parse().unwrap()).0 / 1_000
    }

    #[test]
    fn glances_end_when_they_never_pay() {
        for (vain, us) in [(0, 200), (7, 200), (8, 500), (255, 500), (1_000, 500)] {
            assert_eq!(interval("default", vain), us, "{vain}");
        }
        assert_eq!(interval("glance-vain=0", 0), 500);
        assert_eq!(interval("glance-vain=255", 1_000), 200, "never");
    }

    #[test]
    fn an_interval_is_neither_zero_nor_beyond_the_sentinels() {
        assert_eq!(interval("rescue-any=0ns,rescue-llc=0ns", 0), 20);
        assert_eq!(interval("rescue-any=30ms", 0), 500);
    }
}
