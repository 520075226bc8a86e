//! Which worker a thread is bound to.
//!
//! A thread that has started stays with its worker for good, so whoever comes first must not get them all: a worker
//! that is awake would have started a thousand before another one is worth waking. So the worker that is about to start
//! a thread compares with another one of its cache, chosen at random, by threads that have started there and not ended,
//! and leaves it to that one if that has noticeably fewer and is idle, or on its way; and the next ones, until both
//! have as many. Threads that end without ever waiting are not counted: for them it does not matter.

use crate::{Adversary, Bind, Nanos, Policy, WorkerId};

/// A worker that had threads which have not begun at each of several looks of a thief, and was left them.
///
/// Whoever has some at every look for [`Bind::patience`] is behind with them: the thief has more threads, and nothing
/// to do, and they wait for nobody else. Then nothing is left to it any more, while that goes on:
/// [`Policy::threads_to_steal`] is told that the thief has waited for so long. A look that finds nothing ends it, and
/// so do two that are more than an eighth of the patience apart, and more than two [pauses](Bind::pause), which tell
/// nothing of the time between them.
///
/// ```
/// # use quadrille_policy::{Backlog, Bind, Nanos, WorkerId};
/// let (bind, victim) = (Bind::default(), WorkerId(1));
/// let looks = (0..=10).map(Nanos::from_millis);
/// let backlog = looks.fold(None, |log, at| Some(Backlog::seen(log, victim, at, &bind))).unwrap();
/// assert!(backlog.is_behind(victim, Nanos::from_millis(11), &bind));
/// assert!(!backlog.is_behind(victim, Nanos::from_millis(12), &bind));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    victim: WorkerId,
    /// The first of the looks.
    since: Nanos,
    /// The last one.
    last: Nanos,
}

impl Backlog {
    /// Looks further apart than this part of the patience are not of one row,
    const GAP_DIV: u64 = 8;
    /// unless that is less than so many pauses, which a thief makes between any two.
    const PAUSES: u64 = 2;

    /// A look at `now` has found threads that are left to `victim`, or taken for it; `before` is what is known of the
    /// looks before.
    #[must_use]
    pub fn seen(before: Option<Self>, victim: WorkerId, now: Nanos, bind: &Bind) -> Self {
        let before = before.filter(|before| before.goes_on(victim, now, bind));
        Self {
            victim,
            since: before.map_or(now, |before| before.since),
            last: now,
        }
    }

    /// Whether `victim` has had threads for longer than is left to it.
    #[must_use]
    pub fn is_behind(&self, victim: WorkerId, now: Nanos, bind: &Bind) -> bool {
        self.goes_on(victim, now, bind) && self.last.since(self.since) >= bind.patience
    }

    /// Whether the looks were at `victim`.
    #[must_use]
    pub fn is_of(&self, victim: WorkerId) -> bool {
        self.victim == victim
    }

    fn goes_on(&self, victim: WorkerId, now: Nanos, bind: &Bind) -> bool {
        let gap = (bind.patience.0 / Self::GAP_DIV).max(bind.pause.0.saturating_mul(Self::PAUSES));
        self.is_of(victim) && now.since(self.last).0 <= gap
    }
}

impl Policy {
    /// Whether a thread that is about to start on a worker with `own` started threads is bound to an idle one with
    /// `other` started threads instead: if that is more than an eighth ([`Bind::share_div`](crate::Bind::share_div))
    /// and [`Bind::slack`](crate::Bind::slack) fewer; or any fewer, if the one before it `went` there, so that those
    /// that were spawned together are seldom parted.
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

    /// How many threads that have not begun a thief with `own` started threads steals at most from their spawner, which
    /// has `there`, those among them, and has been in the middle of the same task for as long as the thief has
    /// `waited`; zero: they are left to it.
    ///
    /// So many that both have as many then, and none if that is not more than an eighth
    /// ([`Bind::share_div`](crate::Bind::share_div)) of what the thief has: threads that were spawned together shall be
    /// parted once, not one by one. Who has hardly any ([`Bind::slack`](crate::Bind::slack)), or has waited for
    /// [`Bind::patience`](crate::Bind::patience), takes what there is.
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
    use super::Backlog;
    use crate::testing::{PAIR, policy};
    use crate::{Bind, Nanos, WorkerId};

    /// Looks at worker 3, at so many ms.
    fn looks(at_ms: impl IntoIterator<Item = u64>) -> Backlog {
        let seen = |log, at| {
            Some(Backlog::seen(
                log,
                WorkerId(3),
                Nanos::from_millis(at),
                &Bind::default(),
            ))
        };
        at_ms.into_iter().fold(None, seen).unwrap()
    }

    #[test]
    fn who_has_threads_at_every_look_is_behind() {
        for (log, victim, at_ms, behind) in [
            (looks(100..=110), 3, 110, true),
            (looks(100..=110), 3, 111, true),
            (looks(100..=110), 3, 112, false),
            (looks(100..=110), 2, 110, false),
            (looks(100..=109), 3, 109, false),
            (looks(101..=110), 3, 110, false),
            (looks((100..105).chain(107..=114)), 3, 114, false),
            (looks((100..105).chain(107..=117)), 3, 117, true),
            (looks([100]), 3, 100, false),
        ] {
            let now = Nanos::from_millis(at_ms);
            assert_eq!(
                log.is_behind(WorkerId(victim), now, &Bind::default()),
                behind,
                "{log:?}, {victim}, {at_ms} ms"
            );
        }
        let other = Backlog::seen(
            Some(looks(100..=110)),
            WorkerId(2),
            Nanos::from_millis(110),
            &Bind::default(),
        );
        assert!(other.is_of(WorkerId(2)) && !other.is_of(WorkerId(3)));
        assert!(!other.is_behind(WorkerId(2), Nanos::from_millis(110), &Bind::default()));
    }

    /// Looks are a pause apart, and one more where the thief was at something else.
    #[test]
    fn a_patience_of_few_pauses_comes_to_an_end() {
        for (patience_us, pause_us) in [(100, 50), (1, 50), (10_000, 2_000), (0, 50)] {
            let (patience, pause) = (Nanos::from_micros(patience_us), Nanos::from_micros(pause_us));
            let bind = Bind {
                patience,
                pause,
                ..Bind::default()
            };
            let (mut log, mut now) = (None, Nanos(0));
            for looks in 0.. {
                assert!(looks < 100, "{bind:?}");
                let seen = Backlog::seen(log, WorkerId(3), now, &bind);
                assert_eq!(
                    seen.is_behind(WorkerId(3), now, &bind),
                    now >= patience,
                    "{bind:?}, {now}"
                );
                if now >= patience {
                    break;
                }
                log = Some(seen);
                now.0 += pause.0 * (1 + looks % 2);
            }
        }
    }

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
