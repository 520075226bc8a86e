//! W3: after a push the pusher uses nothing that the task owns.

use loom::thread::spawn;

use super::{Machine, check, one_group};

/// The worker ends the item as soon as it has it. A later use of its cell by the pusher is a race that loom reports.
#[test]
fn w3_publish_last_touch() {
    let plan = one_group(1);
    check(3, move || {
        let machine = Machine::new(&plan, 2);
        let pusher = machine.clone();
        let thread = spawn(move || {
            pusher.push_to_group(0, false);
            pusher.push_to_anyone(1);
        });
        machine.work(0);
        thread.join().unwrap();
        assert_eq!(machine.left.load(std::sync::atomic::Ordering::SeqCst), 0);
    });
}

/// The same with the direct way into the FIFO.
#[test]
fn w3_publish_last_touch_direct() {
    let plan = one_group(2);
    check(3, move || {
        let machine = Machine::new(&plan, 1);
        let pusher = machine.clone();
        let thread = spawn(move || pusher.push_to_group(0, true));
        machine.work(0);
        thread.join().unwrap();
        assert_eq!(machine.left.load(std::sync::atomic::Ordering::SeqCst), 0);
    });
}
