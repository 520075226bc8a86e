//! The two levels of idle bits: at rest a group with an idle member has its bit in the summary.
//!
//! The reverse is not promised: a summary bit over an empty word costs one look and misleads nobody.

use loom::thread::spawn;

use super::{Machine, beside_a_cache, check, one_group, seat};
use crate::sched::idle::Withdrawn;

/// One member is claimed or withdraws while the other announces itself.
#[test]
fn two_level_idle_mask() {
    let plan = one_group(2);
    check(3, move || {
        let machine = Machine::new(&plan, 0);
        let idle = &machine.sleepers.idle;
        idle.announce(seat(0));
        let (claimer, member) = (machine.clone(), machine.clone());
        let claiming = spawn(move || {
            claimer
                .sleepers
                .idle
                .claim_in_llc(0, &[0], 0, None, usize::MAX)
                .is_some()
        });
        let announcing = spawn(move || member.sleepers.idle.announce(seat(1)));
        let free = idle.withdraw(seat(0)) == Withdrawn::Free;
        announcing.join().unwrap();
        let claims = u32::from(claiming.join().unwrap()) + u32::from(free);
        at_rest(&machine, 2 - claims);
    });
}

/// Both members come and go.
#[test]
fn two_level_idle_mask_two_rounds() {
    let plan = one_group(2);
    check(3, move || {
        let machine = Machine::new(&plan, 0);
        let other = machine.clone();
        let round = |machine: &Machine, member| {
            let seat = seat(member);
            machine.sleepers.idle.announce(seat);
            let first = machine.sleepers.idle.withdraw(seat);
            machine.sleepers.idle.announce(seat);
            assert_eq!(first, Withdrawn::Free, "nobody claims here");
        };
        let thread = spawn(move || round(&other, 1));
        round(&machine, 0);
        thread.join().unwrap();
        at_rest(&machine, 2);
    });
}

/// K: at rest a cache's bit says whether one of its workers is idle. One member goes idle while the other is claimed or
/// withdraws.
#[test]
fn k_a_caches_bit_and_its_count() {
    let plan = beside_a_cache(2);
    check(3, move || {
        let machine = Machine::new(&plan, 0);
        let idle = &machine.sleepers.idle;
        idle.announce(seat(0));
        let (claimer, member) = (machine.clone(), machine.clone());
        let claiming = spawn(move || {
            let claimed = claimer.sleepers.idle.claim_in_group(0, None, None);
            claimed.is_some()
        });
        let announcing = spawn(move || {
            let idle = &member.sleepers.idle;
            idle.announce(seat(1));
        });
        announcing.join().unwrap();
        let left = 2 - u32::from(claiming.join().unwrap());
        assert_eq!(idle.caches.total(), left);
        assert_eq!(idle.caches.any(), left > 0);
        assert!(!idle.caches.any_behind(1));
    });
}

/// K: a bit that was set for one who has left meanwhile does not stay.
#[test]
fn k_a_caches_bit_does_not_stay() {
    let plan = beside_a_cache(2);
    check(3, move || {
        let machine = Machine::new(&plan, 0);
        let other = machine.clone();
        let round = |machine: &Machine, member| {
            let seat = seat(member);
            machine.sleepers.idle.announce(seat);
            assert_eq!(
                machine.sleepers.idle.withdraw(seat),
                Withdrawn::Free,
                "nobody claims here"
            );
        };
        let thread = spawn(move || round(&other, 1));
        round(&machine, 0);
        thread.join().unwrap();
        assert_eq!(machine.sleepers.idle.caches.total(), 0);
        assert!(!machine.sleepers.idle.caches.any());
    });
}

/// `count` members are idle and can all be found through the summary.
fn at_rest(machine: &Machine, count: u32) {
    let idle = &machine.sleepers.idle;
    assert_eq!(idle.members(0).count_ones(), count);
    assert_eq!(idle.caches.total(), count);
    for _ in 0..count {
        assert!(idle.any_in_llc(0), "a set group bit with a clear summary bit");
        assert!(
            idle.claim_in_llc(0, &[0], 0, None, usize::MAX).is_some(),
            "an idle member that no pusher finds"
        );
    }
    assert_eq!(idle.caches.total(), 0);
}
