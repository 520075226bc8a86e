//! Which worker a thread is bound to.
//!
//! A thread that has started stays with its worker for good, so whoever comes first must not get them all: a worker that is
//! awake would have started a thousand before another one is worth waking. So the worker that is about to start a thread
//! compares with another one of its cache, chosen at random, by threads that have started there and not ended, and leaves it to that one
//! if that has noticeably fewer and is idle, or on its way; and the next ones, until both have as many. Threads that end without ever waiting are not counted: for them it does not matter.

use crate::{Adversary, Nanos, Policy};

impl Policy {
    /// Whether a thread that is about to start on a worker with `own` started threads is bound to an idle one with `other` started
    /// threads instead: if that is more than an eighth ([`Bind::share_div`](crate::Bind::share_div)) and
    /// [`Bind::slack`](crate::Bind::slack) fewer; or any fewer, if
    /// the one before it `went` there, so that those that were spawned together are seldom parted.
    ///
    /// ```
    /// # use quadrille_policy::{Config, Plan, PlanOptions, Policy};
    /// # let machine = "llc:1 core:8".parse::<quadrille_topology::Topology>().unwrap();
    /// # let plan = Plan::compile(&machine, &PlanOptions::default()).unwrap();
    /// let policy = Policy::new(Config::default(), plan);
    /// assert!(policy.binds_elsewhere(1000, 500, false));
    /// assert!(!policy.binds_elsewhere(1000, 900, false));
    /// assert!(policy.binds_elsewhere(1000, 900, true));
    /// ```
    #[inline]
    #[must_use]
    pub fn binds_elsewhere(&self, own: u32, other: u32, went: bool) -> bool {
        if self.config.adversary != Adversary::None {
            return true;
        }
        let bind = &self.config.bind;
        let more = own.saturating_sub(other);
        if went {
            return more > 0;
        }
        // Divided only if it may matter: most threads start where few others have.
        more > bind.slack && more - bind.slack > own / bind.share_div.max(1)
    }

    /// How many threads that have not begun a thief with `own` started threads steals at most from their spawner, which has `there`, those
    /// among them, and has been in the middle of the same task for as long as the thief has `waited`; zero: they are left to it.
    ///
    /// So many that both have as many then, and none if that is not more than an eighth ([`Bind::share_div`](crate::Bind::share_div)) of what
    /// the thief has: threads that were spawned together shall be parted once, not one by one. Who has hardly any
    /// ([`Bind::slack`](crate::Bind::slack)), or has waited for [`Bind::patience`](crate::Bind::patience), takes what there is.
    ///
    /// ```
    /// # use quadrille_policy::{Config, Nanos, Plan, PlanOptions, Policy};
    /// # let machine = "llc:1 core:8".parse::<quadrille_topology::Topology>().unwrap();
    /// # let plan = Plan::compile(&machine, &PlanOptions::default()).unwrap();
    /// let policy = Policy::new(Config::default(), plan);
    /// assert_eq!(policy.threads_to_steal(100, 300, Nanos(0)), 100);
    /// assert_eq!(policy.threads_to_steal(100, 120, Nanos::from_millis(9)), 0);
    /// assert_eq!(policy.threads_to_steal(100, 120, Nanos::from_millis(10)), u32::MAX);
    /// assert_eq!(policy.threads_to_steal(8, 1, Nanos(0)), u32::MAX);
    /// ```
    #[inline]
    #[must_use]
    pub fn threads_to_steal(&self, own: u32, there: u32, waited: Nanos) -> u32 {
        let bind = &self.config.bind;
        if waited >= bind.patience {
            return u32::MAX;
        }
        if self.config.adversary != Adversary::None {
            return 0;
        }
        if own <= bind.slack {
            return u32::MAX;
        }
        let half = there.saturating_sub(own) / 2;
        if half > own / bind.share_div.max(1) { half } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use crate::Nanos;
    use crate::testing::{PAIR, policy};

    #[test]
    fn small_differences_are_none() {
        let policy_of = |config: &str| policy(PAIR, config);
        for (config, own, other, first, next) in [
            ("default", 0, 0, false, false),
            ("default", 8, 0, false, true),
            ("default", 9, 0, false, true),
            ("default", 10, 0, true, true),
            ("default", 100, 80, false, true),
            ("default", 100, 79, true, true),
            ("default", 100, 100, false, false),
            ("default", u32::MAX, 0, true, true),
            ("default", u32::MAX, u32::MAX, false, false),
            ("bind-slack=0", 1, 0, true, true),
            ("adversary=random", 0, 1000, true, true),
            ("bind-slack=1000000", 1_000_000, 0, false, true),
            ("bind-div=1,bind-slack=0", 1_000, 0, false, true),
            ("bind-div=2", 100, 41, true, true),
            ("bind-div=2", 100, 42, false, true),
        ] {
            for (went, elsewhere) in [(false, first), (true, next)] {
                let answer = policy_of(config).binds_elsewhere(own, other, went);
                assert_eq!(answer, elsewhere, "{config}: {own}, {other}, {went}");
            }
        }
    }

    #[test]
    fn a_thief_takes_half_of_what_the_spawner_has_more() {
        for (config, own, there, waited_ms, most) in [
            ("default", 0, 1, 0, u32::MAX),
            ("default", 8, 0, 0, u32::MAX),
            ("default", 9, 0, 0, 0),
            ("default", 9, 12, 0, 0),
            ("default", 9, 13, 0, 2),
            ("default", 100, 125, 0, 0),
            ("default", 100, 126, 0, 13),
            ("default", 100, 1_000, 9, 450),
            ("default", 100, 0, 10, u32::MAX),
            ("default", u32::MAX, u32::MAX, 0, 0),
            ("bind-div=2", 100, 201, 0, 0),
            ("bind-div=2", 100, 202, 0, 51),
            ("bind-slack=0", 1, 2, 0, 0),
            ("bind-slack=1000000", 1_000_000, 0, 0, u32::MAX),
            ("bind-patience=0ns", 100, 0, 0, u32::MAX),
            ("adversary=random", 0, 1_000, 0, 0),
            ("adversary=random", 0, 1_000, 10, u32::MAX),
        ] {
            let answer = policy(PAIR, config).threads_to_steal(own, there, Nanos::from_millis(waited_ms));
            assert_eq!(answer, most, "{config}: {own}, {there}, {waited_ms} ms");
        }
    }
}
