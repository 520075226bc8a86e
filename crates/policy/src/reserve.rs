//! Policy 2, reservation: an idle worker is kept for the task that it ran last, if that will be back shortly.
//!
//! From Chen Yu's `SIS_CACHE` (d49cf5748aa7c6d69580315d2373a9eafa21c21f.1694397335.git.yu.c.chen@intel.com, not
//! merged): a task that sleeps for moments finds its processor taken by another one that was woken meanwhile, moves,
//! and takes somebody else's. So wake-ups of other tasks pass by a processor that was left for so long only as its last
//! task sleeps on average.
//!
//! A group whose idle members are all kept looks to [`Policy::place_wake`] like one where all are busy, so a task may
//! be placed elsewhere than without, or stay with its waker. No claim is refused: who queues a task and finds no other
//! idle worker takes a kept one, and a reservation ends by itself. It is asked by wakers alone; what is queued for
//! anybody, and what thieves take, wakes and may have whoever is idle.
//!
//! The average is the worker's, of the sleeps after which the task that had run last was the next to run there, so that
//! a task needs no field for it. Differently from the kernel's, a worker whose tasks sleep for longer than
//! [`IdleFilter::reserve`] is not kept at all: it would be kept in vain.

use crate::{GroupMask, Nanos, Policy, config::IdleFilter};

/// Who ran last on a worker, and for how long such tasks are away. A worker keeps one for itself.
///
/// ```
/// use quadrille_policy::{Nanos, Plan, Policy};
///
/// let plan = Plan::compile(&"llc:1 l2:2 core:4".parse()?, &Default::default())?;
/// let policy = Policy::new("filter-reserve=50us".parse()?, plan);
/// let mut reserve = policy.new_reserve();
/// let us = Nanos::from_micros;
/// reserve.runs(7, us(100));
/// assert_eq!(reserve.parks(us(110)), Nanos(0)); // nothing is known yet
/// reserve.runs(7, us(130)); // back after 20 us
/// assert_eq!(reserve.parks(us(140)), us(160));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserve {
    /// Zero: off.
    limit: Nanos,
    /// What it ran last; zero: nothing yet.
    task: u64,
    /// When it parked and has not run anything since.
    parked: Option<Nanos>,
    /// Average sleep of what it ran last; zero: unknown.
    average: Nanos,
}

impl Reserve {
    pub(crate) fn new(filter: &IdleFilter) -> Self {
        Self {
            limit: filter.reserve,
            ..Self::default()
        }
    }

    /// Whether it does anything.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.limit.0 != 0
    }

    /// The worker runs the task with this number, which is never zero.
    #[inline]
    pub fn runs(&mut self, task: u64, now: Nanos) {
        if let Some(parked) = self.parked.take()
            && task == self.task
        {
            let (old, slept) = (self.average.0, now.since(parked).0);
            let average = if old == 0 { slept } else { old - old / 4 + slept / 4 };
            self.average = Nanos(average.max(1));
        }
        self.task = task;
    }

    /// It parks: until when it is kept for what it ran last; zero: it is not.
    #[must_use]
    pub fn parks(&mut self, now: Nanos) -> Nanos {
        if !self.is_on() || self.task == 0 {
            return Nanos(0);
        }
        // A worker that was woken for nothing goes on waiting.
        let since = *self.parked.get_or_insert(now);
        let until = Nanos(since.0.saturating_add(self.average.0));
        if (1..=self.limit.0).contains(&self.average.0) && until > now {
            until
        } else {
            Nanos(0)
        }
    }
}

impl Policy {
    /// Whether workers are kept for the tasks that they ran last.
    #[inline]
    #[must_use]
    pub fn reserves(&self) -> bool {
        self.active().idle_filter && self.config.idle_filter.reserve.0 != 0
    }

    /// What a worker remembers to that end.
    #[must_use]
    pub fn new_reserve(&self) -> Reserve {
        if self.reserves() {
            Reserve::new(&self.config.idle_filter)
        } else {
            Reserve::default()
        }
    }

    /// Which of the `idle` members of a group a waker may claim at first, if some are `kept`: the others, and the one
    /// that ran the woken task last.
    #[inline]
    #[must_use]
    pub fn claimable(idle: GroupMask, kept: GroupMask, own: Option<u8>) -> GroupMask {
        let own = own.map_or(0, |member| GroupMask::only(member).0);
        GroupMask(idle.0 & (!kept.0 | own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::policy;

    const US: u64 = 1_000;

    fn reserve(limit: Nanos) -> Reserve {
        Reserve::new(&IdleFilter {
            reserve: limit,
            ..IdleFilter::default()
        })
    }

    /// A worker whose task sleeps for so long, each time; how long it is kept when it parks next.
    fn kept_for(limit: Nanos, sleep: Nanos) -> u64 {
        let mut reserve = reserve(limit);
        let mut now = Nanos(1_000_000);
        for _ in 0..20 {
            reserve.runs(5, now);
            now.0 += 3 * US;
            let _until = reserve.parks(now);
            now.0 += sleep.0;
        }
        reserve.runs(5, now);
        reserve.parks(now).since(now).0
    }

    #[test]
    fn a_worker_is_kept_for_as_long_as_its_task_sleeps() {
        let limit = Nanos::from_micros(50);
        for sleep in [1, 20, 50] {
            let kept = kept_for(limit, Nanos::from_micros(sleep));
            assert!(kept.abs_diff(sleep * US) <= 4, "{sleep} us: {kept} ns");
        }
        for sleep in [51, 1_000, 1_000_000] {
            assert_eq!(kept_for(limit, Nanos::from_micros(sleep)), 0, "{sleep} us");
        }
        for sleep in [0, 1, 20, 50] {
            assert_eq!(kept_for(Nanos(0), Nanos::from_micros(sleep)), 0, "off");
        }
    }

    /// Whatever happens, nobody is kept for longer than the limit from when it first parked.
    #[test]
    fn a_reservation_ends() {
        for seed in 1..=50 {
            let mut rng = crate::Rng::new(seed);
            let limit = Nanos::from_micros(50);
            let (mut reserve, mut now, mut since) = (reserve(limit), Nanos(1), None);
            for _ in 0..2_000 {
                now.0 += u64::from(rng.below(80_000));
                if rng.below(2) == 0 {
                    reserve.runs(u64::from(rng.below(3)) + 1, now);
                    since = None;
                } else {
                    let first = *since.get_or_insert(now);
                    let until = reserve.parks(now);
                    assert!(
                        until == Nanos(0) || (until > now && until.0 <= first.0 + limit.0),
                        "seed {seed}"
                    );
                }
            }
        }
    }

    #[test]
    fn only_sleeps_that_the_same_task_ended_count() {
        let mut reserve = reserve(Nanos::from_micros(50));
        for turn in 0..10_u64 {
            reserve.runs(1 + turn % 2, Nanos(turn * 10_000));
            assert_eq!(
                reserve.parks(Nanos(turn * 10_000 + 1)),
                Nanos(0),
                "another one came each time"
            );
        }
    }

    #[test]
    fn a_worker_that_was_woken_for_nothing_is_kept_no_longer() {
        let mut reserve = reserve(Nanos::from_micros(50));
        reserve.runs(5, Nanos(0));
        assert_eq!(reserve.parks(Nanos(1_000)), Nanos(0));
        reserve.runs(5, Nanos(21_000));
        let until = reserve.parks(Nanos(30_000));
        assert_eq!(until, Nanos(50_000));
        assert_eq!(reserve.parks(Nanos(45_000)), until);
        assert_eq!(reserve.parks(Nanos(50_000)), Nanos(0));
    }

    #[test]
    fn a_kept_worker_is_its_own_tasks_alone() {
        for idle in 0..16_u64 {
            for kept in 0..16_u64 {
                let [idle, kept] = [GroupMask(idle), GroupMask(kept)];
                for own in [None, Some(0), Some(1), Some(2), Some(3)] {
                    let may = Policy::claimable(idle, kept, own);
                    for member in 0..4 {
                        let expected = idle.has(member) && (!kept.has(member) || own == Some(member));
                        assert_eq!(may.has(member), expected, "{idle:?} {kept:?} {own:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn it_is_off_by_default_and_without_the_filter() {
        let check = |text, on| {
            let policy = policy("llc:1 l2:2 core:4", text);
            assert_eq!((policy.reserves(), policy.new_reserve().is_on()), (on, on), "{text}");
        };
        check("default", false);
        check("filter-reserve=50us", true);
        check("filter-reserve=50us,filter=off", false);
        check("filter-reserve=0ns", false);
    }
}
