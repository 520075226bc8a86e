//! H: a sum that is halved loses no addition and never falls below zero.

use std::sync::Arc;

use loom::thread::spawn;

use super::check;
use crate::sched::sets::Tally;

fn tally() -> Arc<Tally> {
    let tally = Arc::new(Tally::new(1));
    tally.add(0, 7);
    tally
}

/// What is in the sum once everybody has finished.
fn left(tally: &Tally) -> u64 {
    tally.turn_early(0).expect("nobody has the turn").halve(0)
}

#[test]
fn h_additions_survive_halving() {
    check(3, || {
        let tally = tally();
        let adder = tally.clone();
        let thread = spawn(move || adder.add(0, 3));
        let halved = tally.turn(0, 0).expect("nobody else takes turns").halve(0);
        thread.join().unwrap();
        assert!(halved == 7 || halved == 10);
        assert_eq!(left(&tally), 10 - halved.div_ceil(2));
    });
}

#[test]
fn h_one_turn_at_a_time() {
    check(3, || {
        let tally = tally();
        let threads = [0, 1].map(|_| {
            let halver = tally.clone();
            spawn(move || halver.turn(0, 0).map(|turn| turn.halve(0)))
        });
        let halved = threads.map(|thread| thread.join().unwrap().unwrap_or(0));
        let mut seen = halved;
        seen.sort_unstable();
        assert!(seen == [0, 7] || seen == [3, 7], "{seen:?}");
        assert_eq!(
            left(&tally),
            7 - halved.iter().map(|value| value.div_ceil(2)).sum::<u64>()
        );
    });
}
