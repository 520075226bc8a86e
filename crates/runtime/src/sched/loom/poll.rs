//! (L): somebody polls, or is awake and will; and a token ends the sleep in a poll as it ends any other.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use loom::thread::spawn;

use super::{Machine, Sleeper, check, one_group, seat};
use crate::reactor::{Catch, Duty, Interests, Polled, Registration, Side};
use crate::sys::poller::Event;

/// A source of the first shard. The descriptor is never looked at.
fn register(machine: &Machine) -> (Registration, bool) {
    machine.sleepers.register(0, &[], |shard| {
        Registration::new(shard, std::io::stdin().as_fd(), Interests::Read).expect("the model's poller takes any")
    })
}

/// Waits for a source in the name of one of the machine's items, which is done when it is woken.
fn wait_for(registration: &Registration) {
    let poll = registration.poll_ready(
        std::io::stdin().as_fd(),
        Side::Read,
        false,
        &mut Context::from_waker(Waker::noop()),
    );
    assert!(poll.is_pending(), "nothing has happened");
}

/// As the kernel does when there is something to read.
fn fire(machine: &Machine, registration: &Registration) {
    machine.sleepers.reactor.shard(0).modelled().fire(Event {
        key: registration.key(),
        readable: true,
        writable: false,
        ended: false,
    });
}

/// A worker that searches, and sleeps in the poll if nobody else does, until the machine stops.
fn work(machine: &Machine, worker: usize) {
    let mut host = Polls {
        machine,
        catch: Catch::new(),
    };
    let mut claimed = false;
    while !machine.sleepers.is_stopping() {
        if !claimed {
            machine.sleepers.start_search(worker);
        }
        if machine.search() {
            machine.sleepers.stop_search(worker);
            claimed = false;
            continue;
        }
        claimed = machine.sleepers.sleep(worker, &mut host).claimed;
        for waker in host.catch.wakers.drain(..) {
            waker.wake();
            machine.finish_one();
        }
    }
    if claimed {
        machine.sleepers.stop_search(worker);
    }
}

struct Polls<'a> {
    machine: &'a Machine,
    catch: Catch,
}

impl Sleeper for Polls<'_> {
    fn final_look(&mut self, _everything: bool) -> bool {
        !self.machine.group.is_empty() || !self.machine.injector.is_empty()
    }

    fn poll(&mut self, duty: &Duty<'_>, timeout: Option<Duration>) -> Polled {
        duty.poll(&mut self.catch, timeout, || 0)
    }
}

/// A thread that is no worker registers a source while the only worker goes to sleep: it polls, or is woken and then
/// does.
#[test]
fn l_a_new_source_is_polled() {
    let plan = one_group(1);
    check(2, move || {
        let machine = Machine::new(&plan, 1);
        let other = machine.clone();
        let thread = spawn(move || {
            let (registration, is_unseen) = register(&other);
            if is_unseen {
                let claimed = other.sleepers.idle.claim_in_group(0, None, None);
                other.wake(claimed.map(seat));
            }
            wait_for(&registration);
            fire(&other, &registration);
            registration
        });
        work(&machine, 0);
        drop(thread.join().unwrap());
    });
}

/// A holder that sleeps in its poll is claimed for a task.
#[test]
fn l_a_token_ends_the_poll() {
    let plan = one_group(1);
    check(2, move || {
        let machine = Machine::new(&plan, 1);
        let (registration, _) = register(&machine);
        let other = machine.clone();
        let thread = spawn(move || other.push_to_anyone(0));
        work(&machine, 0);
        thread.join().unwrap();
        drop(registration);
    });
}

/// The same, while an event comes: neither is lost, whichever ends the sleep.
#[test]
fn l_a_token_and_an_event() {
    let plan = one_group(1);
    check(2, move || {
        let machine = Machine::new(&plan, 2);
        let (registration, _) = register(&machine);
        wait_for(&registration);
        let other = machine.clone();
        let thread = spawn(move || {
            fire(&other, &registration);
            other.push_to_anyone(0);
            registration
        });
        work(&machine, 0);
        drop(thread.join().unwrap());
        assert_eq!(machine.sleepers.idle.caches.total(), 0);
        assert_eq!(machine.sleepers.searching_behind(0), 0, "each claim has had its search");
    });
}

/// Two workers, one shard: one of them polls, never both, and an event reaches its task.
#[test]
fn l_one_of_two_polls() {
    let plan = one_group(2);
    check(2, move || {
        let machine = Machine::new(&plan, 0);
        let (registration, _) = register(&machine);
        let holds = Arc::new(AtomicBool::new(false));
        let hold = move |machine: &Machine, worker: usize, holds: &AtomicBool| {
            let duty = machine.sleepers.reactor.shard(0).try_hold(worker)?;
            assert!(!holds.swap(true, Ordering::SeqCst), "two holders");
            loom::thread::yield_now();
            let polls = machine.sleepers.reactor.shard(0).polls();
            let polled = duty.poll(&mut Catch::new(), Some(Duration::ZERO), || 0);
            assert_eq!(polled, Polled::Nothing);
            assert_eq!(
                machine.sleepers.reactor.shard(0).polls(),
                polls + 1,
                "it was handed over"
            );
            holds.store(false, Ordering::SeqCst);
            drop(duty);
            Some(())
        };
        let (other, theirs) = (machine.clone(), holds.clone());
        // Who finds it taken tries again: it is the other's still.
        let twice = move |machine: &Machine, worker, holds: &AtomicBool| {
            hold(machine, worker, holds).or_else(|| hold(machine, worker, holds))
        };
        let thread = spawn(move || twice(&other, 1, &theirs));
        let mine = twice(&machine, 0, &holds);
        let other = thread.join().unwrap();
        assert!(mine.is_some() || other.is_some());
        drop(registration);
    });
}

/// All are idle, and a shard has nobody: whoever resigned would leave it so.
#[test]
fn l_a_sentinel_stays_for_a_shard() {
    let plan = one_group(1);
    check(1, move || {
        let machine = Machine::new(&plan, 0);
        machine.sleepers.idle.announce(seat(0));
        assert!(machine.sleepers.take_duty(0));
        let (registration, is_unseen) = register(&machine);
        assert!(is_unseen);
        assert!(!machine.sleepers.resign_if_all_idle(0));
        let duty = machine.sleepers.reactor.shard(0).try_hold(0);
        assert!(machine.sleepers.resign_if_all_idle(0));
        drop((duty, registration));
    });
}

/// An event wakes the holder while the sentinel of an idle house resigns: there is a sentinel, or the holder, which has
/// given its duty back, knows that nobody polls.
#[test]
fn l_a_holder_that_gets_up_is_replaced() {
    let plan = one_group(2);
    check(3, move || {
        let machine = Machine::new(&plan, 0);
        machine.sleepers.idle.announce(seat(1));
        assert!(machine.sleepers.take_duty(1));
        let (registration, _) = register(&machine);
        wait_for(&registration);
        fire(&machine, &registration);
        let other = machine.clone();
        let thread = spawn(move || {
            let mut host = Polls {
                machine: &other,
                catch: Catch::new(),
            };
            other.sleepers.start_search(0);
            let awake = other.sleepers.sleep(0, &mut host);
            assert!(awake.slept && host.catch.wakers.len() == 1, "it has polled");
            other.sleepers.is_unwatched() && other.sleepers.reactor.any_unpolled()
        });
        let _resigned = machine.sleepers.resign_if_all_idle(1);
        let noticed = thread.join().unwrap();
        assert!(noticed || machine.sleepers.has_sentinel(), "nobody polls, nobody knows");
        drop(registration);
    });
}
