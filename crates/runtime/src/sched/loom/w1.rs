//! W1: a task that is pushed is drained by a worker that is awake, or a worker is unparked for it.

use loom::thread::spawn;

use super::{Machine, check, one_group};
use crate::sched::publish;

#[test]
fn w1_no_lost_wakeup() {
    let plan = one_group(1);
    check(3, move || {
        let machine = Machine::new(&plan, 1);
        let pusher = machine.clone();
        let thread = spawn(move || pusher.push_to_group(0, false));
        machine.work(0);
        thread.join().unwrap();
        assert_eq!(machine.sleepers.idle.caches.total(), 0);
    });
}

/// A member of the group that stays awake pushes under the lock, or into the mailbox if the lock is taken.
#[test]
fn w1_no_lost_wakeup_direct() {
    let plan = one_group(2);
    check(3, move || {
        let machine = Machine::new(&plan, 1);
        let pusher = machine.clone();
        let thread = spawn(move || pusher.push_to_group(0, true));
        machine.work(0);
        thread.join().unwrap();
    });
}

#[test]
fn w1_no_lost_wakeup_two_pushers() {
    let plan = one_group(1);
    check(2, move || {
        let machine = Machine::new(&plan, 2);
        let threads = [0, 1].map(|index| {
            let pusher = machine.clone();
            spawn(move || pusher.push_to_group(index, false))
        });
        machine.work(0);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(machine.sleepers.idle.caches.total(), 0);
    });
}

/// Two members: whoever is claimed, or still awake, drains.
#[test]
fn w1_no_lost_wakeup_two_members() {
    let plan = one_group(2);
    check(2, move || {
        let machine = Machine::new(&plan, 1);
        let threads = [0, 1].map(|member| {
            let worker = machine.clone();
            spawn(move || worker.work(member))
        });
        machine.push_to_group(0, false);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(machine.sleepers.idle.caches.total(), 0);
    });
}

/// The rescuer moves the mailbox into the FIFO and takes one of two; the member's final look may fall in between.
#[test]
fn w1_rescuer_announces_what_it_leaves() {
    let plan = one_group(1);
    check(3, move || {
        let machine = Machine::new(&plan, 2);
        let pushed = [0, 1].map(|index| machine.group.push(machine.arena.item(index), false, || 0));
        assert_eq!(pushed.len(), 2);
        let worker = machine.clone();
        let thread = spawn(move || worker.work(0));
        let (item, seat) = publish::rescue_from_group((&machine.group, 0), 0, &machine.sleepers, 0, drop);
        machine.wake(seat);
        item.into_iter().for_each(|item| machine.finish(item));
        thread.join().unwrap();
    });
}
