use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};

use quadrille_policy::{Nanos, SetId};

use crate::sched::alarms::Alarm;
use crate::sched::context::Context;
use crate::sched::still::Still;
use crate::sys::clock;
use crate::task::spawn::{Options, allocate};
use crate::time::SLACK;

/// Counts how often it was called.
#[derive(Default)]
struct Calls(AtomicU32);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Timers fired by worker `by` of three, who gets up when one of its own has expired: of all that has expired with the
/// others, one each, who are as `prepare` leaves them; all sleep to begin with.
fn pulled(policy: &str, by: u16, prepare: impl FnOnce(&Still)) -> u32 {
    let mut still = Still::new("core:3", policy);
    let mut worker = still.worker(by);
    let (calls, own) = (Arc::new(Calls::default()), Arc::new(Calls::default()));
    let now = clock::nanos();
    for other in (0..3).filter(|other| *other != by) {
        let set = still.shared.timers_of(other).insert(now, Waker::from(calls.clone()));
        assert!(set.is_ok());
        still.announce(other);
    }
    assert!(worker.context.set_timer(now, Waker::from(own.clone())).is_ok());
    prepare(&still);
    worker.context.now.set(Nanos(now + 1));
    assert!(worker.take_fired().is_none(), "nothing was queued");
    assert_eq!(own.0.load(Ordering::Relaxed), 1);
    let counters = &still.shared.workers[usize::from(by)].counters;
    let called = calls.0.load(Ordering::Relaxed);
    // Threads that a test says to be there never were.
    still.shared.workers[2].living.store(0, Ordering::Relaxed);
    assert_eq!(
        (counters.timers.get(), counters.timers_pulled.get()),
        (1, u64::from(called))
    );
    called
}

#[test]
fn who_gets_up_fires_for_sleepers_of_a_higher_number() {
    assert_eq!([0, 1, 2].map(|by| pulled("default", by, |_| {})), [2, 1, 0]);
    assert_eq!(pulled("timer-looks=1", 0, |_| {}), 1);
    assert_eq!(pulled("timer-looks=0", 0, |_| {}), 0);
    assert_eq!(pulled("baseline", 0, |_| {}), 0);
}

#[test]
fn who_is_awake_fires_for_himself() {
    let claim = |still: &Still| {
        let seat = still.shared.sleepers.seat(1);
        assert!(still.shared.sleepers.idle.claim_seat(seat));
    };
    assert_eq!(pulled("default", 0, claim), 1);
}

#[test]
fn who_has_threads_fires_for_himself() {
    let bind = |still: &Still| still.shared.workers[2].living.store(1, Ordering::Relaxed);
    assert_eq!(pulled("default", 0, bind), 1);
}

#[test]
fn what_has_not_expired_stays() {
    let mut still = Still::new("core:2", "default");
    let mut worker = still.worker(0);
    let (calls, now) = (Arc::new(Calls::default()), clock::nanos());
    let set = |worker: u16, due| still.shared.timers_of(worker).insert(due, Waker::from(calls.clone()));
    assert!(set(0, now).is_ok() && set(1, now + 2).is_ok());
    still.announce(1);
    for (time, fired) in [(now + 1, 1), (now + 2, 1)] {
        worker.context.now.set(Nanos(time));
        assert!(worker.take_fired().is_none());
        assert_eq!(calls.0.load(Ordering::Relaxed), fired, "it got up for none of its own");
    }
    assert!(set(0, now).is_ok());
    assert!(worker.take_fired().is_none());
    assert_eq!(calls.0.load(Ordering::Relaxed), 3);
}

/// How long after its own timer, which expires in 1 s, worker `sleeper` of two gets up, if the other has one that
/// expires in so many ns.
fn gets_up_after(policy: &str, sleeper: u16, other: u64, prepare: impl FnOnce(&Still)) -> u64 {
    let mut still = Still::new("core:2", policy);
    let worker = still.worker(sleeper);
    let (calls, now) = (Arc::new(Calls::default()), clock::nanos());
    let due = now + 1_000_000_000;
    assert!(worker.context.set_timer(due, Waker::from(calls.clone())).is_ok());
    let set = still
        .shared
        .timers_of(1 - sleeper)
        .insert(now + other, Waker::from(calls));
    assert!(set.is_ok());
    prepare(&still);
    let alarm = worker.context.alarm(false);
    // Threads that a test says to be there never were.
    still.shared.workers[usize::from(sleeper)]
        .living
        .store(0, Ordering::Relaxed);
    let Alarm::At { time, .. } = alarm else {
        panic!("a timer is set: {alarm:?}");
    };
    time - due
}

#[test]
fn who_is_fired_for_leaves_the_first_the_slack_to_come_by() {
    const FAR: u64 = 500_000_000;
    let nothing = |_: &Still| {};
    // Unless the CPU stands still for longer than the slack between two looks at the clock.
    let is_left = || u128::from(gets_up_after("default", 1, 50_000, nothing)) == SLACK.as_nanos();
    assert!((0..50).any(|_| is_left()));
    assert_eq!(
        gets_up_after("default", 1, FAR, nothing),
        0,
        "nobody is about to get up"
    );
    assert_eq!(
        gets_up_after("default", 0, 50_000, nothing),
        0,
        "nobody fires for the first"
    );
    assert_eq!(gets_up_after("timer-looks=0", 1, 50_000, nothing), 0);
    let bind = |still: &Still| still.shared.workers[1].living.store(1, Ordering::Relaxed);
    assert_eq!(
        gets_up_after("default", 1, 50_000, bind),
        0,
        "nobody fires for who has threads"
    );
}

/// How late it is anyway is taken off, down to a half.
#[test]
fn timers_expire_together_within_what_is_left_of_the_slack_where_one_fires_for_others() {
    let last_of_two = |machine: &str, policy: &str, late: u64, between: u64| {
        let mut still = Still::new(machine, policy);
        let worker = still.worker(0);
        worker.context.late.set(Nanos(late));
        let due = clock::nanos() + 1_000_000_000;
        for time in [due, due + between] {
            assert!(worker.context.set_timer(time, Waker::noop().clone()).is_ok());
        }
        let Alarm::At { time, .. } = worker.context.alarm(false) else {
            panic!("timers are set");
        };
        time - due
    };
    for (late, slack) in [(0, 90_000), (20_000, 70_000), (45_000, 45_000), (400_000, 45_000)] {
        assert_eq!(last_of_two("core:2", "default", late, slack), slack);
        assert_eq!(last_of_two("core:2", "default", late, slack + 1), 0);
    }
    for late in [0, 400_000] {
        assert_eq!(last_of_two("core:2", "timer-looks=0", late, 90_000), 90_000);
        assert_eq!(last_of_two("core:1", "default", late, 90_000), 90_000);
        assert_eq!(last_of_two("core:1", "default", late, 90_001), 0);
    }
}

#[test]
fn a_worker_knows_how_late_its_sleeps_end() {
    let mut still = Still::new("core:2", "default");
    let worker = still.worker(0);
    let late = || worker.context.late.get();
    assert_eq!(late(), Nanos(0));
    (0..100).for_each(|_| worker.context.got_up_for(clock::nanos() - 100_000));
    assert!(late() > Nanos(99_000), "{}", late());
    let before = late();
    (0..100).for_each(|_| worker.context.got_up_for(u64::MAX));
    assert_eq!(late(), before, "a signal has ended the sleep");
    (0..100).for_each(|_| worker.context.got_up_for(clock::nanos()));
    assert!(late() < Nanos(10_000), "{}", late());
}

/// Queues so many tasks where it is called.
struct Queues(u32);

impl Wake for Queues {
    fn wake(self: Arc<Self>) {
        Context::with(|context| {
            let context = context.expect("a worker fires");
            let policy = context.shared.new_policy(Some(context.id), SetId::NONE);
            for _ in 0..self.0 {
                let (task, _handle) = allocate(&context.shared, None, policy, Options::default(), async {});
                context.local.push(task);
            }
        });
    }
}

/// Whether the other worker, which is the sentinel, is woken if a timer has woken so many tasks that take 2 us each.
/// `alone`: who fires it has nothing else to do. Waking costs 10 us.
fn woken_for(tasks: u32, policy: &str, alone: bool) -> bool {
    let mut still = Still::new("core:2", policy);
    let mut worker = still.worker(0);
    still.announce(1);
    assert!(still.shared.sleepers.take_duty(1));
    worker.context.average_run.set(Nanos(2_000));
    let now = clock::nanos();
    let waker = Waker::from(Arc::new(Queues(tasks)));
    assert!(worker.context.set_timer(now, waker).is_ok());
    worker.context.now.set(Nanos(now + 1));
    if alone {
        assert!(worker.take_fired().is_some());
    } else {
        assert!(worker.context.fire());
    }
    !still.is_idle(1)
}

#[test]
fn who_has_nothing_else_to_do_wakes_nobody_for_what_its_timers_have_woken_within_the_slack() {
    assert!(!woken_for(45, "default", true) && woken_for(46, "default", true));
    for (policy, alone) in [("default", false), ("timer-looks=0", true), ("short-runs=0", true)] {
        assert!(
            !woken_for(5, policy, alone) && woken_for(6, policy, alone),
            "{policy}, {alone}"
        );
    }
}

/// Who is awake should have come to its timer after a look up; who sleeps may be late by the slack, too.
#[test]
fn only_who_sleeps_has_the_slack_before_others_fire_for_it() {
    let still = Still::new("core:2", "default");
    let look_up = still.shared.policy.config.look_up.0;
    let slack = u64::try_from(SLACK.as_nanos()).unwrap();
    let (calls, due) = (Arc::new(Calls::default()), clock::nanos());
    assert!(still.shared.timers_of(1).insert(due, Waker::from(calls)).is_ok());
    let is_overdue = |after: u64| still.shared.is_overdue(1, Nanos(due + after));
    assert_eq!([look_up - 1, look_up].map(is_overdue), [false, true], "awake");
    still.announce(1);
    assert_eq!(
        [look_up, look_up + slack - 1, look_up + slack].map(is_overdue),
        [false, false, true],
        "asleep"
    );
}
