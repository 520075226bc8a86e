//! Which worker of a cache has its timers, and how late they may be to expire together.

use crate::{Nanos, Policy, WorkerId};

/// A sleep that has ended later counts as this.
const LATE_MOST: Nanos = Nanos::from_micros(400);

impl Policy {
    /// Those for whom `worker` may fire, if they sleep: of its cache those with a higher number. With both directions
    /// nobody would come to have fewer timers.
    ///
    /// Empty if policy has none looked at (`timer-looks`), or says that no task is short (`short-runs`); else it looks
    /// at so many of them in turn.
    #[must_use]
    pub fn may_fire_for(&self, worker: WorkerId) -> &[WorkerId] {
        if !self.fires_along() {
            return &[];
        }
        let workers = self.behind_cache_of(worker);
        &workers[workers.partition_point(|other| *other <= worker)..]
    }

    /// Who comes to have the timers of `worker`'s cache, if that is another: the first of those that [may fire
    /// for](Self::may_fire_for) it.
    #[must_use]
    pub fn first_to_fire_for(&self, worker: WorkerId) -> Option<WorkerId> {
        if !self.fires_along() {
            return None;
        }
        let workers = self.behind_cache_of(worker);
        workers.first().copied().filter(|first| *first < worker)
    }

    /// Whether [`fires_for_sleeper`](Self::fires_for_sleeper) is ever so. Without short tasks, or looks, there is
    /// nobody whose timers one could fire, and nothing of it that timers could be later or earlier for.
    fn fires_along(&self) -> bool {
        self.config.timers.looks > 0 && self.config.wake_groups.short_runs > 0
    }

    /// The workers of `worker`'s cache.
    fn behind_cache_of(&self, worker: WorkerId) -> &[WorkerId] {
        &self.plan.llcs[self.plan.workers[worker.index()].llc.index()].workers
    }

    /// By how much timers of `worker` may be late to expire with others, of `slack`, given how late it is [on
    /// average](Self::late) anyway: where one fires for others, that is taken off, down to what
    /// [`Timers::slack_div`](crate::Timers::slack_div) leaves, since that one gets up once where each of them did.
    #[must_use]
    pub fn timer_slack(&self, worker: WorkerId, slack: Nanos, late: Nanos) -> Nanos {
        if self.fires_along() && self.behind_cache_of(worker).len() > 1 {
            let least = slack.0 / u64::from(self.config.timers.slack_div.max(1));
            Nanos(slack.0.saturating_sub(late.0).max(least))
        } else {
            slack
        }
    }

    /// How late a worker's sleeps have ended of late that were to end by themselves: an average over some eight, of
    /// which one counts as 400 us at most, so that a machine that was not run for a while is not taken for a slow one.
    ///
    /// ```
    /// use quadrille_policy::{Nanos, Policy};
    ///
    /// let late = (0..100).fold(Nanos(0), |late, _| Policy::late(late, Nanos::from_micros(30)));
    /// assert!((29_900..=30_000).contains(&late.0));
    /// assert!(Policy::late(late, Nanos::from_millis(50)) < Nanos::from_micros(77));
    /// ```
    #[must_use]
    pub fn late(average: Nanos, measured: Nanos) -> Nanos {
        let measured = measured.min(LATE_MOST);
        // Rounded up, so that it comes down to nothing, and not to seven.
        Nanos(average.0 - average.0.div_ceil(8) + measured.0 / 8)
    }

    /// For how long tasks may wait that timers have just woken, with a worker that has nothing else to do, before
    /// somebody is woken for them, given what that costs: for as long as timers may be late, but for no longer than
    /// [`look_up`](crate::Config::look_up), 100 us. They run in the order of their deadlines, so that the first of a
    /// batch, which has been late by the slack, does not wait, and the last, which was due just now, waits for the
    /// slack at most. What it costs alone decides where nobody fires for others (`timer-looks`, `short-runs`).
    #[inline]
    #[must_use]
    pub fn patience_of_timers(&self, wake_cost: Nanos, slack: Nanos) -> Nanos {
        if self.fires_along() {
            wake_cost.max(slack.min(self.config.look_up))
        } else {
            wake_cost
        }
    }

    /// For how long beyond the first of its timers, which may be late by `slack`, a worker sleeps so that the one which
    /// would fire them along comes by, and it need not get up for them: not at all unless that one's own first timer,
    /// which expires at `its_first`, is within the slack of `now`. Who has one so near most often has another when that
    /// has fired. At most [`look_up`](crate::Config::look_up), 100 us.
    #[must_use]
    pub fn left_to_first(&self, now: Nanos, its_first: Nanos, slack: Nanos) -> Nanos {
        let soon = now.0.saturating_sub(slack.0)..=now.0.saturating_add(slack.0);
        if its_first.0 != u64::MAX && soon.contains(&its_first.0) {
            slack.min(self.config.look_up)
        } else {
            Nanos(0)
        }
    }

    /// Whether a worker that is up for a timer of its own fires what has expired with one that sleeps, which has so
    /// many user-level threads; `runs`: the average run of a task on the one and on the other.
    ///
    /// What is fired is set again, as a rule, where it ran: so one worker comes to have all timers of a cache for as
    /// long as it has time for them, and the others sleep. Each time that one gets up for a timer costs 10 to 40 us of
    /// CPU on a virtual machine.
    ///
    /// Not if that would wake the sleeper, because a thread runs on its worker alone, or a longer task goes home; nor
    /// if what is fired would wait long for the other's tasks.
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
        let policy = |config: &str| {
            let config: Config = config.parse().unwrap();
            let plan = Plan::compile(&"llc:2 core:3".parse().unwrap(), &config.plan_options(None)).unwrap();
            Policy::new(config, plan)
        };
        let (default, off, none_short) = (policy("default"), policy("baseline"), policy("short-runs=0"));
        let all: [(&[u16], Option<u16>); 6] = [
            (&[1, 2], None),
            (&[2], Some(0)),
            (&[], Some(0)),
            (&[4, 5], None),
            (&[5], Some(3)),
            (&[], Some(3)),
        ];
        for (worker, (above, first)) in (0..).map(WorkerId).zip(all) {
            let fired_for = default.may_fire_for(worker).iter().map(|worker| worker.0);
            assert!(fired_for.eq(above.iter().copied()), "{worker:?}");
            assert_eq!(default.first_to_fire_for(worker), first.map(WorkerId), "{worker:?}");
            for off in [&off, &none_short] {
                assert!(off.may_fire_for(worker).is_empty());
                assert_eq!(off.first_to_fire_for(worker), None);
            }
        }
    }

    #[test]
    fn timers_are_left_to_who_is_about_to_get_up() {
        let config = Config::default();
        let plan = Plan::compile(&"core:2".parse().unwrap(), &config.plan_options(None)).unwrap();
        let policy = Policy::new(config, plan);
        let (now, slack) = (Nanos::from_millis(5), Nanos::from_micros(90));
        for (its_first, left) in [
            (now, slack),
            (Nanos(now.0 + slack.0), slack),
            (Nanos(now.0 + slack.0 + 1), Nanos(0)),
            (Nanos(now.0 - slack.0), slack),
            (Nanos(now.0 - slack.0 - 1), Nanos(0)),
            (Nanos(u64::MAX), Nanos(0)),
        ] {
            assert_eq!(policy.left_to_first(now, its_first, slack), left, "{its_first:?}");
        }
        let most = Nanos(u64::MAX);
        assert_eq!(policy.left_to_first(now, now, most), policy.config.look_up);
        assert_eq!(policy.left_to_first(now, most, most), Nanos(0), "it has none");
    }

    #[test]
    fn the_slack_is_less_where_one_fires_for_others() {
        for (machine, config, late, expected) in [
            ("llc:2 core:2", "default", 0, 90),
            ("llc:2 core:2", "default", 30, 60),
            ("llc:2 core:2", "default", 45, 45),
            ("llc:2 core:2", "default", 400, 45),
            ("llc:2 core:2", "timer-slack-div=3", 400, 30),
            ("llc:2 core:2", "timer-slack-div=1", 400, 90),
            ("llc:2 core:2", "timer-looks=0", 400, 90),
            // Nobody's timers are fired along, so nobody pays for it.
            ("llc:2 core:2", "short-runs=0", 400, 90),
            ("core:2", "short-runs=0", 400, 90),
            ("llc:2 core:1", "default", 400, 90),
        ] {
            let config: Config = config.parse().unwrap();
            let plan = Plan::compile(&machine.parse().unwrap(), &config.plan_options(None)).unwrap();
            let policy = Policy::new(config, plan);
            for worker in [0, 1].map(WorkerId) {
                let slack = policy.timer_slack(worker, Nanos::from_micros(90), Nanos::from_micros(late));
                assert_eq!(slack, Nanos::from_micros(expected), "{machine}, {worker:?}, {late}");
            }
        }
    }

    #[test]
    fn sleeps_that_end_on_time_again_are_not_late_for_long() {
        let late = |average, measured: u64| Policy::late(average, Nanos::from_micros(measured));
        let once = late(Nanos(0), 1_000_000);
        assert_eq!(once, Nanos::from_micros(50), "an outlier");
        assert!((0..8).fold(once, |average, _| late(average, 0)) < Nanos::from_micros(20));
        assert_eq!((0..200).fold(once, |average, _| late(average, 0)), Nanos(0));
        let most = (0..200).fold(once, |average, _| late(average, 1_000_000));
        assert!(
            most <= Nanos::from_micros(400) && most > Nanos::from_micros(399),
            "{most}"
        );
    }

    #[test]
    fn what_timers_wake_waits_for_the_slack_before_somebody_is_woken_for_it() {
        let cost = |config: &str, wake, slack| {
            let config: Config = config.parse().unwrap();
            let plan = Plan::compile(&"core:2".parse().unwrap(), &config.plan_options(None)).unwrap();
            let policy = Policy::new(config, plan);
            policy.patience_of_timers(Nanos::from_micros(wake), Nanos::from_micros(slack))
        };
        for (wake, slack, expected) in [(10, 90, 90), (91, 90, 91), (10, 0, 10), (10, 5_000, 100)] {
            assert_eq!(cost("default", wake, slack), Nanos::from_micros(expected));
        }
        for off in ["timer-looks=0", "short-runs=0", "baseline"] {
            assert_eq!(cost(off, 10, 90), Nanos::from_micros(10), "{off}");
        }
    }

    #[test]
    fn a_slack_divided_by_nothing_is_whole() {
        let mut config = Config::default();
        config.timers.slack_div = 0;
        let plan = Plan::compile(&"core:2".parse().unwrap(), &config.plan_options(None)).unwrap();
        let slack = Policy::new(config, plan).timer_slack(WorkerId(0), Nanos::from_micros(90), Nanos(1));
        assert_eq!(slack, Nanos::from_micros(90));
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
