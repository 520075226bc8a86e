//! What leaves a cache, what is pulled into one, and what a wake is told about either.

use quadrille_topology::LlcId;

use super::{SetId, SetPolicy};
use crate::{Adversary, GroupPlan, LlcPlan, Nanos, Policy, TaskPolicy};

/// What is known of a last-level cache that a task might move to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlcView {
    /// Which one.
    pub llc: LlcId,
    /// Its utilisation in 1/1024.
    pub util: u16,
    /// Whether it has an idle worker at all.
    pub has_idle: bool,
    /// Workers awake on its node, about: by the caches that stand for it
    /// ([`Plan::about_awake`](crate::Plan::about_awake)).
    pub node_running: u32,
}

/// What is known of a woken task's set and waker. The default says nothing, and is what is told while the policy is
/// off.
#[derive(Clone, Copy, Debug, Default)]
pub struct CouplingView {
    /// The cache that the task's set prefers, unless it is home's.
    pub preferred: Option<LlcView>,
    /// Whether this epoch's [pull](Policy::pull) still takes tasks.
    pub pulls: bool,
    /// The waker's cache, if [`Policy::couple`] said that the task could move there.
    pub waker: Option<LlcView>,
    /// Utilisation of home's cache in 1/1024, found as that of `waker` was, if [`Policy::leads`] asks for it; else 0,
    /// and nobody has to look.
    pub home_util: u16,
    /// Different tasks that the waker has woken of late, once it is known.
    pub wakees: Option<u32>,
}

/// What is known when a worker has more queued than it runs next, and could put a task up for other caches.
#[derive(Clone, Copy, Debug)]
pub struct ExportView {
    /// The task's set.
    pub set: SetId,
    /// The cache that the set prefers.
    pub preferred: Option<LlcId>,
    /// The worker's cache.
    pub llc: LlcId,
    /// Utilisation of that cache in 1/1024.
    pub util: u16,
    /// Whether it has an idle worker at all.
    pub has_idle: bool,
    /// Utilisation of the least busy cache in 1/1024.
    pub least_util: u16,
}

/// What is known when the epoch of a set ends that prefers a cache.
#[derive(Clone, Copy, Debug)]
pub struct PullView<'a> {
    /// The set's state after its update.
    pub set: SetPolicy,
    /// Run time of the set by last-level cache, ns, halved each epoch.
    pub occupancy: &'a [u64],
    /// Utilisation of the preferred cache in 1/1024.
    pub util: u16,
}

impl Policy {
    /// Whether policy 3 acts: it is on, and there are groups and caches to choose from.
    #[inline]
    #[must_use]
    pub fn aggregates(&self) -> bool {
        self.aggregates
    }

    /// Workers of the smallest last-level cache, one a core: what a [`SetView`](crate::SetView) wants to know.
    #[must_use]
    pub fn smallest_llc(&self) -> u32 {
        self.smallest_llc
    }

    /// Whether data of so many bytes fit the smallest last-level cache, as far as a set with such data may prefer one;
    /// yes, if its size is unknown, or without guards.
    #[must_use]
    pub fn fits_cache(&self, bytes: u64) -> bool {
        if !self.config.aggregation.guards {
            return true;
        }
        let sizes = self.plan.llcs.iter().filter_map(|llc| llc.size_bytes);
        sizes.min().is_none_or(|smallest| bytes <= smallest)
    }

    /// Whether a worker that has more queued than it runs next puts the task up for other caches.
    ///
    /// It does, if another cache is less busy and the task's set prefers another one, or none and nobody is idle here;
    /// and whatever the set prefers, once the cache is half busy and clearly busier than the least busy one.
    #[must_use]
    pub fn exports(&self, view: &ExportView) -> bool {
        match self.config.adversary {
            Adversary::None => {}
            Adversary::AlwaysWorkerZero => return view.llc != LlcId(0),
            Adversary::Random | Adversary::Farthest => return true,
        }
        let config = &self.config.aggregation;
        let (util, least) = (u64::from(view.util), u64::from(view.least_util));
        let saturated = view.util >= config.fit && util * 1024 > least * u64::from(config.greater);
        // Few that were declared to belong together stay where they begin until it is known where they run.
        let begins_here = view.preferred.is_none() && view.set.is_packed();
        let prefers_this = view.set.may_prefer() && (view.preferred == Some(view.llc) || begins_here);
        // What prefers nothing is best off with an idle mate of ours, who takes it from our deque.
        let wants_away = view.set.may_prefer() && view.preferred.is_some() || !view.has_idle;
        saturated || (!prefers_this && wants_away && least < util)
    }

    /// Whether a thief that has found nothing for so long may look into any queue of another cache; until then it looks
    /// at what is exported alone.
    #[inline]
    #[must_use]
    pub fn takes_anything(&self, dry_for: Nanos) -> bool {
        !self.aggregates || dry_for >= self.config.aggregation.force_steal_after
    }

    /// How many tasks that live elsewhere a set's preferred cache pulls in this epoch: as many as run elsewhere, as far
    /// as the cache is not half busy with them; at least one, so that what runs seldom comes too.
    #[must_use]
    pub fn pull(&self, view: &PullView<'_>) -> u8 {
        let config = &self.config.aggregation;
        let Some(llc) = view.set.preferred else {
            return 0;
        };
        let elsewhere = view.occupancy.iter().enumerate();
        let elsewhere = elsewhere
            .filter(|(index, _)| *index != llc.index())
            .fold(0_u64, |sum, (_, ns)| sum.saturating_add(*ns));
        if elsewhere == 0 || (config.guards && view.util >= config.fit) {
            return 0;
        }
        let workers = self
            .plan
            .llcs
            .get(llc.index())
            .map_or(0, |plan| plan.workers.len() as u64);
        let room = workers * u64::from(config.fit.saturating_sub(view.util)) / 1024;
        let tasks = elsewhere.div_ceil(config.epoch.0.max(1).saturating_mul(2));
        u8::try_from(tasks.min(room).max(1)).unwrap_or(u8::MAX)
    }

    /// Whether a cache has room for a task: it has an idle worker and is hardly busy, and if it belongs to another
    /// node, that tolerates one more (policy 6).
    #[inline]
    pub(crate) fn has_room(&self, task: &TaskPolicy, target: &LlcView) -> bool {
        let (Some(to), Some(home)) = (self.plan.llcs.get(target.llc.index()), self.home(task)) else {
            return false;
        };
        target.has_idle && self.is_hardly_busy(target) && to.node_admits(self, home, target)
    }

    /// Whether a cache is hardly busy, or nobody asks.
    #[inline]
    pub(super) fn is_hardly_busy(&self, target: &LlcView) -> bool {
        let config = &self.config.aggregation;
        !config.guards || target.util < config.fit
    }

    #[inline]
    fn home(&self, task: &TaskPolicy) -> Option<&GroupPlan> {
        self.plan.groups.get(task.home.index())
    }
}

impl LlcPlan {
    /// Policy 6 on a move from `home` to this cache.
    fn node_admits(&self, policy: &Policy, home: &GroupPlan, target: &LlcView) -> bool {
        self.node == home.node
            || !policy.active().numa
            || target.node_running < policy.plan.nodes[self.node.index()].tolerance
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NODES, policy, task};

    #[test]
    fn what_prefers_to_stay_stays_until_the_cache_is_saturated() {
        let policy = policy(NODES, "default");
        let set = SetId::declared(1);
        let view = |set, preferred: Option<u16>, util, least_util| ExportView {
            set,
            preferred: preferred.map(LlcId),
            llc: LlcId(1),
            util,
            has_idle: false,
            least_util,
        };
        let check = |set, preferred: Option<u16>, util, least_util, exported| {
            let view = view(set, preferred, util, least_util);
            assert_eq!(policy.exports(&view), exported, "{view:?}");
        };
        // With a mate idle, only what prefers another cache leaves.
        for (set, preferred, leaves) in [
            (set, None, false),
            (SetId::NONE, Some(0), false),
            (set.spread(), Some(0), false),
            (set, Some(0), true),
            (set, Some(1), false),
        ] {
            let view = ExportView {
                has_idle: true,
                ..view(set, preferred, 100, 0)
            };
            assert_eq!(policy.exports(&view), leaves, "{view:?}");
        }
        for preferred in [None, Some(0)] {
            check(set, preferred, 100, 0, true);
            check(set, preferred, 100, 100, false);
            check(set, preferred, 1024, 1024, false);
        }
        check(set.packed(), None, 100, 0, false);
        check(set.packed(), None, 512, 0, true);
        check(set.packed(), Some(0), 100, 0, true);
        check(set, Some(1), 511, 0, false);
        check(set, Some(1), 512, 0, true);
        // A fifth more than the least busy one is not yet clearly busier.
        check(set, Some(1), 720, 600, false);
        check(set, Some(1), 721, 600, true);
        // Those prefer nothing, whatever the table says.
        for set in [SetId::NONE, set.spread(), set.unfit()] {
            check(set, Some(1), 100, 0, true);
        }
    }

    #[test]
    fn adversaries_export_too() {
        let view = ExportView {
            set: SetId::declared(1),
            preferred: Some(LlcId(1)),
            llc: LlcId(1),
            util: 0,
            has_idle: true,
            least_util: 1024,
        };
        for (config, exported) in [
            ("default", false),
            ("adversary=zero", true),
            ("adversary=random", true),
            ("adversary=farthest", true),
        ] {
            assert_eq!(policy(NODES, config).exports(&view), exported, "{config}");
        }
    }

    #[test]
    fn a_dry_thief_takes_anything() {
        let on = policy(NODES, "default");
        assert!(!on.takes_anything(Nanos(19_999)));
        assert!(on.takes_anything(Nanos(20_000)));
        for off in ["aggregation=off", "groups=off"] {
            assert!(policy(NODES, off).takes_anything(Nanos(0)), "{off}");
        }
        assert!(policy("core:8", "default").takes_anything(Nanos(0)));
    }

    #[test]
    fn a_cache_pulls_what_it_has_room_for() {
        const MS: u64 = 1_000_000;
        // Caches of eight workers; two epochs are 20 ms.
        let check = |config: &str, preferred: Option<u16>, occupancy_ms: [u64; 2], util, pulled| {
            let occupancy = occupancy_ms.map(|ms| ms * MS);
            let view = PullView {
                set: SetPolicy {
                    preferred: preferred.map(LlcId),
                    spread: false,
                },
                occupancy: &occupancy,
                util,
            };
            assert_eq!(policy(NODES, config).pull(&view), pulled, "{config} {view:?}");
        };
        check("default", None, [20, 20], 0, 0);
        check("default", Some(0), [20, 0], 0, 0);
        check("default", Some(0), [20, 1], 0, 1);
        check("default", Some(0), [20, 20], 0, 1);
        check("default", Some(0), [90, 50], 0, 3);
        check("default", Some(0), [900, 500], 0, 4);
        check("default", Some(0), [900, 500], 256, 2);
        check("default", Some(0), [900, 500], 511, 1);
        check("default", Some(0), [900, 500], 512, 0);
        check("sets-guards=false", Some(0), [900, 500], 1024, 1);
    }

    #[test]
    fn moves_need_room_and_the_consent_of_policy_6() {
        // Two nodes of two caches tolerate two tasks each.
        let target = |llc| LlcView {
            llc: LlcId(llc),
            util: 511,
            has_idle: true,
            node_running: 1,
        };
        let check = |config: &str, target: LlcView, room| {
            let policy = policy(NODES, config);
            let task = task(&policy, 0);
            assert_eq!(policy.has_room(&task, &target), room, "{config} {target:?}");
        };
        check("default", target(1), true);
        let busy = LlcView { util: 512, ..target(1) };
        check("default", busy, false);
        check("sets-guards=false", busy, true);
        let full = LlcView {
            has_idle: false,
            ..target(1)
        };
        check("default", full, false);
        check("default", target(9), false);
        // Across nodes.
        check("default", target(2), true);
        let crowded = LlcView {
            node_running: 2,
            ..target(2)
        };
        check("default", crowded, false);
        check("numa=off", crowded, true);
        check(
            "default",
            LlcView {
                node_running: 9,
                ..target(1)
            },
            true,
        );
    }

    #[test]
    fn data_fit_a_cache_up_to_its_size() {
        const MIB: u64 = 1 << 20;
        let sized = "llc:2 core:4 llc-size:33554432,16777216";
        for (machine, config, bytes, fits) in [
            (sized, "default", 0, true),
            (sized, "default", 16 * MIB, true),
            (sized, "default", 16 * MIB + 1, false),
            (sized, "default", u64::MAX, false),
            // The guard alone makes the difference.
            (sized, "sets-guards=false", 16 * MIB + 1, true),
            (sized, "sets-guards=false", u64::MAX, true),
            // Of unknown size.
            (NODES, "default", u64::MAX, true),
        ] {
            assert_eq!(
                policy(machine, config).fits_cache(bytes),
                fits,
                "{bytes} on {machine} with {config}"
            );
        }
    }
}
