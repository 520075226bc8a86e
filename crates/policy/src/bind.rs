//! Which worker a thread is bound to.
//!
//! A thread that has started stays with its worker for good, so whoever comes first must not get them all: a worker that is
//! awake would have started a thousand before another one is worth waking. So the worker that is about to start a thread
//! compares with another one of its cache, chosen at random, if that is idle, by threads that have started there and not ended, and leaves it
//! to that one if that has noticeably fewer. Threads that end without ever waiting are not counted: for them it does not matter.

use crate::{Adversary, Policy};

impl Policy {
    /// Whether a thread that is about to start on a worker with `own` started threads is bound to one with `other` instead: if
    /// that is more than an eighth and [`Config::bind_slack`](crate::Config::bind_slack) fewer.
    ///
    /// ```
    /// # use quadrille_policy::{Config, Plan, PlanOptions, Policy};
    /// # let machine = "llc:1 core:8".parse::<quadrille_topology::Topology>().unwrap();
    /// # let plan = Plan::compile(&machine, &PlanOptions::default()).unwrap();
    /// let policy = Policy::new(Config::default(), plan);
    /// assert!(policy.binds_elsewhere(1000, 500));
    /// assert!(!policy.binds_elsewhere(1000, 900));
    /// ```
    #[inline]
    #[must_use]
    pub fn binds_elsewhere(&self, own: u32, other: u32) -> bool {
        if self.config.adversary != Adversary::None {
            return true;
        }
        let most = other.saturating_add(own / 8).saturating_add(self.config.bind_slack);
        own > most
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{PAIR, policy};

    #[test]
    fn small_differences_are_none() {
        let policy_of = |config: &str| policy(PAIR, config);
        for (config, own, other, elsewhere) in [
            ("default", 0, 0, false),
            ("default", 8, 0, false),
            ("default", 9, 0, false),
            ("default", 10, 0, true),
            ("default", 100, 80, false),
            ("default", 100, 79, true),
            ("default", u32::MAX, 0, true),
            ("default", u32::MAX, u32::MAX, false),
            ("bind-slack=0", 1, 0, true),
            ("adversary=random", 0, 1000, true),
            ("bind-slack=1000000", 1_000_000, 0, false),
        ] {
            assert_eq!(
                policy_of(config).binds_elsewhere(own, other),
                elsewhere,
                "{config}: {own}, {other}"
            );
        }
    }
}
