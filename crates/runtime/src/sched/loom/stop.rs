//! S: a stop ends every sleep, and every worker that is on its way to one.

use loom::thread::spawn;

use super::{Machine, check, one_group};

/// There is never anything to do. Both workers end, wherever they are when the flag is set.
#[test]
fn s_stop_ends_every_sleep() {
    let plan = one_group(2);
    check(3, move || {
        let machine = Machine::new(&plan, 0);
        let threads = [0, 1].map(|member| {
            let worker = machine.clone();
            spawn(move || worker.work(member))
        });
        machine.sleepers.stop();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(
            (
                machine.sleepers.idle.caches.total(),
                machine.sleepers.searching_behind(0)
            ),
            (0, 0)
        );
    });
}

/// The token falls where a worker that has found something eats it on its way out of the sleep. A second item, which
/// never comes, keeps the worker from ending the machine itself.
#[test]
fn s_stop_between_two_sleeps() {
    let plan = one_group(1);
    check(3, move || {
        let machine = Machine::new(&plan, 2);
        let stopper = machine.clone();
        let thread = spawn(move || {
            stopper.push_to_group(0, false);
            stopper.sleepers.stop();
        });
        machine.work(0);
        thread.join().unwrap();
        assert_eq!(machine.sleepers.idle.caches.total(), 0);
        assert_eq!(machine.sleepers.searching_behind(0), 0);
    });
}
