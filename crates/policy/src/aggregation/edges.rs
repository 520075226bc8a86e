//! Who wakes whom: tasks that one other cache wakes again and again belong there, unless their waker wakes many.

use super::LlcView;
use crate::{Nanos, NodeId, Policy, TaskPolicy, WorkerId, config::Aggregation};

/// Wakers that a worker remembers. A power of two. The size of a table and no constant of the policy: of who is
/// forgotten nothing is known, as of everybody who begins.
const WAKERS: usize = 64;

/// What a waker did in one [`Aggregation::wakees_for`].
#[derive(Clone, Copy, Debug, Default)]
struct Period {
    /// A bit for each wakee, by its id.
    wakees: u64,
    /// Its wakes, up to the most that can be counted.
    wakes: u16,
}

#[derive(Clone, Copy, Debug, Default)]
struct Waker {
    task: u64,
    current: Period,
    before: Period,
    since: Nanos,
}

/// How many different tasks each of the last tasks of a worker has woken: a sender of messages to many is *wide*, and
/// is no reason for any of them to move.
///
/// Nothing is concluded until it has made [`Aggregation::known_after`] wakes on a worker for each task that it has
/// woken there: a sender to many that has just begun, or that another worker has just taken over, looks like one to
/// few, but wakes another one each time.
///
/// Approximate on purpose: 64 wakers a worker, 64 wakees a waker by the low bits of their ids.
///
/// ```
/// use quadrille_policy::{Config, Nanos, Wakees};
///
/// let mut config = Config::default().aggregation;
/// config.known_after = 2;
/// let mut wakees = Wakees::new(&config);
/// assert_eq!(wakees.note(1, 2, Nanos(0)), None);
/// assert_eq!(wakees.note(1, 2, Nanos(9)), Some(1));
/// assert_eq!(wakees.note(1, 3, Nanos(9)), None);
/// assert_eq!(wakees.note(1, 2, Nanos(9)), Some(2));
/// ```
#[derive(Clone, Debug)]
pub struct Wakees {
    wakers: [Waker; WAKERS],
    memory: Nanos,
    known_after: u16,
}

impl Default for Wakees {
    fn default() -> Self {
        Self::new(&Aggregation::default())
    }
}

impl Wakees {
    /// None yet; remembers for as long as configured.
    #[must_use]
    pub fn new(config: &Aggregation) -> Self {
        Self {
            wakers: [Waker::default(); WAKERS],
            memory: config.wakees_for,
            known_after: config.known_after,
        }
    }

    /// Notes that the task `waker` wakes the task `wakee`. Returns how many different ones it has woken of late, that
    /// one included; `None` while too little of it is known.
    #[inline]
    pub fn note(&mut self, waker: u64, wakee: u64, now: Nanos) -> Option<u32> {
        #[expect(clippy::cast_possible_truncation, reason = "an index by the low bits")]
        let entry = &mut self.wakers[waker as usize % WAKERS];
        if entry.task != waker {
            *entry = Waker {
                task: waker,
                since: now,
                ..Waker::default()
            };
        }
        let passed = now.since(entry.since);
        if passed >= self.memory {
            let is_next = passed.0 < self.memory.0.saturating_mul(2);
            entry.before = if is_next { entry.current } else { Period::default() };
            entry.current = Period::default();
            entry.since = now;
        }
        let Waker { current, before, .. } = entry;
        current.wakees |= 1 << (wakee & 63);
        current.wakes = current.wakes.saturating_add(1);
        let different = (current.wakees | before.wakees).count_ones();
        let wakes = u32::from(current.wakes) + u32::from(before.wakes);
        (wakes >= different * u32::from(self.known_after)).then_some(different)
    }
}

impl Policy {
    /// Notes who wakes a task. True if it might move to its waker's cache, of which the mechanism then tells
    /// [`CouplingView::waker`](crate::CouplingView): the last [`pull_after`](crate::Aggregation::pull_after) wakes came
    /// from that cache.
    ///
    /// With [`drift`](crate::Aggregation::drift), unless a declared set of the task's may prefer a cache, another node
    /// is counted as a whole: a wake from any of its caches counts, and one from home's node takes one back before
    /// anything else is counted. The count goes no higher than it must, so that it does not outlast what it has seen. A
    /// wake from a third node begins it anew.
    #[inline]
    pub fn couple(&self, task: &mut TaskPolicy, waker: WorkerId) -> bool {
        let (Some(worker), Some(home)) = (self.worker(waker), self.plan.groups.get(task.home.index())) else {
            return false;
        };
        let (pull_after, drift) = (self.config.aggregation.pull_after, self.drift_of(task));
        let counted = self.plan.llcs.get(usize::from(task.from)).map(|llc| llc.node);
        let counts_node = drift > 0 && task.streak > 0 && counted.is_some_and(|node| node != home.node);
        if counts_node && worker.node == home.node {
            task.streak -= 1;
            return false;
        }
        if worker.llc == home.llc {
            task.streak = 0;
            return false;
        }
        // Caches whose numbers differ by 256 are taken for one.
        let [_, from] = worker.llc.0.to_be_bytes();
        let goes_on = task.from == from || counts_node && counted == Some(worker.node);
        let most = if drift > 0 { drift.max(pull_after) } else { u8::MAX };
        task.streak = if goes_on {
            task.streak.saturating_add(1).min(most)
        } else {
            1
        };
        task.from = from;
        task.streak >= pull_after
    }

    /// Whether the one that wakes the task may have it: the waker is known and not wide, its cache is hardly busy, and
    /// policy 6 does not object.
    #[inline]
    pub(crate) fn waker_pulls(&self, task: &TaskPolicy, waker: &LlcView, wakees: Option<u32>) -> bool {
        wakees.is_some_and(|wakees| wakees <= self.config.aggregation.wide) && self.has_room(task, waker)
    }

    /// Whether a task that [`couple`](Self::couple) says may move is woken from the waker's node so much more often
    /// than from home's that it may move there whomever its wakers wake. The mechanism then tells of
    /// [`CouplingView::home_util`](crate::CouplingView::home_util), which nobody asks for before.
    ///
    /// Never a task of a declared set that may prefer a cache.
    #[inline]
    #[must_use]
    pub fn leads(&self, task: &TaskPolicy, waker: WorkerId) -> bool {
        self.worker(waker)
            .is_some_and(|worker| self.has_lead(task, worker.node))
    }

    #[inline]
    fn has_lead(&self, task: &TaskPolicy, node: NodeId) -> bool {
        let (pull_after, drift) = (self.config.aggregation.pull_after, self.drift_of(task));
        let home = self.plan.groups.get(task.home.index());
        drift > 0 && task.streak >= drift.max(pull_after) && home.is_some_and(|home| home.node != node)
    }

    /// By which lead a task drifts; 0: by none, as those of a declared set that may prefer a cache: where that is, its
    /// founder's word decides.
    #[inline]
    fn drift_of(&self, task: &TaskPolicy) -> u8 {
        if task.set.is_declared() && task.set.may_prefer() {
            0
        } else {
            self.config.aggregation.drift
        }
    }

    /// Whether the task follows its [lead](Self::leads) to the waker's node: somebody is idle behind the waker's cache,
    /// and that is hardly busy, or no busier than home's. Policy 6 is not asked: of two halves of a group that talks,
    /// each would wait for ever for the other to be the smaller one.
    #[inline]
    pub(crate) fn drifts(&self, task: &TaskPolicy, waker: &LlcView, home_util: u16) -> bool {
        let there = self.plan.llcs.get(waker.llc.index());
        there.is_some_and(|there| self.has_lead(task, there.node))
            && waker.has_idle
            && (waker.util <= home_util || self.is_hardly_busy(waker))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::testing::{NODES, policy, task};
    use crate::{LlcId, Rng, SetId};

    #[test]
    fn wakees_are_counted_once_and_forgotten() {
        let mut wakees = policy(NODES, "sets-known-after=1").new_wakees();
        let at = Nanos::from_millis;
        for wakee in 0..20 {
            assert_eq!(wakees.note(1, wakee, at(wakee)).map(u64::from), Some(wakee + 1));
        }
        // Another waker has its own; one with the same place takes it over.
        assert_eq!(wakees.note(2, 0, at(20)), Some(1));
        assert_eq!(wakees.note(65, 0, at(20)), Some(1));
        assert_eq!(wakees.note(1, 0, at(20)), Some(1));
        for (ms, wakee, count) in [(1019, 5, 2), (1020, 5, 2), (1500, 7, 3), (2020, 5, 2), (3020, 5, 1)] {
            assert_eq!(wakees.note(1, wakee, at(ms)), Some(count), "{ms} ms");
        }
        assert_eq!(wakees.note(1, 5, at(9000)), Some(1));
        // As long as configured.
        let mut brief = policy(NODES, "sets-wakees=1ms,sets-known-after=1").new_wakees();
        let counts = [(0, 1), (1, 2), (2, 3), (3, 4)].map(|(ms, wakee)| brief.note(1, wakee, at(ms)));
        assert_eq!(counts, [1, 2, 2, 2].map(Some));
    }

    /// Four wakes for each, of the current and the last second.
    #[test]
    fn of_few_wakes_nothing_is_concluded() {
        let mut wakees = Wakees::default();
        let at = Nanos::from_millis;
        let mut one = |ms, times| (0..times).map(|_| wakees.note(1, 2, at(ms))).collect::<Vec<_>>();
        let known = |unknown, known| [vec![None; unknown], vec![Some(1); known]].concat();
        assert_eq!(one(0, 6), known(3, 3));
        assert_eq!(one(1_000, 2), known(0, 2), "by those of the second before");
        assert_eq!(one(2_000, 3), known(1, 2), "two of the second before count");
        assert_eq!(one(4_000, 5), known(3, 2), "nothing is left");
        // Two take eight, and of the third again nothing is known.
        let two: Vec<_> = (0..7).map(|n| wakees.note(1, 3 + n % 2, at(4_000))).collect();
        assert_eq!(two, [None, None, None, None, None, None, Some(3)]);
        // Another in its place; and it itself again.
        assert_eq!(wakees.note(65, 2, at(4_000)), None);
        assert_eq!(wakees.note(1, 2, at(4_000)), None);
    }

    /// Twenty senders that begin one after the other, or are taken over by one worker after the other, each to the same
    /// twenty receivers: each of those has been woken from that cache often enough, and none is pulled at any time.
    #[test]
    fn messages_to_many_pull_none_from_the_first_on() {
        let policy = policy(NODES, "default");
        let there = LlcView {
            llc: LlcId(0),
            util: 0,
            has_idle: true,
            node_running: 0,
        };
        let pulled = |receivers: u16| {
            let mut tasks: Vec<_> = (0..receivers).map(|_| task(&policy, 9)).collect();
            let mut workers: Vec<_> = (0..8).map(|_| policy.new_wakees()).collect();
            let mut pulled = 0;
            for message in 0..200_u16 {
                for (sender, at) in (0..20).map(|sender| (sender, (sender + message / 10) % 8)) {
                    let receiver = (sender + message) % receivers;
                    let wakees = &mut workers[usize::from(at)];
                    let count = wakees.note(100 + u64::from(sender), 200 + u64::from(receiver), Nanos(0));
                    let task = &mut tasks[usize::from(receiver)];
                    let couples = policy.couple(task, WorkerId(at));
                    pulled += u32::from(couples && policy.waker_pulls(task, &there, count));
                }
            }
            pulled
        };
        assert_eq!(pulled(20), 0);
        assert!(pulled(4) > 1000, "four are few");
    }

    /// In so many of 20,000 runs a sender to so many receivers, drawn for each message, is known as one to up to four
    /// before it has woken a fifth.
    #[test]
    fn a_sender_to_many_at_random_seldom_passes_for_one_to_few() {
        let mut rng = Rng::new(1);
        for (receivers, most) in [(8, 100), (20, 10)] {
            let mut passes = || {
                let mut wakees = Wakees::default();
                let mut woken = 0_u64;
                while woken.count_ones() <= 4 {
                    let receiver = u64::from(rng.below(receivers));
                    woken |= 1 << receiver;
                    if wakees.note(1, receiver, Nanos(0)).is_some_and(|wakees| wakees <= 4) {
                        return true;
                    }
                }
                false
            };
            let few = (0..20_000).filter(|_| passes()).count();
            assert!((1..most).contains(&few), "{few} of 20,000 to {receivers}");
        }
    }

    #[test]
    fn four_wakes_in_a_row_from_one_other_cache_couple() {
        let policy = policy(NODES, "sets-drift=0");
        let mut task = task(&policy, 1);
        // Worker, and whether its wake completes a row. Cache 0 has the workers 0 to 7, 1 to 15, 2 to 23, 3 to 31.
        let wakes = [
            (8, false),
            (15, false),
            (12, false),
            (9, true),
            (9, true),
            (16, false), // another cache: from the start
            (16, false),
            (16, false),
            (3, false), // home's own
            (16, false),
            (17, false),
            (18, false),
            (999, false), // no worker: not seen
            (19, true),
        ];
        for (index, (waker, couples)) in wakes.into_iter().enumerate() {
            assert_eq!(policy.couple(&mut task, WorkerId(waker)), couples, "wake {index}");
        }
    }

    /// What `couple` says of the last of these wakes of a task whose home is group 1, on node 0, and what it counts
    /// then.
    fn check_counts(machine: &str, config: &str, wakers: &[u16], last: bool, streak: u8) {
        let policy = policy(machine, config);
        let mut task = task(&policy, 4);
        let couples = wakers.iter().map(|waker| policy.couple(&mut task, WorkerId(*waker)));
        assert_eq!(
            (couples.last(), task.streak),
            (Some(last), streak),
            "{config}, {wakers:?}"
        );
    }

    /// Node 0 has the workers 0 to 15, home's cache 0 to 7; node 1 has 16 to 31.
    #[test]
    fn wakes_from_another_node_are_counted_against_those_from_homes() {
        let check = |wakers: &[u16], last, streak| check_counts(NODES, "default", wakers, last, streak);
        check(&[16, 24, 17], false, 3); // either cache of it
        check(&[16, 24, 17, 0], false, 2); // home's cache
        check(&[16, 24, 17, 8], false, 2); // another one of home's node
        check(&[16, 0, 0, 0], false, 0);
        check(&[16, 8, 8, 8], false, 2); // whose own row begins once nothing is left
        check(&[16, 8, 8, 8, 9, 10], true, 4);
        check(&[8, 8, 16], false, 1); // and ends with one from the other node
        check(&[16, 24, 17, 25], true, 4);
        check(&[16; 200], true, 12);
        check(&[[0, 16, 24].as_slice(); 10].concat(), true, 11);
        check(&[[16, 0].as_slice(); 100].concat(), false, 0);
        check_counts(NODES, "sets-drift=2", &[16; 200], true, 4); // no less than a row
        check_counts(NODES, "sets-drift=0", &[16, 16, 24], false, 1);
        check_counts(NODES, "sets-drift=0", &[16; 20], true, 20);
        // Eight workers a node.
        check_counts("node:4 llc:2 core:4", "default", &[8, 8, 8, 16], false, 1);
    }

    #[test]
    fn a_surplus_of_twelve_moves_to_a_node_that_is_no_busier_or_hardly_busy() {
        // Streak, cache, its utilisation (home's is 900), whether somebody is idle there, and who runs on its node,
        // which tolerates two.
        for (config, streak, llc, util, has_idle, node_running, drifts) in [
            ("default", 12, 2, 900, true, 16, true),
            ("default", 12, 3, 0, true, 16, true),
            ("default", 12, 2, 900, true, 1, true),
            ("default", 11, 2, 900, true, 0, false),
            ("default", 12, 2, 901, true, 1, false),
            ("sets-guards=false", 12, 2, 901, true, 16, true),
            ("default", 12, 2, 900, false, 0, false),
            ("default", 12, 1, 0, true, 0, false),  // another cache of home's node
            ("default", 12, 99, 0, true, 0, false), // none
            ("sets-drift=2", 4, 2, 0, true, 16, true),
            ("sets-drift=0", 255, 2, 0, true, 0, false),
        ] {
            let policy = policy(NODES, config);
            let task = TaskPolicy {
                streak,
                ..task(&policy, 4)
            };
            let there = LlcView {
                llc: LlcId(llc),
                util,
                has_idle,
                node_running,
            };
            assert_eq!(
                policy.drifts(&task, &there, 900),
                drifts,
                "{config}, {streak}, {there:?}"
            );
        }
    }

    /// Half is no longer hardly busy.
    #[test]
    fn a_surplus_moves_to_a_busier_node_that_is_hardly_busy() {
        let policy = policy(NODES, "default");
        let task = TaskPolicy {
            streak: 12,
            ..task(&policy, 4)
        };
        for (util, has_idle, drifts) in [
            (399, true, true),
            (511, true, true),
            (512, true, false),
            (511, false, false),
        ] {
            let there = LlcView {
                llc: LlcId(2),
                util,
                has_idle,
                node_running: 16,
            };
            assert_eq!(policy.drifts(&task, &there, 100), drifts, "{there:?}");
        }
    }

    /// A wake from worker 16 on node 1, of a task whose home is on node 0.
    #[test]
    fn a_lead_is_asked_for_where_it_may_count() {
        let declared = SetId::declared(7);
        for (config, set, waker, streak, leads) in [
            ("default", SetId::NONE, 16, 12, true),
            ("default", SetId::root(7), 16, 12, true),
            ("default", SetId::NONE, 16, 11, false),
            ("default", SetId::NONE, 8, 12, false), // another cache of home's node
            ("default", SetId::NONE, 999, 12, false), // no worker
            ("default", declared, 16, 12, false),
            ("default", declared.spread(), 16, 12, true),
            ("default", declared.unfit(), 16, 12, true),
            ("sets-drift=2", SetId::NONE, 16, 4, true),
            ("sets-drift=2", SetId::NONE, 16, 3, false),
            ("sets-drift=0", SetId::NONE, 16, 255, false),
        ] {
            let policy = policy(NODES, config);
            let task = TaskPolicy {
                streak,
                set,
                ..task(&policy, 4)
            };
            assert_eq!(
                policy.leads(&task, WorkerId(waker)),
                leads,
                "{config}, {set:?}, {waker}, {streak}"
            );
            // Whoever has no lead does not follow one.
            let there = LlcView {
                llc: policy
                    .plan
                    .workers
                    .get(usize::from(waker))
                    .map_or(LlcId(99), |plan| plan.llc),
                util: 0,
                has_idle: true,
                node_running: 0,
            };
            assert_eq!(policy.drifts(&task, &there, 900), leads, "{config}, {set:?}");
        }
    }

    #[test]
    fn a_house_move_begins_a_new_row() {
        let policy = policy(NODES, "default");
        let mut task = task(&policy, 1);
        for _ in 0..4 {
            policy.couple(&mut task, WorkerId(8));
        }
        policy.moved(&mut task, WorkerId(8), Nanos(0));
        assert_eq!(task.streak, 0);
        assert!(!policy.couple(&mut task, WorkerId(0)));
    }
}
