//! Time that stands still, and jumps when everything waits.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_lite::future::block_on;
use quadrille::net::UnixStream;
use quadrille::sync::{mpmc, oneshot};
use quadrille::task::block_in_place;
use quadrille::time::{self, Instant, Interval, MissedTickBehavior, advance, interval, sleep, sleep_until, timeout};
use quadrille::{Runtime, Wait as _, thread};

use crate::gate::Gate;
use crate::wait::watched;

const HOUR: Duration = Duration::from_secs(3600);

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u64>>>);

impl Log {
    fn note(&self, number: u64) {
        self.0.lock().unwrap().push(number);
    }

    fn take(&self) -> Vec<u64> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn paused() -> Runtime {
    Runtime::builder().start_paused(true).build().unwrap()
}

#[quadrille::test(start_paused = true)]
async fn a_year_takes_no_time() {
    let real = std::time::Instant::now();
    let start = Instant::now();
    sleep(HOUR * 24 * 365).await;
    assert_eq!(start.elapsed(), HOUR * 24 * 365);
    assert!(real.elapsed() < HOUR);
}

/// As long as was asked for, however long that is, by each way to ask.
#[quadrille::test(start_paused = true)]
async fn fifty_years_are_no_less() {
    const YEARS: Duration = Duration::from_secs(50 * 365 * 24 * 3600);
    let start = Instant::now();
    sleep(YEARS).await;
    assert_eq!(start.elapsed(), YEARS);
    sleep_until(start + YEARS * 2).await;
    assert_eq!(start.elapsed(), YEARS * 2);
    assert!(timeout(YEARS, std::future::pending::<()>()).await.is_err());
    assert_eq!(start.elapsed(), YEARS * 3);
    let waits = thread::spawn(|| std::future::pending::<()>().wait_timeout(YEARS).is_err());
    assert!(waits.await.unwrap());
    assert_eq!(start.elapsed(), YEARS * 4);
}

#[quadrille::test(start_paused = true)]
async fn tasks_sleep_in_the_order_of_their_deadlines() {
    let log = Log::default();
    let start = Instant::now();
    let tasks: Vec<_> = [5, 2, 9, 2, 7]
        .into_iter()
        .map(|hours| {
            let log = log.clone();
            quadrille::spawn(async move {
                sleep(HOUR * hours).await;
                assert_eq!(start.elapsed(), HOUR * hours, "neither early nor late");
                log.note(u64::from(hours));
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(log.take(), [2, 2, 5, 7, 9]);
}

#[quadrille::test(start_paused = true)]
async fn while_something_is_ready_the_clock_stands() {
    let start = Instant::now();
    let sleeper = quadrille::spawn(sleep(HOUR));
    for _ in 0..1000 {
        quadrille::task::yield_now().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
    assert!(!sleeper.is_finished());
    sleeper.await.unwrap();
    assert_eq!(start.elapsed(), HOUR);
}

#[quadrille::test(start_paused = true)]
async fn the_clock_does_not_jump_while_a_closure_blocks() {
    let start = Instant::now();
    let gate = Gate::default();
    let (block, opener) = (gate.clone(), gate.clone());
    let closure = quadrille::spawn_blocking(move || block.block());
    let real = std::thread::spawn(move || {
        std::thread::yield_now();
        opener.open();
    });
    let outcome = timeout(HOUR, closure).await;
    assert!(outcome.is_ok(), "the closure ends before the hour");
    assert_eq!(start.elapsed(), Duration::ZERO);
    real.join().unwrap();
}

/// One that nobody waits for: the worker is told all the same.
#[quadrille::test(start_paused = true)]
async fn the_clock_jumps_after_a_closure_that_nobody_awaits() {
    for _ in 0..50 {
        let start = Instant::now();
        drop(quadrille::spawn_blocking(std::thread::yield_now));
        sleep(HOUR).await;
        assert_eq!(start.elapsed(), HOUR);
    }
}

#[quadrille::test(start_paused = true)]
async fn advancing_fires_what_is_due() {
    let log = Log::default();
    for minutes in [10, 20, 30] {
        let log = log.clone();
        drop(quadrille::spawn(async move {
            sleep(Duration::from_secs(60) * minutes).await;
            log.note(u64::from(minutes));
        }));
    }
    // They are polled, and set their timers, before this goes on.
    quadrille::task::yield_now().await;
    let start = Instant::now();
    advance(Duration::from_secs(60) * 10).await;
    assert_eq!((log.take(), start.elapsed()), (vec![10], HOUR / 6));
    advance(Duration::from_secs(60) * 5).await;
    assert_eq!(log.take(), []);
    advance(HOUR).await;
    assert_eq!(log.take(), [20, 30]);
}

#[quadrille::test(worker_threads = 1)]
async fn a_clock_is_paused_and_goes_on() {
    let before = Instant::now();
    time::pause();
    let start = Instant::now();
    assert!(start >= before);
    sleep(HOUR).await;
    assert_eq!(start.elapsed(), HOUR);
    time::resume();
    let resumed = Instant::now();
    assert!(resumed >= start + HOUR, "it does not go back");
    sleep(Duration::from_millis(2)).await;
    assert!(resumed.elapsed() >= Duration::from_millis(2));
    assert!(resumed.elapsed() < HOUR);
}

/// Also where more time has passed meanwhile than it was moved by.
#[test]
fn a_resumed_clock_goes_on_from_where_it_stands() {
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    let _entered = runtime.enter();
    time::pause();
    let (real, stands) = (std::time::Instant::now(), Instant::now());
    while real.elapsed() < Duration::from_millis(20) {
        std::hint::spin_loop();
    }
    assert_eq!(Instant::now(), stands);
    let real = std::time::Instant::now();
    time::resume();
    let gone = stands.elapsed();
    assert!(gone <= real.elapsed(), "{gone:?}");
    // What waits goes by it.
    let sleeps = runtime.spawn(async {
        let start = Instant::now();
        sleep(Duration::from_millis(2)).await;
        start.elapsed()
    });
    assert!(runtime.block_on(sleeps).unwrap() >= Duration::from_millis(2));
}

#[test]
fn tasks_pause_the_clock_too() {
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    let task = runtime.spawn(async {
        time::pause();
        let start = Instant::now();
        advance(HOUR).await;
        assert_eq!(start.elapsed(), HOUR);
        sleep(HOUR).await;
        assert_eq!(start.elapsed(), 2 * HOUR);
    });
    runtime.block_on(task).unwrap();
}

/// Exchanges bytes with a task over a pair of sockets, each with a time limit.
async fn bounce() {
    const ROUNDS: usize = 1000;
    let (near, far) = UnixStream::pair().unwrap();
    let start = Instant::now();
    let echo = quadrille::spawn(async move {
        let mut byte = [0];
        while far.read(&mut byte).await.unwrap() > 0 {
            far.write(&byte).await.unwrap();
        }
    });
    let mut byte = [0];
    for round in 0..ROUNDS {
        near.write(&byte).await.unwrap();
        let read = timeout(HOUR, near.read(&mut byte)).await;
        assert_eq!(read.expect("the answer comes first").unwrap(), 1, "in round {round}");
    }
    drop(near);
    echo.await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO, "everything was ready, all the time");
}

#[quadrille::test(start_paused = true)]
async fn the_clock_does_not_jump_past_what_tasks_can_read() {
    quadrille::spawn(bounce()).await.unwrap();
}

/// The events of its writes come to the worker while the body polls.
#[quadrille::test(start_paused = true)]
async fn the_clock_does_not_jump_while_the_body_reads_and_writes() {
    bounce().await;
}

/// Also where it is used outside of that runtime, by whose clock an hour has not passed.
#[test]
fn an_interval_goes_by_the_clock_of_its_own_runtime() {
    const PERIOD: Duration = Duration::from_secs(10);
    let runtime = paused();
    let now = || runtime.block_on(async { Instant::now() });
    let late_by_an_hour = |ticks: &mut Interval, behavior| {
        ticks.set_missed_tick_behavior(behavior);
        let late = block_on(ticks.tick()) + PERIOD;
        runtime.block_on(advance(HOUR));
        assert_eq!(block_on(ticks.tick()), late);
    };
    let (start, mut ticks) = runtime.block_on(async { (Instant::now(), interval(PERIOD)) });

    late_by_an_hour(&mut ticks, MissedTickBehavior::Skip);
    assert_eq!(block_on(ticks.tick()), start + HOUR + PERIOD, "on the grid");

    late_by_an_hour(&mut ticks, MissedTickBehavior::Delay);
    let late = now();
    assert_eq!(block_on(ticks.tick()), late + PERIOD);

    let reset = now();
    ticks.reset();
    assert_eq!(block_on(ticks.tick()), reset + PERIOD);

    let reset = now();
    ticks.reset_immediately();
    assert_eq!(block_on(ticks.tick()), reset);
}

#[quadrille::test(start_paused = true)]
async fn intervals_and_timeouts_go_by_the_clock() {
    let mut ticks = interval(HOUR);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let first = ticks.tick().await;
    assert_eq!(ticks.tick().await, first + HOUR);
    advance(HOUR * 5 / 2).await;
    assert_eq!(ticks.tick().await, first + 2 * HOUR);
    assert_eq!(ticks.tick().await, first + 4 * HOUR, "on the grid");
    assert!(timeout(HOUR, std::future::pending::<()>()).await.is_err());
    assert_eq!(Instant::now(), first + 5 * HOUR);
    sleep_until(first).await;
    assert_eq!(Instant::now(), first + 5 * HOUR);
}

/// A time that the clock can't express leaves time for what is set afterwards; and at its end nothing waits for ever.
#[quadrille::test(start_paused = true)]
async fn after_the_longest_advance_timers_go_on() {
    let forever = quadrille::spawn(sleep(Duration::MAX));
    for _ in 0..2 {
        advance(Duration::MAX).await;
        let start = Instant::now();
        sleep(HOUR).await;
        assert_eq!(start.elapsed(), HOUR);
        let mut ticks = interval(HOUR);
        let first = ticks.tick().await;
        assert_eq!(ticks.tick().await, first + HOUR);
        assert_eq!(Instant::now(), first + HOUR);
        advance(HOUR).await;
        assert_eq!(
            Instant::now(),
            first + 2 * HOUR,
            "it never goes back, and on by what is asked"
        );
    }
    assert!(forever.is_finished());
    let start = Instant::now();
    advance(HOUR * 24 * 365 * 100).await;
    assert_eq!(start.elapsed(), HOUR * 24 * 365 * 100);
    for _ in 0..20 {
        advance(Duration::MAX).await;
    }
    sleep(HOUR).await;
    quadrille::spawn(sleep(Duration::MAX)).await.unwrap();
}

/// Also those that are late by less than a period.
#[quadrille::test(start_paused = true)]
async fn ticks_that_are_put_off_are_a_period_apart() {
    const PERIOD: Duration = Duration::from_millis(50);
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut last = Instant::now();
    for work in [75, 20, 99, 6, 0, 120].map(Duration::from_millis) {
        sleep(work).await;
        ticks.tick().await;
        let now = Instant::now();
        assert!(now - last >= PERIOD, "{:?} apart after {work:?} of work", now - last);
        last = now;
    }
}

#[quadrille::test(start_paused = true)]
async fn user_level_threads_sleep_by_the_clock() {
    let start = Instant::now();
    let thread = thread::spawn(move || {
        thread::sleep(HOUR);
        start.elapsed()
    });
    sleep(2 * HOUR).await;
    assert_eq!(start.elapsed(), 2 * HOUR);
    assert_eq!(thread.join().unwrap(), HOUR);
    assert!(
        std::future::pending::<()>()
            .wait_timeout(Duration::from_millis(1))
            .is_err()
    );
}

/// As they wait for a message with a limit: else their hour would be a real one, for which the clock stands.
#[test]
fn ordinary_threads_sleep_by_the_clock() {
    watched("a paused clock", || {
        let runtime = paused();
        let entered = runtime.enter();
        let start = Instant::now();
        thread::sleep(HOUR);
        assert_eq!(start.elapsed(), HOUR);
        drop(entered);
        runtime.block_on(async {
            quadrille::spawn_blocking(|| thread::sleep(HOUR)).await.unwrap();
            assert_eq!(start.elapsed(), 2 * HOUR);
            let task = quadrille::spawn(async { block_in_place(|| thread::sleep(HOUR)) });
            task.await.unwrap();
            assert_eq!(start.elapsed(), 3 * HOUR);
            thread::sleep(HOUR);
            assert_eq!(start.elapsed(), 4 * HOUR);
            time::resume();
            thread::sleep(Duration::from_millis(1));
            assert!(start.elapsed() >= 4 * HOUR + Duration::from_millis(1));
        });
    });
}

/// Who waits for a thread's message in blocking style lets it have its turn.
#[quadrille::test(start_paused = true)]
async fn messages_of_threads_come_while_the_body_blocks() {
    let (tx, rx) = thread::sync::mpsc::channel();
    let thread = thread::spawn(move || tx.send(1).unwrap());
    assert_eq!(rx.recv(), Ok(1));
    thread.join().unwrap();
    let (tx, rx) = mpmc::bounded(1);
    let thread = thread::spawn(move || (0..3).for_each(|number| tx.send_blocking(number).unwrap()));
    assert_eq!(
        (0..3).map(|_| rx.recv_blocking()).collect::<Vec<_>>(),
        [Ok(0), Ok(1), Ok(2)]
    );
    thread.join().unwrap();
    let (tx, rx) = oneshot::channel();
    let thread = thread::spawn(move || tx.send(1).unwrap());
    assert_eq!(rx.recv_blocking(), Ok(1));
    thread.join().unwrap();
}

/// The body of the test and the tasks take turns, so that the course is the same each time.
#[test]
fn the_course_is_the_same_each_time() {
    let course = || {
        let runtime = paused();
        let log = Log::default();
        runtime.block_on(async {
            let (tx, rx) = mpmc::bounded::<u64>(2);
            for number in 0..5 {
                let (log, tx) = (log.clone(), tx.clone());
                drop(quadrille::spawn(async move {
                    for round in 0..5 {
                        sleep(Duration::from_millis(number * 7 % 3 + round % 2)).await;
                        log.note(number);
                        tx.send(100 + number).await.unwrap();
                    }
                }));
            }
            drop(tx);
            while let Ok(number) = rx.recv().await {
                log.note(number);
                if number % 2 == 0 {
                    sleep(Duration::from_millis(1)).await;
                }
            }
        });
        log.take()
    };
    let first = course();
    assert_eq!(first.len(), 50);
    for _ in 0..20 {
        assert_eq!(course(), first);
    }
}

/// A task that is never out of work does not keep the thread in `block_on` from its turn, whenever its worker comes to
/// it.
#[test]
fn a_busy_task_does_not_hold_up_the_body() {
    for _ in 0..20 {
        let runtime = paused();
        let stop = Gate::default();
        let busy = stop.clone();
        let task = runtime.spawn(async move {
            while !busy.is_open() {
                quadrille::task::yield_now().await;
            }
        });
        runtime.block_on(async {
            for _ in 0..3 {
                quadrille::task::yield_now().await;
            }
            stop.open();
            task.await.unwrap();
        });
    }
}

/// The same where the clock goes until that task has stopped it.
#[test]
fn a_busy_task_that_stops_the_clock_does_not_hold_up_the_body() {
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    let stop = Gate::default();
    let (busy, stopped) = (stop.clone(), Gate::default());
    let tells = stopped.clone();
    let task = runtime.spawn(async move {
        time::pause();
        tells.open();
        while !busy.is_open() {
            quadrille::task::yield_now().await;
        }
    });
    runtime.block_on(async {
        stopped.pass().await;
        for _ in 0..3 {
            quadrille::task::yield_now().await;
        }
        stop.open();
        task.await.unwrap();
    });
}

#[test]
fn a_paused_runtime_stops_at_any_time() {
    for _ in 0..50 {
        let runtime = paused();
        drop(runtime.spawn(sleep_forever()));
        runtime.block_on(async { sleep(HOUR).await });
        drop(runtime.spawn(sleep_forever()));
        let handle = runtime.handle().clone();
        handle.block_on(async move { drop(runtime) });
    }
}

async fn sleep_forever() {
    loop {
        sleep(HOUR * 24).await;
        quadrille::task::yield_now().await;
        std::future::pending::<()>().await;
    }
}

#[test]
fn a_clock_of_several_workers_can_not_be_paused() {
    let error = Runtime::builder()
        .start_paused(true)
        .worker_threads(2)
        .build()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the clock is to start paused with 2 workers, expected 1"
    );
    let runtime = Runtime::builder().worker_threads(2).build().unwrap();
    let outcome = runtime.block_on(runtime.spawn(async { time::pause() }));
    assert!(outcome.unwrap_err().is_panic());
}

#[quadrille::test(start_paused = true)]
#[should_panic(expected = "the clock is paused already")]
async fn a_paused_clock_is_not_paused_again() {
    time::pause();
}

#[quadrille::test(worker_threads = 1)]
#[should_panic(expected = "the clock is not paused")]
async fn a_clock_that_goes_is_not_advanced() {
    advance(HOUR).await;
}
