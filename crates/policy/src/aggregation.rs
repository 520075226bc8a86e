//! Policy 3: which last-level cache a coupling set prefers.
//!
//! A *coupling set* is a number that tasks which share data carry ([`TaskPolicy::set`](crate::TaskPolicy), 0 for none).
//! From cache-aware scheduling (Chen Yu, Tim Chen; Linux 7.2): where a set runs is summed a cache, with halving each epoch,
//! and the cache with the largest sum becomes preferred once it exceeds the old one's twice.
//!
//! This module decides the preference. Nothing acts upon it yet: thieves and a periodic pull will, wakes never.

use quadrille_topology::LlcId;

use crate::{Nanos, config::Aggregation};

/// What is known about a set at the end of an epoch.
#[derive(Clone, Copy, Debug)]
pub struct SetView<'a> {
    /// Run time of the set by last-level cache, halved each epoch.
    pub occupancy: &'a [u64],
    /// Its tasks that run or could.
    pub tasks: u32,
    /// Workers of the smallest last-level cache.
    pub llc_workers: u32,
    /// When the set ran last.
    pub last_run: Nanos,
    /// Now.
    pub now: Nanos,
}

/// The policy state of one coupling set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetPolicy {
    /// The cache that the set prefers.
    pub preferred: Option<LlcId>,
}

impl SetPolicy {
    /// Looks at the preference once an epoch; says whether it changed, which is when others are told.
    ///
    /// There is none for a set that is too large for a cache, of a single task, or idle for [`Aggregation::ttl`].
    pub fn update(&mut self, config: &Aggregation, view: &SetView<'_>) -> bool {
        let old = self.preferred;
        self.preferred = self.preference(config, view);
        self.preferred != old
    }

    fn preference(&self, config: &Aggregation, view: &SetView<'_>) -> Option<LlcId> {
        let too_large = u64::from(view.tasks) * 1024 >= u64::from(view.llc_workers) * u64::from(config.max_set);
        let idle = view.now.since(view.last_run) >= config.ttl;
        if view.tasks < 2 || too_large || idle {
            return None;
        }
        let llcs = (0..).map(LlcId).zip(view.occupancy);
        // The foremost of the largest.
        let (largest, &most) = llcs.reduce(|a, b| if b.1 > a.1 { b } else { a })?;
        let Some(preferred) = self.preferred else {
            return (most > 0).then_some(largest);
        };
        let now = view.occupancy.get(preferred.index()).copied().unwrap_or(0);
        let exceeds = most > now.saturating_mul(u64::from(config.hysteresis));
        Some(if exceeds { largest } else { preferred })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn check(old: Option<u16>, occupancy: &[u64], tasks: u32, idle_ms: u64, new: Option<u16>) {
        let mut set = SetPolicy {
            preferred: old.map(LlcId),
        };
        let view = SetView {
            occupancy,
            tasks,
            llc_workers: 10,
            last_run: Nanos(1_000 * MS),
            now: Nanos((1_000 + idle_ms) * MS),
        };
        let changed = set.update(&Aggregation::default(), &view);
        assert_eq!(set.preferred, new.map(LlcId), "{old:?} {view:?}");
        assert_eq!(changed, old != new, "{old:?} {view:?}");
    }

    #[test]
    fn the_largest_is_preferred_once_it_is_twice_the_old_one() {
        check(None, &[1, 5, 5], 4, 0, Some(1));
        check(None, &[0, 0], 4, 0, None);
        check(None, &[], 4, 0, None);
        check(Some(0), &[10, 20, 3], 4, 0, Some(0));
        check(Some(0), &[10, 21, 3], 4, 0, Some(1));
        check(Some(0), &[0, 0], 4, 0, Some(0));
        check(Some(9), &[1, 0], 4, 0, Some(0));
    }

    #[test]
    fn sets_that_are_alone_too_large_or_idle_prefer_nothing() {
        check(Some(0), &[10, 0], 1, 0, None);
        check(Some(0), &[10, 0], 7, 0, Some(0));
        check(Some(0), &[10, 0], 8, 0, None); // 80 % of 10 workers
        check(Some(0), &[10, 0], 4, 49, Some(0));
        check(Some(0), &[10, 0], 4, 50, None);
    }
}
