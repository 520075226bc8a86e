//! W1s: the unpark may be skipped while a searcher is the witness.

use loom::thread::spawn;
use quadrille_policy::{GroupId, LlcId, Plan, WorkerId};

use super::{Machine, beside_a_cache, check, one_group, seat};
use crate::sched::publish;

/// One worker that goes to sleep, and one push.
fn one_worker(plan: Plan) {
    check(3, move || {
        let machine = Machine::new(&plan, 1);
        let pusher = machine.clone();
        let thread = spawn(move || pusher.push_to_anyone(0));
        machine.work(0);
        thread.join().unwrap();
        assert_eq!(machine.sleepers.idle.caches.total(), 0);
        assert_eq!(machine.sleepers.searching_behind(0), 0);
    });
}

/// Two workers that go to sleep together, both searchers at first, and one push.
fn two_workers(plan: Plan) {
    check(2, move || {
        let machine = Machine::new(&plan, 1);
        (0..2).for_each(|member| machine.sleepers.start_search(member));
        let (other, pusher) = (machine.clone(), machine.clone());
        let threads = [
            spawn(move || other.work_on(1, true)),
            spawn(move || pusher.push_to_anyone(0)),
        ];
        machine.work_on(0, true);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(machine.sleepers.idle.caches.total(), 0);
        assert_eq!(machine.sleepers.searching_behind(0), 0);
    });
}

/// The pusher skips the claim while it sees a searcher, and the policy would skip it always.
#[test]
fn w1s_last_searcher() {
    one_worker(one_group(1));
}

#[test]
fn w1s_last_searcher_two_pushers() {
    let plan = one_group(1);
    check(2, move || {
        let machine = Machine::new(&plan, 2);
        let threads = [0, 1].map(|index| {
            let pusher = machine.clone();
            spawn(move || pusher.push_to_anyone(index))
        });
        machine.work(0);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(machine.sleepers.searching_behind(0), 0);
    });
}

/// K: where the pusher learns from a word by cache that somebody is idle. The second of two workers may find the first
/// one's count and not yet its bit.
#[test]
fn k_no_lost_wakeup() {
    two_workers(beside_a_cache(2));
}

/// The same for one worker, with more interleavings: nobody else would notice.
#[test]
fn k_no_lost_wakeup_of_the_only_worker() {
    one_worker(beside_a_cache(1));
}

/// Two searchers that give up together.
#[test]
fn w1s_last_of_two_searchers() {
    two_workers(one_group(2));
}

/// A claim empties the group's word while another member announces itself: for a moment the summary hides that member
/// from the pusher. The claimed worker is the witness then: it searches after its token, which comes later.
#[test]
fn w1s_hidden_member_has_a_witness() {
    let plan = one_group(2);
    check(2, move || {
        let machine = Machine::new(&plan, 1);
        machine.sleepers.idle.announce(seat(0));
        let (pusher, other) = (machine.clone(), machine.clone());
        let threads = [spawn(move || other.work(1)), spawn(move || pusher.push_to_anyone(0))];
        // One thread for the claimer and, once the token is there, for the worker that it claims.
        let claimed = machine.sleepers.idle.claim_in_group(0, None, Some(1));
        machine.wake(claimed.map(seat));
        // Claimed by us, or, if it was gone already, by the pusher.
        machine.work_on(0, true);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A worker whose policy leaves the injector to member 1.
fn work_modestly(machine: &Machine, worker: usize) {
    let sleepers = &machine.sleepers;
    let hand_over = || {
        let claimed = sleepers.idle.claim_seat(seat(1));
        if claimed {
            sleepers.wake(1);
        }
        claimed
    };
    let look =
        |last_searcher| !machine.injector.is_empty() && publish::stays_for_what_it_leaves(last_searcher, hand_over);
    machine.work_by(worker, false, || false, look);
}

/// Member 0 takes nothing from the injector. As last searcher it wakes member 1 for what the pusher left to it.
#[test]
fn w1s_last_searcher_hands_over() {
    let plan = one_group(2);
    check(2, move || {
        let machine = Machine::new(&plan, 1);
        let (modest, other) = (machine.clone(), machine.clone());
        let threads = [spawn(move || work_modestly(&modest, 0)), spawn(move || other.work(1))];
        machine.push_to_anyone(0);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(machine.sleepers.searching_behind(0), 0);
    });
}

/// Two caches of a worker each.
fn two_caches() -> Plan {
    let mut plan = one_group(2);
    let mut group = plan.groups[0].clone();
    plan.groups[0].members = [WorkerId(0)].into();
    group.members = [WorkerId(1)].into();
    group.llc = LlcId(1);
    plan.groups.push(group);
    let mut other = plan.llcs[0].clone();
    other.groups = [GroupId(1)].into();
    plan.llcs.push(other);
    plan.workers[1].group = GroupId(1);
    plan.workers[1].member = 0;
    plan.workers[1].llc = LlcId(1);
    plan
}

/// A worker of two caches, who looks at the injector alone.
fn work_behind(machine: &Machine, worker: usize) {
    let search = || machine.injector.drain().map(|item| machine.finish(item)).count() > 0;
    machine.work_by(worker, false, search, |_| {
        !machine.group.is_empty() || !machine.injector.is_empty()
    });
}

/// Pushes near cache 0, else behind cache 1; the policy would rather wake nobody.
fn push_near_the_first(machine: &Machine) {
    let item = machine.arena.item(0);
    let near = (0, &[LlcId(1)][..]);
    if publish::to_anyone(|| machine.injector.push(item), &machine.sleepers, 0, near, |_| false) {
        let idle = &machine.sleepers.idle;
        let claim = |llc| {
            let looks = idle.caches.any_behind(llc);
            looks.then(|| idle.claim_in_llc(llc, &[llc], 0, None, usize::MAX))?
        };
        if let Some(seat) = claim(0).or_else(|| claim(1)) {
            machine.sleepers.wake(seat.group);
        }
    }
}

/// Searchers are counted by cache: the only one may be behind the other.
#[test]
fn w1s_searchers_of_two_caches() {
    let plan = two_caches();
    check(2, move || {
        let machine = Machine::new(&plan, 1);
        let threads = [0, 1].map(|member| {
            let worker = machine.clone();
            spawn(move || work_behind(&worker, member))
        });
        push_near_the_first(&machine);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!([0, 1].map(|llc| machine.sleepers.searching_behind(llc)), [0, 0]);
        assert!(!machine.sleepers.idle.caches.any());
    });
}
