//! Whose deques a dry worker looks at behind one last-level cache, and in what order.

use crate::{LlcId, Policy, WorkerId};

impl Policy {
    /// The workers behind `llc` in the order in which `thief` looks at their deques: first the mates of its own group, with which it shares
    /// an L2, then all others; of each the `start`-th first, so that thieves who draw it do not all begin at the same. Without groups
    /// nobody has mates.
    ///
    /// A number is better drawn below the number of workers there; any will do.
    ///
    /// ```
    /// # use quadrille_policy::{Config, LlcId, Plan, Policy, WorkerId};
    /// // One cache of eight, groups of four.
    /// let config: Config = "groups=on,group=4".parse()?;
    /// let plan = Plan::compile(&"core:8".parse::<quadrille_topology::Topology>()?, &config.plan_options(None))?;
    /// let policy = Policy::new(config, plan);
    /// let victims = policy.victims(WorkerId(1), LlcId(0), 6).map(|worker| worker.0);
    /// assert!(victims.eq([0, 2, 3, 6, 7, 4, 5]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn victims(&self, thief: WorkerId, llc: LlcId, start: usize) -> impl Iterator<Item = WorkerId> {
        let plan = &self.plan;
        let group = |worker: WorkerId| plan.workers.get(worker.index()).map(|plan| plan.group);
        let own = group(thief).filter(|_| self.groups_on());
        let workers = plan.llcs.get(llc.index()).map_or(&[][..], |llc| &llc.workers);
        let (before, after) = workers.split_at(start.checked_rem(workers.len()).unwrap_or(0));
        let all = after
            .iter()
            .chain(before)
            .copied()
            .filter(move |worker| *worker != thief);
        let is_mate = move |worker: &WorkerId| own.is_some() && group(*worker) == own;
        all.clone()
            .filter(is_mate)
            .chain(all.filter(move |worker| !is_mate(worker)))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::testing::{NODES, policy};

    fn victims(machine: &str, config: &str, thief: u16, llc: u16, start: usize) -> Vec<u16> {
        let policy = policy(machine, config);
        policy
            .victims(WorkerId(thief), LlcId(llc), start)
            .map(|worker| worker.0)
            .collect()
    }

    #[test]
    fn mates_come_first_then_the_rest_of_the_cache_each_from_where_the_draw_says() {
        // Two groups of four behind each cache.
        assert_eq!(victims(NODES, "default", 9, 1, 0), [8, 10, 11, 12, 13, 14, 15]);
        assert_eq!(victims(NODES, "default", 9, 1, 2), [10, 11, 8, 12, 13, 14, 15]);
        assert_eq!(victims(NODES, "default", 9, 1, 5), [8, 10, 11, 13, 14, 15, 12]);
        assert_eq!(victims(NODES, "default", 9, 1, 13), [8, 10, 11, 13, 14, 15, 12]);
        // Behind another cache it has none.
        assert_eq!(victims(NODES, "default", 9, 0, 3), [3, 4, 5, 6, 7, 0, 1, 2]);
        assert_eq!(victims(NODES, "groups=off", 9, 1, 2), [10, 11, 12, 13, 14, 15, 8]);
    }

    /// Mates that a map put behind another cache are looked at there.
    #[test]
    fn scattered_mates_are_robbed_behind_their_own_cache() {
        let (machine, map) = ("llc:2 core:3", "groups=on,group-map=0+3/1+4/2+5");
        assert_eq!(victims(machine, map, 0, 0, 1), [1, 2]);
        assert_eq!(victims(machine, map, 0, 1, 1), [3, 4, 5]);
    }

    #[test]
    fn any_number_is_safe() {
        assert_eq!(victims(NODES, "default", 9, 999, 7), []);
        assert_eq!(victims("core:1", "default", 0, 0, 3), []);
        assert_eq!(victims("core:2", "groups=on", 9, 0, 1), [1, 0]);
    }
}
