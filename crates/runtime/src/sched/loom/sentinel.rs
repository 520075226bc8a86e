//! (O): while somebody is awake, one of those who are idle is the sentinel.

use loom::thread::spawn;

use super::{Machine, Sleeper, beside_a_cache, check, one_group, seat};
use crate::primitives::{Ordering, fence};
use crate::sched::idle::Withdrawn;
use crate::sched::park::ParkWord;
use crate::sched::publish;

/// Two workers park while a third stays awake: exactly one of them watches.
#[test]
fn o_one_of_two_watches() {
    let plan = one_group(3);
    check(3, move || {
        let machine = Machine::new(&plan, 0);
        let duty = |machine: &Machine, member| {
            machine.sleepers.idle.announce(seat(member));
            machine.sleepers.take_duty(usize::from(member))
        };
        let other = machine.clone();
        let thread = spawn(move || duty(&other, 1));
        let mine = duty(&machine, 0);
        let theirs = thread.join().unwrap();
        assert!(mine != theirs, "one sentinel");
        assert!(machine.sleepers.has_sentinel());
    });
}

/// The sentinel of an idle house resigns while another worker is claimed: its answer says whether it still is one.
#[test]
fn o_last_sentinel_knows_whether_it_is_one() {
    let plan = one_group(2);
    check(3, move || {
        let machine = Machine::with_two_idle(&plan, 0);
        let other = machine.clone();
        let thread = spawn(move || {
            assert_eq!(
                other.sleepers.idle.claim_in_group(0, None, Some(0)),
                Some(1),
                "the sentinel comes last"
            );
        });
        let resigned = machine.sleepers.resign_if_all_idle(0);
        thread.join().unwrap();
        assert_eq!(machine.sleepers.has_sentinel(), !resigned);
        assert!(!machine.sleepers.resign_if_all_idle(0), "somebody is awake");
    });
}

/// The same, and the claimed worker looks whether the idle ones are watched before it goes to work: if it saw a
/// sentinel then there is one.
#[test]
fn o_resigned_or_noticed() {
    let plan = one_group(2);
    check(3, move || {
        let machine = Machine::with_two_idle(&plan, 0);
        let other = machine.clone();
        let thread = spawn(move || {
            assert!(other.sleepers.idle.claim_seat(seat(1)));
            other.sleepers.is_unwatched()
        });
        let _resigned = machine.sleepers.resign_if_all_idle(0);
        let noticed = thread.join().unwrap();
        assert!(
            noticed || machine.sleepers.has_sentinel(),
            "nobody watches, nobody knows"
        );
    });
}

/// The same, but the worker finds its bit gone by itself, and does not wait for its claimer, which may be anywhere.
#[test]
fn o_resigned_or_noticed_early() {
    let plan = one_group(2);
    check(3, move || {
        let machine = Machine::with_two_idle(&plan, 0);
        let (claimer, worker) = (machine.clone(), machine.clone());
        let claimer = spawn(move || claimer.sleepers.idle.claim_seat(seat(1)));
        let worker = spawn(move || {
            let _ = worker.sleepers.idle.withdraw(seat(1));
            worker.sleepers.is_unwatched()
        });
        let _resigned = machine.sleepers.resign_if_all_idle(0);
        let noticed = worker.join().unwrap();
        claimer.join().unwrap();
        assert!(
            noticed || machine.sleepers.has_sentinel(),
            "nobody watches, nobody knows"
        );
    });
}

/// The sentinel is claimed: it gives its duty back, and the next one to park takes it.
#[test]
fn o_duty_is_passed_on() {
    let plan = one_group(3);
    check(3, move || {
        let machine = Machine::new(&plan, 0);
        machine.sleepers.idle.announce(seat(0));
        assert!(machine.sleepers.take_duty(0));
        let other = machine.clone();
        let thread = spawn(move || {
            other.sleepers.resign(0);
            other.sleepers.idle.withdraw(seat(0))
        });
        machine.sleepers.idle.announce(seat(1));
        let before = machine.sleepers.take_duty(1);
        let _ = thread.join().unwrap();
        // Whoever looked while the sentinel was on its way out is found by a waker: it sees that nobody watches.
        assert_eq!(before, machine.sleepers.has_sentinel());
        assert!(machine.sleepers.take_duty(1));
    });
}

/// The last searcher goes to work, and somebody who still saw it search wakes nobody. What the searcher looks at before
/// it has fenced may show it nothing; afterwards it finds that nobody watches, and the task.
#[test]
fn o_last_searcher_names_a_successor() {
    let plan = one_group(2);
    check(3, move || {
        let machine = Machine::new(&plan, 1);
        machine.sleepers.idle.announce(seat(1));
        machine.sleepers.start_search(0);
        let pusher = machine.clone();
        let thread = spawn(move || {
            let item = pusher.arena.item(0);
            publish::to_anyone(|| pusher.injector.push(item), &pusher.sleepers, 0, (0, &[]), |_| true)
        });
        assert!(machine.sleepers.stop_search(0));
        let found = machine.sleepers.is_unwatched() && !machine.injector.is_empty();
        let owes_a_wake = thread.join().unwrap();
        assert!(found || owes_a_wake, "neither sees the other");
        machine.injector.drain().for_each(|item| machine.finish(item));
    });
}

/// A task is queued for a worker that was claimed before, but is up and at other work already. Meanwhile the sentinel
/// gets up by itself, and goes to work as well; a third worker sleeps. Either the pusher sees that nobody watches, or
/// the sentinel that was sees that, and the task.
#[test]
fn o_who_was_claimed_before_is_no_watch() {
    let plan = one_group(3);
    check(3, move || {
        let machine = Machine::new(&plan, 1);
        (1..3).for_each(|member| machine.sleepers.idle.announce(seat(member)));
        assert!(machine.sleepers.take_duty(1));
        let pusher = machine.clone();
        let thread = spawn(move || {
            let item = pusher.arena.item(0);
            publish::to_claimed(|| {
                let _how = pusher.group.push(item, false, || 0);
            });
            let _found = pusher.sleepers.wake(0);
            pusher.sleepers.idle.caches.any() && !pusher.sleepers.has_sentinel()
        });
        machine.sleepers.resign(1);
        let _ = machine.sleepers.idle.withdraw(seat(1));
        let found = machine.sleepers.is_unwatched() && !machine.group.is_empty();
        let noticed = thread.join().unwrap();
        assert!(found || noticed, "nobody watches, nobody knows");
        let _found = machine.search();
    });
}

/// A worker that goes to sleep.
struct Relieved<'a> {
    machine: &'a Machine,
    /// Whether it sleeps beside no sentinel, not being it.
    is_unwatched: bool,
}

impl Sleeper for Relieved<'_> {
    fn spin(&mut self, _word: &ParkWord) {
        self.is_unwatched = !self.machine.sleepers.has_sentinel();
    }
}

/// A worker has promised to get up soon, is claimed, and goes to work. Another one that goes to sleep meanwhile leaves
/// the duty to it: either it is seen by the first, who finds nobody on watch, or it does not rely on him.
#[test]
fn o_who_is_relieved_is_seen() {
    let plan = one_group(2);
    check(3, move || {
        let machine = Machine::new(&plan, 0);
        machine.sleepers.idle.announce(seat(0));
        machine.sleepers.alarms.set(0, 1);
        machine.sleepers.relies_on(0);
        let other = machine.clone();
        let thread = spawn(move || {
            let mut host = Relieved {
                machine: &other,
                is_unwatched: false,
            };
            other.sleepers.start_search(1);
            let _awake = other.sleepers.sleep(1, &mut host);
            host.is_unwatched
        });
        // As in `Sleepers::sleep`, after a token.
        machine.sleepers.alarms.clear(0);
        let _ = machine.sleepers.idle.withdraw(seat(0));
        let noticed = machine.sleepers.is_unwatched() && machine.sleepers.idle.caches.any();
        machine.sleepers.stop();
        let is_unwatched = thread.join().unwrap();
        assert!(noticed || !is_unwatched, "nobody watches, nobody knows");
    });
}

/// A worker comes back as it has promised, and finds a sentinel, who resigns while somebody is claimed: if that one
/// relies on the promise, there is a sentinel.
#[test]
fn o_a_promise_is_kept_or_taken_back() {
    let plan = one_group(3);
    check(3, move || {
        let machine = Machine::new(&plan, 0);
        (0..3).for_each(|member| machine.sleepers.idle.announce(seat(member)));
        machine.sleepers.alarms.set(0, 1);
        assert!(machine.sleepers.take_duty(1));
        let (other, claimed) = (machine.clone(), machine.clone());
        let other = spawn(move || other.sleepers.resign_if_all_idle(1));
        let claimed = spawn(move || {
            assert!(claimed.sleepers.idle.claim_seat(seat(2)));
            claimed.sleepers.is_unwatched() && !claimed.sleepers.someone_gets_up(&(1..=1))
        });
        let _duty = machine.sleepers.keep_promise(0);
        let _resigned = other.join().unwrap();
        let noticed = claimed.join().unwrap();
        assert!(
            noticed || machine.sleepers.has_sentinel(),
            "nobody watches, nobody knows"
        );
    });
}

/// Two workers of a machine of several caches. The first is idle and the sentinel; its interval ends while a claimer
/// clears its cache's bit, and it goes to work. The second goes to sleep meanwhile, finds a sentinel, and has nobody to
/// tell of it but the claimer. `left` says whether somebody learns of it who leaves something in a queue.
fn hidden(left: impl Fn(&Machine) -> bool + Copy + Send + Sync + 'static) {
    let plan = beside_a_cache(2);
    check(3, move || {
        let machine = Machine::new(&plan, 1);
        machine.sleepers.idle.announce(seat(0));
        assert!(machine.sleepers.take_duty(0));
        let (claimer, other) = (machine.clone(), machine.clone());
        let claimer = spawn(move || {
            let claims = claimer.sleepers.idle.claim_seat(seat(0));
            claims && {
                claimer.sleepers.wake(0);
                claimer.sleepers.may_have_hidden_one()
            }
        });
        let other = spawn(move || {
            other.sleepers.idle.announce(seat(1));
            // As in `Sleepers::sleep`, which would end in a park.
            fence(Ordering::SeqCst);
            !other.injector.is_empty() || other.sleepers.take_duty(1)
        });
        machine.sleepers.resign(0);
        if machine.sleepers.idle.withdraw(seat(0)) == Withdrawn::Claimed {
            machine.sleepers.stop_search(0);
        }
        let noticed = left(&machine);
        let claimer_noticed = claimer.join().unwrap();
        let other_knows = other.join().unwrap();
        assert!(
            noticed || claimer_noticed || other_knows || machine.sleepers.has_sentinel(),
            "nobody watches, and nobody knows"
        );
        machine.injector.drain().for_each(|item| machine.finish(item));
    });
}

#[test]
fn k_who_was_hidden_is_watched() {
    hidden(|machine| {
        machine.injector.push(machine.arena.item(0));
        machine.sleepers.is_unwatched() && machine.sleepers.idle.caches.any()
    });
}

#[test]
fn k_who_was_hidden_from_a_pusher_is_watched() {
    hidden(|machine| {
        let _nothing_is_left = machine.sleepers.is_unwatched();
        let item = machine.arena.item(0);
        let push = || machine.injector.push(item);
        let wakes = publish::to_anyone(push, &machine.sleepers, 0, (0, &[]), |_| true);
        wakes || machine.sleepers.idle.caches.any() && !machine.sleepers.has_sentinel()
    });
}
