//! Whose deques a dry worker looks at behind one last-level cache, and in what order.

use core::iter::once_with;

use crate::{Cause, LlcId, Policy, WorkerId};

impl Policy {
    /// The workers behind `llc` in the order in which `thief` looks at their deques: the mates of its own group, which
    /// share an L2 or a small cache by default, from the `start`-th on, then all others, in the same way, so that
    /// thieves who draw it do not all begin at one. Without groups nobody has mates. A rescuer ([`Cause::Rescue`])
    /// comes for whoever is stuck, and looks at mates as at others: they may never be without tasks (W5).
    ///
    /// `start` is drawn below the number of workers there, or anywhere; below that number, the first few of the others
    /// are the first up to twice as often as the rest.
    ///
    /// ```
    /// # use quadrille_policy::{Cause, Config, LlcId, Plan, Policy, WorkerId};
    /// // One cache of eight, groups of four.
    /// let config: Config = "groups=on,group=4".parse()?;
    /// let plan = Plan::compile(&"core:8".parse::<quadrille_topology::Topology>()?, &config.plan_options(None))?;
    /// let policy = Policy::new(config, plan);
    /// let victims = policy.victims(WorkerId(1), LlcId(0), 5, Cause::Steal).map(|worker| worker.0);
    /// assert!(victims.eq([3, 0, 2, 5, 6, 7, 4]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn victims(&self, thief: WorkerId, llc: LlcId, start: usize, cause: Cause) -> impl Iterator<Item = WorkerId> {
        let plan = &self.plan;
        let own = self.worker(thief).map(|plan| plan.group);
        let own = own.filter(|_| self.groups_on() && cause != Cause::Rescue);
        let is_mate = move |worker: WorkerId| own.is_some_and(|own| plan.workers[worker.index()].group == own);
        let members = own.map_or(&[][..], |own| &plan.groups[own.index()].members);
        let mates = members.iter().copied();
        let mates = mates.filter(move |worker| *worker != thief && plan.workers[worker.index()].llc == llc);
        let behind = plan.llcs.get(llc.index()).map_or(&[][..], |llc| &llc.workers);
        let others = behind.iter().copied();
        let others = others.filter(move |worker| *worker != thief && !is_mate(*worker));
        from(mates, start).chain(once_with(move || from(others, start)).flatten())
    }
}

/// All of `items`, from the `start`-th on.
fn from<T>(items: impl Iterator<Item = T> + Clone, start: usize) -> impl Iterator<Item = T> {
    let first = start.checked_rem(items.clone().count()).unwrap_or(0);
    items.clone().skip(first).chain(items.take(first))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::testing::{NODES, policy};

    fn victims(machine: &str, config: &str, (thief, llc): (u16, u16), start: usize) -> Vec<u16> {
        let policy = policy(machine, config);
        let victims = policy.victims(WorkerId(thief), LlcId(llc), start, Cause::Steal);
        victims.map(|worker| worker.0).collect()
    }

    #[test]
    fn mates_come_first_then_the_rest_of_the_cache_each_from_where_the_draw_says() {
        // Two groups of four behind each cache.
        assert_eq!(victims(NODES, "default", (9, 1), 0), [8, 10, 11, 12, 13, 14, 15]);
        assert_eq!(victims(NODES, "default", (9, 1), 2), [11, 8, 10, 14, 15, 12, 13]);
        assert_eq!(victims(NODES, "default", (9, 1), 7), [10, 11, 8, 15, 12, 13, 14]);
        // Behind another cache it has none.
        assert_eq!(victims(NODES, "default", (9, 0), 3), [3, 4, 5, 6, 7, 0, 1, 2]);
        assert_eq!(victims(NODES, "groups=off", (9, 1), 2), [11, 12, 13, 14, 15, 8, 10]);
    }

    #[test]
    fn a_rescuer_has_no_mates() {
        let policy = policy(NODES, "default");
        let victims = policy.victims(WorkerId(9), LlcId(1), 4, Cause::Rescue);
        assert!(victims.map(|worker| worker.0).eq([13, 14, 15, 8, 10, 11, 12]));
    }

    /// Each mate is the first nearly as often as any, and each of the others at most twice as often as any other.
    #[test]
    fn thieves_do_not_meet_at_one_deque() {
        let policy = policy("core:16", "groups=on,group=4");
        let first_after = |skipped: usize| {
            let mut first = [0; 16];
            for start in 0..16 {
                let mut victims = policy.victims(WorkerId(5), LlcId(0), start, Cause::Steal).skip(skipped);
                first[victims.next().unwrap().index()] += 1;
            }
            first
        };
        assert_eq!(first_after(0)[4..8], [6, 0, 5, 5]);
        let others = first_after(3);
        assert_eq!((&others[..4], &others[8..]), (&[2; 4][..], &[1; 8][..]));
    }

    /// Mates that a map put behind another cache are looked at there.
    #[test]
    fn scattered_mates_are_robbed_behind_their_own_cache() {
        let (machine, map) = ("llc:2 core:3", "groups=on,group-map=0+3/1+4/2+5");
        assert_eq!(victims(machine, map, (0, 0), 1), [2, 1]);
        assert_eq!(victims(machine, map, (0, 1), 1), [3, 5, 4]);
    }

    #[test]
    fn any_number_is_safe() {
        assert_eq!(victims(NODES, "default", (9, 999), 7), []);
        assert_eq!(victims("core:1", "default", (0, 0), 3), []);
        assert_eq!(victims("core:2", "groups=on", (9, 0), 1), [1, 0]);
    }
}
