//! Whether a worker that is up for a timer fires those of one that sleeps.

use crate::{Nanos, Policy, WorkerId};

impl Policy {
    /// Those for whom `worker` may fire, if they sleep: of its cache those with a higher number. With both directions nobody would come to have fewer timers.
    ///
    /// Empty if policy has none looked at (`timer-looks`); else it looks at so many of them in turn.
    #[must_use]
    pub fn may_fire_for(&self, worker: WorkerId) -> &[WorkerId] {
        if self.config.timer_looks == 0 {
            return &[];
        }
        let workers = &*self.plan.llcs[self.plan.workers[worker.index()].llc.index()].workers;
        &workers[workers.partition_point(|other| *other <= worker)..]
    }

    /// Whether a worker that is up for a timer of its own fires what has expired with one that sleeps, which has so many user-level threads;
    /// `runs`: the average run of a task on the one and on the other.
    ///
    /// What is fired is set again, as a rule, where it ran: so one worker comes to have all timers of a cache for as long as it has time for them,
    /// and the others sleep. Each time that one gets up for a timer costs 10 to 40 us of CPU on a virtual machine.
    ///
    /// Not if that would wake the sleeper, because a thread runs on its worker alone, or a longer task goes home; nor if what is fired would wait long for the
    /// other's tasks.
    ///
    /// ```
    /// use quadrille_policy::{Config, Nanos, Plan, Policy};
    ///
    /// let config = Config::default();
    /// let plan = Plan::compile(&"core:2".parse()?, &config.plan_options(None))?;
    /// let policy = Policy::new(config, plan);
    /// let (run, wake_cost) = (Nanos(800), Nanos::from_micros(10));
    /// assert!(policy.fires_for_sleeper(0, (run, run), wake_cost));
    /// assert!(!policy.fires_for_sleeper(1, (run, run), wake_cost));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn fires_for_sleeper(&self, threads: u32, (own_run, sleeper_run): (Nanos, Nanos), wake_cost: Nanos) -> bool {
        let is_known = !self.groups_on() || sleeper_run.0 > 0;
        threads == 0 && is_known && self.is_short(own_run, Nanos(sleeper_run.0.max(1)), wake_cost)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Nanos, Plan, Policy, WorkerId};

    #[test]
    fn one_fires_for_those_above_behind_its_cache() {
        let of = |config: &str, worker| {
            let config: Config = config.parse().unwrap();
            let plan = Plan::compile(&"llc:2 core:3".parse().unwrap(), &config.plan_options(None)).unwrap();
            let workers = Policy::new(config, plan).may_fire_for(WorkerId(worker)).to_vec();
            workers
                .into_iter()
                .map(|worker| worker.0)
                .collect::<alloc::vec::Vec<_>>()
        };
        let all: [&[u16]; 6] = [&[1, 2], &[2], &[], &[4, 5], &[5], &[]];
        for (worker, above) in (0..).zip(all) {
            assert_eq!(of("default", worker), above, "{worker}");
            assert!(of("baseline", worker).is_empty());
        }
    }

    #[test]
    fn longer_tasks_are_left_to_their_worker() {
        let (short, long, cost) = (Nanos(800), Nanos::from_millis(1), Nanos::from_micros(10));
        for (groups, runs, fires) in [
            ("off", (short, short), true),
            ("off", (Nanos(0), Nanos(0)), true),
            ("off", (long, short), false),
            ("off", (short, long), false),
            ("on", (short, Nanos(0)), false),
            ("on", (short, short), true),
            ("on", (short, long), false),
            ("on,short-runs=0", (short, short), false),
        ] {
            let config: Config = alloc::format!("groups={groups}").parse().unwrap();
            let plan = Plan::compile(&"core:8".parse().unwrap(), &config.plan_options(None)).unwrap();
            let policy = Policy::new(config, plan);
            assert_eq!(
                policy.fires_for_sleeper(0, runs, cost),
                fires,
                "groups={groups}, {runs:?}"
            );
        }
    }
}
