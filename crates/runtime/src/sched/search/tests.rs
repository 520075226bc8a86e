//! What one worker looks for and takes before it sleeps, from other groups and behind other caches, on a scheduler
//! whose workers are not started.

use std::os::fd::AsFd;
use std::task::Waker;

use quadrille_policy::{Nanos, SetId};

use super::Scope;
use crate::reactor::Interests;
use crate::sched::still::{Still, take_queued};
use crate::sched::worker::{Looked, Worker};
use crate::sys::clock;

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

/// Nobody sleeps because of a gate: whoever sees something in its final look goes for it, and does not stand in front
/// of the gate.
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
    for machine in ["node:2 llc:1 core:3", "llc:4 core:3", "node:4 llc:4 core:3"] {
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

/// Two groups of two workers, the first of which searches while something waits for the second, whose members have a
/// second's patience that does not end here.
const TWO_GROUPS: (&str, &str) = ("l2:2 core:2", "groups=on,group=2,rescue-llc=1s,rescue-any=1s");
const SECOND: u64 = 1_000_000_000;

/// Whether the searcher takes what waits for a group whose members have published such runs, after `prepare`.
fn takes_from_other_group(runs: [u64; 2], prepare: impl FnOnce(&Still)) -> bool {
    let mut still = Still::new(TWO_GROUPS.0, TWO_GROUPS.1);
    let mut worker = thief(&mut still);
    for (member, run) in still.shared.workers[2..].iter().zip(runs) {
        member.told.tell_average(Nanos(run));
    }
    still.shared.groups[1].push(still.task(0, SetId::NONE), false, clock::nanos);
    prepare(&still);
    worker.search(Scope::Normal).is_some()
}

/// The first of two who are somewhere in a run of three seconds is through after one.
#[test]
fn who_runs_long_tasks_is_not_waited_for() {
    const LONG: u64 = 3 * SECOND + 1;
    for (runs, is_taken) in [
        ([LONG, LONG], true),
        ([LONG, 3 * SECOND], false),
        ([2_000, LONG], false),
        ([LONG, 0], false),
        ([0, 0], false),
    ] {
        assert_eq!(takes_from_other_group(runs, |_| {}), is_taken, "runs of {runs:?} ns");
    }
    let asleep = takes_from_other_group([LONG, LONG], |still| still.announce(2));
    assert!(!asleep, "who sleeps is in no task");
    let woken = takes_from_other_group([LONG, LONG], |still| {
        still.announce(2);
        let seat = still.shared.sleepers.seat(2);
        assert!(still.shared.sleepers.idle.claim_seat(seat));
        still.shared.wake_claimed(seat, None);
    });
    assert!(!woken, "who is on its way is in no task");
}

/// A group that is always left to members in long tasks does not keep the searchers from one that is overdue.
#[test]
fn what_is_overdue_comes_before_what_need_not_wait() {
    let mut still = Still::new("l2:3 core:1", "groups=on,group=1");
    let mut worker = thief(&mut still);
    still.shared.workers[1].told.tell_average(Nanos(SECOND));
    // Never overdue, however long we are kept from the CPU.
    still.shared.groups[1].push(still.task(0, SetId::NONE), false, || u64::MAX);
    still.shared.groups[2].push(still.task(0, SetId::NONE), false, || 0);
    assert!(worker.search(Scope::Normal).is_some());
    let waiting = [1, 2].map(|group: usize| still.shared.groups[group].len());
    assert_eq!(waiting, [1, 0]);
}

/// Without patience what has waited for no time at all is overdue.
#[test]
fn no_patience_is_none() {
    let mut still = Still::new("l2:2 core:1", "groups=on,group=1,rescue-llc=0ns");
    let mut worker = thief(&mut still);
    still.shared.groups[1].push(still.task(0, SetId::NONE), false, || u64::MAX);
    assert!(worker.search(Scope::Normal).is_some());
}

/// Whether the worker spins before it announces itself, with `publish-delay=1ms`, while nothing comes.
fn lingers(worker: &mut Worker) -> bool {
    let start = clock::nanos();
    assert!(!worker.linger(), "nothing comes");
    clock::nanos() - start >= Nanos::from_millis(1).0
}

/// Whether `worker` is seen not to linger: somebody else may have had our CPU in one attempt or the other.
fn does_not_linger(worker: &mut Worker) -> bool {
    (0..50).any(|_| !lingers(worker))
}

#[test]
fn a_worker_lingers_by_policy() {
    for (policy, expected) in [
        ("default", true),
        ("baseline", false),
        ("baseline,groups=on,filter=on", true),
        ("baseline,wake-cost=on", true),
        ("wake-cost=off", false),
        ("spin=0ns", false),
        // Who asks for no busy waiting has none.
        ("baseline,groups=on,filter=on,spin=0ns", false),
    ] {
        let policy = format!("{policy},publish-delay=1ms");
        let mut still = Still::spinning("core:2", &policy);
        let mut worker = still.worker(0);
        let lingers = if expected {
            lingers(&mut worker)
        } else {
            !does_not_linger(&mut worker)
        };
        assert_eq!(lingers, expected, "{policy}");
        let mut still = Still::new("core:2", &policy);
        assert!(does_not_linger(&mut still.worker(0)), "{policy}: where nobody spins");
    }
}

#[test]
fn what_comes_while_a_worker_lingers_ends_that() {
    let mut still = Still::spinning("core:2", "publish-delay=1ms");
    let mut worker = still.worker(0);
    // Somebody else may have our CPU for longer than it lingers.
    let sees_it = |worker: &mut Worker| (0..50).any(|_| worker.linger());
    assert!(!sees_it(&mut worker), "nothing yet");
    still.inject(0);
    assert!(sees_it(&mut worker), "in the injector");
    assert_eq!(take_queued(&still.shared).len(), 1);
    worker.context.me().bound.push(still.task(0, SetId::NONE));
    assert!(sees_it(&mut worker), "in its mailbox");
    assert!(worker.next_local().is_some());
}

#[test]
fn who_gets_up_soon_does_not_linger() {
    let mut still = Still::spinning("core:2", "publish-delay=1ms,wake-cost-first=50us");
    let mut worker = still.worker(0);
    let expires_in = |worker: &Worker, us: u64| {
        let due = clock::nanos() + us * 1000;
        assert!(worker.context.me().timers.insert(due, Waker::noop().clone()).is_ok());
    };
    // Twenty times the longer of both, which is 20 ms.
    expires_in(&worker, 10_000_000);
    assert!(lingers(&mut worker));
    expires_in(&worker, 10_000);
    assert!(does_not_linger(&mut worker));
}

/// Who is about to sleep in the poll does not linger before: events are not among what it would see. A sentinel leaves
/// the poll to who is awake.
#[test]
fn who_would_poll_does_not_linger() {
    let mut still = Still::spinning("core:2", "groups=on,filter=on,publish-delay=1ms");
    let mut worker = still.worker(0);
    assert!(lingers(&mut worker), "for as long as it is told to");
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    let _source = still.shared.register(socket.as_fd(), Interests::Read).unwrap();
    assert!(lingers(&mut worker), "the other worker is awake, and polls");
    still.announce(1);
    assert!(does_not_linger(&mut worker), "nobody else polls");
}

/// The last one lingers for two wake-ups: with 1 ms a wake-up for 2 ms. Others, and it after eight times in vain, for
/// `publish-delay`. What does not hold, if not that.
fn last_one_awake_lingers() -> Result<(), &'static str> {
    let mut still = Still::spinning("core:2", "publish-delay=1us,spin=1s,wake-cost-first=1ms");
    let mut worker = still.worker(0);
    // Somebody else may have our CPU for longer than it lingers.
    let lingers = |worker: &mut Worker, times: u32| {
        let lasted = |_| {
            let start = clock::nanos();
            assert!(!worker.linger(), "nothing comes");
            clock::nanos() - start
        };
        (0..times).map(lasted).min().unwrap()
    };
    let check = |holds: bool, what| if holds { Ok(()) } else { Err(what) };
    let long = Nanos::from_millis(2).0;
    check(lingers(&mut worker, 50) < long, "not while the other one is awake")?;
    still.announce(1);
    check(lingers(&mut worker, 8) >= long, "eight times")?;
    check(lingers(&mut worker, 15) < long, "not when that was in vain")?;
    check(lingers(&mut worker, 1) >= long, "each sixteenth time")?;
    check(lingers(&mut worker, 15) < long, "but not before")?;
    worker.lingers.ended(true);
    check(lingers(&mut worker, 1) >= long, "when it has paid again")?;
    still.inject(0);
    assert!(worker.linger());
    drop(take_queued(&still.shared));
    Ok(())
}

/// Whose CPU somebody else has until all the time has passed does not linger at all, and so not in vain: that shifts
/// what comes after it.
#[test]
fn the_last_one_awake_lingers_for_longer_while_that_pays() {
    let mut failures = Vec::new();
    let holds = (0..20).any(|_| last_one_awake_lingers().map_err(|what| failures.push(what)).is_ok());
    assert!(holds, "{failures:?}");
}

/// A search that finds nothing looks at every deque, and at a closed gate at those behind its own cache alone.
#[test]
fn a_closed_gate_shortens_searches() {
    const SEARCHES: u64 = 32;
    const OPEN: &str = "groups=on,aggregation=off,numa=off,gates=off";
    // Of 16 workers, of 64 and of 256; eight behind each cache.
    for machine in ["node:2 llc:1 core:8", "node:2 llc:4 core:8", "node:4 llc:8 core:8"] {
        let steps = |config: &str| {
            let mut still = Still::new(machine, config);
            let mut worker = thief(&mut still);
            (0..SEARCHES).for_each(|_| assert!(worker.search(Scope::Normal).is_none()));
            let plan = &still.shared.policy.plan;
            let of_all = plan.workers.len() + plan.groups.len() - 2;
            let near = plan.llcs[0].workers.len() + plan.llcs[0].groups.len() - 2;
            let steps = worker.context.me().counters.search_steps.get();
            (steps, SEARCHES * of_all as u64, SEARCHES * near as u64)
        };
        let (open, all, _) = steps(OPEN);
        assert_eq!(open, all, "{machine}");
        let (closed, all, near) = steps(&format!("{OPEN},gates=on,gate-start=0"));
        // One search in 1,024 looks all the same.
        assert!(
            (near..(near + all) / 2).contains(&closed),
            "{machine}: {closed} of {all}"
        );
    }
}

/// A mate's deque before those of the rest of the cache, wherever the draw begins; without groups, or by a rescuer,
/// whichever comes first.
#[test]
fn mates_are_robbed_first() {
    let of_mates = |config: &str, scope| {
        let mut still = Still::new("core:8", config);
        let (mate, other) = (still.local(3), still.local(6));
        let mut worker = thief(&mut still);
        let mut from_mate = 0;
        for _ in 0..32 {
            for victim in [&mate, &other] {
                victim.push(still.task(0, SetId::NONE));
            }
            assert!(worker.search(scope).is_some());
            from_mate += u32::from(mate.len() == 0);
            while worker.context.local.pop().is_some() || mate.pop().is_some() || other.pop().is_some() {}
        }
        from_mate
    };
    assert_eq!(of_mates("groups=on,group=4", Scope::Normal), 32);
    for (config, scope) in [("groups=off", Scope::Normal), ("groups=on,group=4", Scope::Rescue)] {
        let at_random = of_mates(config, scope);
        assert!(
            (4..28).contains(&at_random),
            "{config}: {at_random} of 32 by the draw alone"
        );
    }
}

/// Between two tasks a worker takes one from its group's queue, though it has one in its slot, where nobody else finds
/// that: what it takes may run for long.
#[test]
fn what_waits_in_the_slot_meanwhile_is_for_thieves() {
    let mut still = Still::new("core:2", "groups=on");
    let mut worker = still.worker(0);
    let shared = still.shared.clone();
    let (waits, comes) = (still.task(0, SetId::NONE), still.task(0, SetId::NONE));
    let ids = [waits.meta().id, comes.meta().id];
    shared.workers[0].slot.replace(waits);
    shared.groups[0].push(comes, true, || 0);
    let Looked::Task(found) = worker.look_up() else {
        panic!("there is one in the group");
    };
    assert_eq!(found.meta().id, ids[1]);
    assert!(shared.workers[0].slot.is_empty());
    let stolen = still.worker(1).context.local.steal(&shared.workers[0].stealer, 1);
    assert_eq!(stolen.map(|stolen| stolen.meta().id), Some(ids[0]));
}

/// One that finds nothing leaves the slot as it is, and so does one whose thieves find something in its deque.
#[test]
fn else_the_slot_keeps_its_place() {
    for is_found in [false, true] {
        let mut still = Still::new("core:2", "groups=on");
        let mut worker = still.worker(0);
        let shared = still.shared.clone();
        shared.workers[0].slot.replace(still.task(0, SetId::NONE));
        if is_found {
            worker.context.local.push(still.task(0, SetId::NONE));
            shared.groups[0].push(still.task(0, SetId::NONE), true, || 0);
        }
        match worker.look_up() {
            Looked::Stop => panic!("nobody stops"),
            Looked::Nothing => assert!(!is_found),
            Looked::Task(_) => assert!(is_found),
        }
        assert!(!shared.workers[0].slot.is_empty());
    }
}
