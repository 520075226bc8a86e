use quadrille_policy::{Plan, PlanOptions};

use super::*;

/// How long an interval is, ns.
const INTERVAL: u64 = 500;

/// A worker whose clock stands, and who sees what the test says.
struct Script {
    now: u64,
    alarm: Alarm,
    owes_look: bool,
    look: Look,
    looks: u32,
}

impl Host for Script {
    fn final_look(&mut self, _everything: bool) -> bool {
        false
    }

    fn spin(&mut self, _word: &ParkWord) {}

    fn sentinel_look(&mut self) -> Look {
        self.looks += 1;
        self.look
    }

    fn interval(&mut self) -> Duration {
        Duration::from_nanos(INTERVAL)
    }

    fn owes_look(&mut self) -> bool {
        self.owes_look
    }

    fn now_and_soon(&mut self) -> (u64, u64) {
        (self.now, self.now + INTERVAL)
    }

    fn others(&self) -> &[LlcId] {
        &[]
    }

    fn poll(&mut self, _duty: &Duty<'_>, _timeout: Option<Duration>) -> Polled {
        unreachable!("there are no sources")
    }

    fn is_neglected(&self, _shard: usize) -> bool {
        false
    }

    fn takes_over(&mut self, _shard: usize, _rouse: bool) {}

    fn alarm(&mut self) -> Alarm {
        self.alarm
    }
}

/// At 1000, a look is due, nothing is set, and timers alone have run.
const SCRIPT: Script = Script {
    now: 1_000,
    alarm: Alarm::Never,
    owes_look: true,
    look: Look::Timers,
    looks: 0,
};

fn nap(duty: bool, promised: u64) -> Nap<'static> {
    Nap {
        duty,
        polls: None,
        promised,
        unseen: false,
    }
}

/// All of so many workers idle, without a sentinel.
fn all_idle(workers: u16) -> Sleepers {
    let machine = format!("core:{workers}").parse().unwrap();
    let sleepers = Sleepers::new(&Plan::compile(&machine, &PlanOptions::default()).unwrap());
    (0..usize::from(workers)).for_each(|worker| sleepers.idle.announce(sleepers.seat(worker)));
    sleepers
}

#[test]
fn a_promise_is_kept_although_the_timer_is_gone() {
    let sleepers = all_idle(3);
    let (mut host, mut nap) = (SCRIPT, nap(false, 1_000));
    // Somebody is awake, so that the duty stays.
    assert!(sleepers.idle.claim_seat(sleepers.seat(2)));
    host.look = Look::Active;
    assert_eq!(sleepers.time_is_over(0, &mut nap, true, &mut host), None);
    assert_eq!((host.looks, nap.duty, nap.promised), (1, true, u64::MAX));
    assert!(sleepers.has_sentinel());
}

#[test]
fn whom_a_sentinel_spares_a_promise_does_not_look() {
    let sleepers = all_idle(3);
    assert!(sleepers.take_duty(1));
    let (mut host, mut nap) = (SCRIPT, nap(false, 1_000));
    assert_eq!(sleepers.time_is_over(0, &mut nap, true, &mut host), None);
    assert_eq!((host.looks, nap.duty, nap.promised), (0, false, u64::MAX));
}

#[test]
fn who_gets_up_for_a_timer_looks_once_an_interval_if_nobody_else_does() {
    for (has_sentinel, owes_look, looks) in [(false, true, 1), (false, false, 0), (true, true, 0)] {
        let sleepers = all_idle(3);
        assert!(!has_sentinel || sleepers.take_duty(1));
        let (mut host, mut nap) = (SCRIPT, nap(false, 1_000));
        (host.alarm, host.owes_look) = (Alarm::Now, owes_look);
        let risen = sleepers.time_is_over(0, &mut nap, true, &mut host);
        assert_eq!((risen, host.looks), (Some(Risen::Alarm), looks));
    }
    let sleepers = all_idle(3);
    let (mut host, mut nap) = (SCRIPT, nap(false, 1_000));
    (host.alarm, host.look) = (Alarm::Now, Look::Stuck);
    let risen = sleepers.time_is_over(0, &mut nap, true, &mut host);
    assert_eq!(risen, Some(Risen::Stuck));
}

#[test]
fn a_single_worker_watches_nobody() {
    let sleepers = all_idle(1);
    let (mut host, mut nap) = (SCRIPT, nap(false, 1_000));
    assert_eq!(sleepers.time_is_over(0, &mut nap, true, &mut host), None);
    assert_eq!((host.looks, nap.duty), (0, false));
    (host.alarm, nap.promised) = (Alarm::Now, 1_000);
    let risen = sleepers.time_is_over(0, &mut nap, true, &mut host);
    assert_eq!(risen, Some(Risen::Alarm));
}

/// Worker 0 is the sentinel and its interval has ended; worker 1 gets up by itself then, if at all. Whether worker 0 gives the duty back, and what it promises.
fn left(first: Option<u64>, is_awake: bool, look: Look) -> (bool, Option<u64>) {
    let sleepers = all_idle(2);
    assert!(sleepers.take_duty(0));
    if let Some(first) = first {
        sleepers.alarms.set(1, first);
    }
    assert!(!is_awake || sleepers.idle.claim_seat(sleepers.seat(1)));
    let (mut host, mut nap) = (Script { look, ..SCRIPT }, nap(true, u64::MAX));
    assert_eq!(sleepers.time_is_over(0, &mut nap, false, &mut host), None);
    assert_eq!(sleepers.has_sentinel(), nap.duty);
    let promised = (nap.promised != u64::MAX).then_some(nap.promised);
    if let Some(promised) = promised {
        assert!(sleepers.likely_gets_up(&(promised..=promised)), "it is published");
    }
    (!nap.duty, promised)
}

#[test]
fn the_watch_is_left_to_who_gets_up_by_himself() {
    assert_eq!(left(Some(5_000), false, Look::Timers), (true, Some(5_000 + INTERVAL)));
    assert_eq!(
        left(Some(900), false, Look::Timers),
        (true, Some(1_000 + INTERVAL)),
        "late"
    );
    assert_eq!(left(None, false, Look::Timers), (true, None), "nobody else gets up");
    assert_eq!(
        left(Some(5_000), true, Look::Timers),
        (false, None),
        "somebody is awake"
    );
    assert_eq!(
        left(Some(5_000), false, Look::Active),
        (false, None),
        "others than timers woke"
    );
    assert_eq!(
        left(Some(5_000), false, Look::Quiet),
        (true, None),
        "nothing has run: it sleeps"
    );
}

#[test]
fn who_goes_to_sleep_relies_on_a_promise_of_this_interval() {
    let sleepers = all_idle(2);
    let mut relieved = |promised: u64| {
        sleepers.alarms.set(1, promised);
        sleepers.relies_on(1);
        sleepers.is_relieved(&mut SCRIPT)
    };
    assert!(relieved(1_000 + INTERVAL));
    assert!(!relieved(1_001 + INTERVAL), "too late");
    assert!(relieved(1_000 - INTERVAL), "about to get up");
    assert!(!relieved(999 - INTERVAL), "it should have got up long ago");
    assert!(relieved(1_000));
    assert!(sleepers.take_duty(1));
    assert!(!sleepers.is_relieved(&mut SCRIPT), "the sentinel is who relieves");
    sleepers.resign(1);
    assert!(sleepers.idle.claim_seat(sleepers.seat(1)));
    assert!(!sleepers.is_relieved(&mut SCRIPT), "it is awake");
}
