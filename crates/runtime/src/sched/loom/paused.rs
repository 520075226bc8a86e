//! The paused clock: it jumps when everything waits, not before, and does not stand for ever.

use std::sync::Arc;

use loom::thread::spawn;

use super::{Alarm, Item, Machine, Sleeper, check, one_group};
use crate::time::clock::Clock;

/// A machine of one worker, and its clock.
struct Paused {
    machine: Arc<Machine>,
    clock: Clock,
}

impl Paused {
    fn new(items: usize, stands: bool) -> Arc<Self> {
        Arc::new(Self {
            machine: Machine::new(&one_group(1), items),
            clock: Clock::new(stands),
        })
    }

    fn ceases_to_work(&self) {
        self.wake_if(self.clock.ceases_to_work(&self.machine.sleepers));
    }

    fn pause(&self) {
        assert!(self.clock.pause_in(&self.machine.sleepers, None, || ()));
        self.wake_if(self.clock.changes(&self.machine.sleepers));
    }

    fn wake_if(&self, claimed: bool) {
        if claimed {
            let _found = self.machine.sleepers.wake(0);
        }
    }

    /// The worker, until the clock jumps for its timer. How many items it has found by then.
    fn work(&self) -> usize {
        let (mut claimed, mut found) = (false, 0);
        loop {
            if !claimed {
                self.machine.sleepers.start_search(0);
            }
            found += self.machine.injector.drain().map(Item::finish).count();
            let mut host = Waits {
                paused: self,
                jumped: false,
            };
            claimed = self.machine.sleepers.sleep(0, &mut host).claimed;
            if host.jumped {
                return found;
            }
        }
    }
}

/// A worker with one timer, far away.
struct Waits<'a> {
    paused: &'a Paused,
    jumped: bool,
}

impl Sleeper for Waits<'_> {
    fn final_look(&mut self, _everything: bool) -> bool {
        !self.paused.machine.injector.is_empty()
    }

    fn may_jump(&self) -> bool {
        self.paused.clock.may_jump()
    }

    fn alarm(&mut self, may_jump: bool) -> Alarm {
        self.jumped = may_jump && self.paused.clock.jump(u64::MAX - 1);
        if self.jumped { Alarm::Now } else { Alarm::Never }
    }
}

/// Somebody who is at work pushes a task, and ceases to be at work: the clock jumps when that was found, not before.
#[test]
fn paused_jumps_after_what_was_done() {
    check(2, || {
        let paused = Paused::new(1, true);
        paused.clock.works();
        let other = paused.clone();
        let thread = spawn(move || {
            other.machine.push_to_anyone(0);
            other.ceases_to_work();
        });
        assert_eq!(paused.work(), 1, "it has jumped beside a task");
        thread.join().unwrap();
    });
}

/// The same, of two who do nothing.
#[test]
fn paused_jumps_after_the_last() {
    check(2, || {
        let paused = Paused::new(0, true);
        let threads = [(); 2].map(|()| {
            paused.clock.works();
            let other = paused.clone();
            spawn(move || other.ceases_to_work())
        });
        paused.work();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Somebody ceases to be at work while the clock is paused: he sees that, or the worker sees that he has.
#[test]
fn paused_while_somebody_ceases_it_jumps() {
    check(2, || {
        let paused = Paused::new(0, false);
        paused.clock.works();
        let (other, pauser) = (paused.clone(), paused.clone());
        let threads = [spawn(move || other.ceases_to_work()), spawn(move || pauser.pause())];
        paused.work();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A runtime stops while its clock is paused: it goes on.
#[test]
fn paused_while_its_runtime_stops_it_goes() {
    check(3, || {
        let paused = Paused::new(0, false);
        let other = paused.clone();
        let thread = spawn(move || {
            other.machine.sleepers.stop();
            other.clock.outlasts();
        });
        assert!(paused.clock.pause_in(&paused.machine.sleepers, None, || ()));
        thread.join().unwrap();
        assert!(!paused.clock.is_paused(), "it stands for ever");
    });
}
