//! What the gates and policy 6 let one worker look for and take behind other caches, on a scheduler whose workers are not started.

use quadrille_policy::SetId;

use super::Scope;
use crate::sched::still::Still;
use crate::sched::worker::Worker;

/// Gates that are closed but for dice of 1 in 1024, and nobody else who could tell a thief to leave something.
const CLOSED: &str = "groups=on,aggregation=off,numa=off,gates=on,gate-start=0,skip-count=8";

/// The first worker, which searches.
fn thief(still: &mut Still) -> Worker {
    let worker = still.worker(0);
    still.shared.sleepers.start_search(0);
    worker
}

/// Searches of the worker until one finds something, that one included, at most `most`.
#[track_caller]
fn searches_until_found(worker: &mut Worker, most: usize) -> usize {
    let found = (1..=most).find(|_| worker.search(Scope::Normal).is_some());
    found.unwrap_or_else(|| panic!("nothing found in {most} searches"))
}

/// A gate that lets every ninth search pass lets it pass to all caches of its level, however many there are.
#[test]
fn a_closed_gate_keeps_no_cache_from_a_search_that_passes() {
    for machine in ["llc:4 core:2", "node:4 llc:1 core:2", "node:2 llc:3 core:2"] {
        for far in 1..4 {
            let mut still = Still::new(machine, CLOSED);
            let mut worker = thief(&mut still);
            for _ in 0..3 {
                still.inject(far);
                let searches = searches_until_found(&mut worker, 9);
                assert!(searches > 1 || far > 1, "{machine}: the gate is closed");
            }
        }
    }
}

/// Nobody sleeps because of a gate: whoever sees something in its final look goes for it, and does not stand in front of the gate.
#[test]
fn what_was_seen_is_found_by_the_next_search() {
    for machine in ["llc:4 core:2", "node:4 llc:1 core:2", "node:2 llc:3 core:2"] {
        for far in 1..4 {
            for in_deque in [false, true] {
                let mut still = Still::new(machine, CLOSED);
                let mut worker = still.worker(0);
                let victim = still.local(2 * far);
                // Somebody sleeps, so that it has nobody to observe.
                still.announce(1);
                // It asks again for what it has not seen.
                for round in 1..=2 {
                    if in_deque {
                        victim.push(still.task(2 * far, SetId::NONE));
                    } else {
                        still.inject(far);
                    }
                    assert!(worker.dry().is_some());
                    let counters = &worker.context.me().counters;
                    let searches = (counters.searches.get(), counters.searches_failed.get());
                    assert_eq!(searches, (2 * round, round), "{machine}: {far}, in a deque: {in_deque}");
                }
            }
        }
    }
}

/// Policy 6 alone, which never has to wait for time to pass.
const TOLERANT: &str = "groups=on,aggregation=off,gates=off,numa-steal-after=0ns,sets-steal-after=0ns,skip-count=8";

/// A search that was told to leave something counts once, however many caches there are where it may take nothing.
#[test]
fn a_spoiled_search_is_one_skip() {
    for machine in ["node:2 llc:1 core:2", "llc:4 core:2", "node:4 llc:4 core:2"] {
        let mut still = Still::new(machine, TOLERANT);
        let mut worker = thief(&mut still);
        for skips in 0..8 {
            if skips == 0 {
                // Nothing is left where nothing is.
                (0..20).for_each(|_| assert!(worker.search(Scope::Normal).is_none()));
                let last = still.shared.injectors.len() - 1;
                still.inject(u16::try_from(last).unwrap());
            }
            assert_eq!(worker.sight.skips, skips, "{machine}");
            assert!(worker.search(Scope::Normal).is_none(), "{machine}");
        }
        assert_eq!(searches_until_found(&mut worker, 1), 1, "{machine}");
    }
}

/// The thief is one of the idle workers of its place, in its search as in its final look.
#[test]
fn a_searching_thief_counts_itself() {
    for machine in ["node:2 llc:1 core:4", "llc:2 core:4"] {
        for (others, may) in [(1, false), (2, true)] {
            let mut still = Still::new(machine, TOLERANT);
            let mut worker = thief(&mut still);
            (1..=others).for_each(|other| still.announce(other));
            still.inject(1);
            worker.sight.dry_since = worker.far_now();
            let found = worker.search(Scope::Normal);
            assert_eq!(found.is_some(), may, "{machine}: in its search, beside {others}");
            if found.is_some() {
                still.inject(1);
            }
            still.shared.sleepers.stop_search(0);
            still.announce(0);
            let seen = worker.sight.final_look(&worker.context, false);
            assert_eq!(seen, may, "{machine}: in its final look, beside {others}");
            let _drained = still.shared.injectors[1].pop(&worker.context.local, 1);
        }
    }
}
