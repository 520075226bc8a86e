use quadrille_policy::{Plan, PlanOptions};

use super::*;

/// How long an interval is, ns.
const INTERVAL: u64 = 500;

/// A worker whose clock stands, and who sees what the test says.
struct Script {
    now: u64,
    alarm: Alarm,
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

    fn alarm(&mut self, _may_jump: bool) -> Alarm {
        self.alarm
    }
}

/// At 1000, a look is due, nothing is set, and timers alone have run.
fn script() -> Script {
    Script {
        now: 1_000,
        alarm: Alarm::Never,
        look: Look::Timers,
        looks: 0,
    }
}

fn nap(duty: bool, promised: u64) -> Nap<'static> {
    Nap {
        duty,
        polls: None,
        promised,
        comes_back: u64::MAX,
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
    let sleepers = all_idle(2);
    for (promised, risen) in [(1_000, Some(Risen::Alarm)), (999, Some(Risen::Alarm)), (1_001, None)] {
        let (mut host, mut nap) = (script(), nap(false, promised));
        assert_eq!(sleepers.time_is_over(0, &mut nap, &mut host), risen);
        assert_eq!(host.looks, 0);
    }
}

#[test]
fn who_has_left_the_watch_comes_back_without_getting_up() {
    for has_sentinel in [true, false] {
        let sleepers = all_idle(3);
        // Somebody is awake, so that the duty stays.
        assert!(sleepers.idle.claim_seat(sleepers.seat(2)));
        assert!(!has_sentinel || sleepers.take_duty(1));
        let (mut host, mut nap) = (script(), nap(false, 1_000));
        nap.comes_back = 1_000;
        sleepers.alarms.set(0, 1_000);
        assert_eq!(sleepers.time_is_over(0, &mut nap, &mut host), None);
        assert_eq!((nap.duty, nap.promised), (!has_sentinel, u64::MAX));
        assert_eq!(host.looks, u32::from(!has_sentinel));
        assert!(!sleepers.someone_gets_up(&(1_000..=1_000)), "the promise is kept");
    }
}

#[test]
fn who_gets_up_for_a_timer_does_not_look_before() {
    for duty in [true, false] {
        let sleepers = all_idle(2);
        let (mut host, mut nap) = (script(), nap(duty, u64::MAX));
        host.alarm = Alarm::Now;
        assert_eq!(sleepers.time_is_over(0, &mut nap, &mut host), Some(Risen::Alarm));
        assert_eq!(host.looks, 0);
    }
}

/// When the timer of worker 0 expires, for which it gets up.
const OWN: u64 = 6_000;

/// Worker 0 is the sentinel and its interval has ended; worker 1 gets up by itself then, if at all. Whether worker 0
/// gives the duty back, and what it promises.
fn left(first: Option<u64>, is_awake: bool, look: Look) -> (bool, Option<u64>) {
    let sleepers = all_idle(2);
    assert!(sleepers.take_duty(0));
    if let Some(first) = first {
        sleepers.alarms.set(1, first);
    }
    assert!(!is_awake || sleepers.idle.claim_seat(sleepers.seat(1)));
    let (mut host, mut nap) = (Script { look, ..script() }, nap(true, u64::MAX));
    host.alarm = Alarm::At { time: OWN, left: 1 };
    assert_eq!(sleepers.time_is_over(0, &mut nap, &mut host), None);
    assert_eq!(host.looks, 1);
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
        left(Some(5_900), false, Look::Timers),
        (true, Some(OWN)),
        "its own is sooner"
    );
    assert_eq!(
        left(Some(900), false, Look::Timers),
        (true, Some(1_000 + INTERVAL)),
        "late"
    );
    assert_eq!(
        left(None, false, Look::Timers),
        (true, Some(OWN)),
        "nobody else gets up"
    );
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
        (true, Some(OWN)),
        "nothing has run"
    );
    assert_eq!(left(None, true, Look::Quiet), (false, None));
}

#[test]
fn who_goes_to_sleep_relies_on_a_promise_of_this_interval() {
    let sleepers = all_idle(2);
    let relieved = |promised: u64| {
        sleepers.alarms.set(1, promised);
        sleepers.relies_on(1);
        sleepers.is_relieved(&mut script())
    };
    assert!(relieved(1_000 + INTERVAL));
    assert!(!relieved(1_001 + INTERVAL), "too late");
    assert!(relieved(1_000 - INTERVAL), "about to get up");
    assert!(!relieved(999 - INTERVAL), "it should have got up long ago");
    assert!(relieved(1_000));
    assert!(sleepers.take_duty(1));
    assert!(!sleepers.is_relieved(&mut script()), "the sentinel is who relieves");
    sleepers.resign(1);
    assert!(relieved(1_000));
    assert!(sleepers.idle.claim_seat(sleepers.seat(0)));
    assert!(!relieved(1_000), "somebody is awake");
}
