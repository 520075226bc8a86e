//! Timers on workers that run, and on threads that are none.

use std::future::{Future, poll_fn};
use std::panic::panic_any;
use std::pin::Pin;
use std::sync::{Arc, Barrier, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use futures_lite::future::block_on;

use super::{Duration, Instant, Sleep, sleep, sleep_until};
use crate::Runtime;
use crate::panics::tests::Bomb;

/// Late enough never to come within a test.
const LONG: Duration = Duration::from_secs(1000);

/// So much later than now.
fn after(duration: Duration) -> Instant {
    Instant::now() + duration
}

/// Calls a closure when woken.
struct Call<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Call<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// A waker that calls `f`.
fn waker(f: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(Call(f)))
}

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().worker_threads(workers).build().unwrap()
}

/// Polls once.
pub(super) fn poll(sleep: &mut Sleep, waker: &Waker) -> Poll<()> {
    Pin::new(sleep).poll(&mut Context::from_waker(waker))
}

/// A timer of `runtime`, as [`set_here`].
fn set(runtime: &Runtime, duration: Duration, waker: &Waker) -> Sleep {
    let _entered = runtime.enter();
    set_here(duration, waker)
}

/// A timer in `duration` that was polled with `waker` here; in longer if this thread could not poll it before.
pub(super) fn set_here(mut duration: Duration, waker: &Waker) -> Sleep {
    loop {
        let mut timer = sleep(duration);
        if poll(&mut timer, waker).is_pending() {
            return timer;
        }
        duration *= 2;
    }
}

/// Polls a timer that is not ready in the calling task.
async fn wait_for_once(timer: &mut Sleep) {
    let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut *timer).poll(cx))).await;
    assert!(polled.is_pending());
}

/// How many timers are set with the workers.
fn timers_set(runtime: &Runtime) -> usize {
    let workers = runtime.handle().shared.workers.iter();
    workers.filter(|worker| worker.timers.first() != u64::MAX).count()
}

#[test]
fn dropping_a_timer_unsets_it() {
    let runtime = runtime(2);
    let timer = set(&runtime, LONG, Waker::noop());
    assert_eq!(timers_set(&runtime), 1);
    drop(timer);
    assert_eq!(timers_set(&runtime), 0);
}

/// However far a worker has come on its way to sleep: were it not woken, this would hang.
#[test]
fn an_earlier_timer_interrupts_the_sleep_until_a_later_one() {
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let (sender, receiver) = mpsc::channel();
        let tell = waker(move || sender.send(()).unwrap());
        let later = set(&runtime, LONG, Waker::noop());
        for _ in 0..200 {
            let timer = set(&runtime, Duration::from_micros(200), &tell);
            receiver.recv().unwrap();
            drop(timer);
        }
        drop(later);
    }
}

#[test]
fn timers_of_many_threads_all_fire() {
    const THREADS: u64 = 4;
    const TIMERS: u64 = 200;
    let runtime = runtime(2);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let runtime = &runtime;
            scope.spawn(move || {
                let _entered = runtime.enter();
                for number in 0..TIMERS {
                    let deadline = after(Duration::from_micros((number * 37 + thread * 11) % 400));
                    block_on(sleep_until(deadline));
                    assert!(Instant::now() >= deadline);
                }
            });
        }
    });
    assert_eq!(timers_set(&runtime), 0);
}

#[test]
fn a_waker_that_panics_does_not_end_the_worker() {
    let runtime = runtime(1);
    let (sender, receiver) = mpsc::channel();
    let bomb = waker(move || {
        sender.send(()).unwrap();
        panic!("for the test");
    });
    let timer = set(&runtime, Duration::from_millis(1), &bomb);
    receiver.recv().unwrap();
    drop(timer);
    runtime.block_on(async { sleep(Duration::from_millis(1)).await });
}

#[test]
fn a_payload_that_panics_when_dropped_does_not_end_the_worker() {
    let runtime = runtime(1);
    let (sender, receiver) = mpsc::channel();
    let called = sender.clone();
    let bomb = waker(move || {
        called.send(()).unwrap();
        panic_any(Bomb);
    });
    let timer = set(&runtime, Duration::from_millis(1), &bomb);
    receiver.recv().unwrap();
    drop(timer);
    let task = runtime.spawn(async move {
        sleep(Duration::from_millis(1)).await;
        sender.send(()).unwrap();
    });
    let fired = receiver.recv_timeout(Duration::from_secs(60));
    assert!(fired.is_ok(), "the worker is gone");
    block_on(task).unwrap();
}

/// Calls a closure when dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn a_payload_that_panics_when_dropped_does_not_hold_up_the_end() {
    let runtime = runtime(1);
    let (sender, receiver) = mpsc::channel();
    let when_called = waker(|| {
        panic_any(Bomb);
    });
    let on_drop = OnDrop(move || {
        sender.send(()).unwrap();
        panic_any(Bomb);
    });
    let when_dropped = waker(move || _ = &on_drop);
    // One that comes after those that panic.
    let last = Arc::new(Call(|| ()));
    let wakers = [when_called, when_dropped, Waker::from(last.clone())];
    let timers = wakers.each_ref().map(|waker| set(&runtime, LONG, waker));
    drop(wakers);
    drop(runtime);
    receiver.try_recv().expect("the runtime has dropped the waker");
    assert_eq!(Arc::strong_count(&last), 1);
    drop(timers);
}

/// By the shutdown, so that he polls again, and at the deadline.
#[test]
fn who_is_no_task_of_a_runtime_that_stops_is_woken() {
    let runtime = runtime(2);
    let (sender, calls) = mpsc::channel();
    let tell = waker(move || sender.send(Instant::now()).unwrap());
    let mut timer = set(&runtime, LONG, &tell);
    let mut handle = Some(runtime.handle().clone());
    drop(runtime);
    assert!(calls.try_recv().is_ok());
    for last in [false, true] {
        assert!(poll(&mut timer, &tell).is_pending());
        assert!(poll(&mut timer, &tell).is_pending());
        assert!(calls.try_recv().is_err(), "once");
        if last {
            drop(handle.take());
            assert!(poll(&mut timer, &tell).is_pending());
        }
        timer.reset(after(Duration::from_millis(2)));
        assert!(calls.recv().unwrap() >= timer.deadline());
        assert!(poll(&mut timer, &tell).is_ready());
        assert!(poll(&mut timer, &tell).is_ready(), "and stays so");
        timer.reset(after(LONG));
    }
    assert!(poll(&mut timer, &tell).is_pending());
    drop((timer, tell));
    assert!(calls.recv().is_err(), "no waker of the timer is left");
}

/// A timer that a worker fires may be the end of its runtime.
#[test]
fn a_waker_may_stop_its_runtime() {
    let runtime = runtime(1);
    let (sender, receiver) = mpsc::channel();
    let inner = std::sync::Mutex::new(None);
    let slot = Arc::new(inner);
    let taken = slot.clone();
    let stop = waker(move || {
        let runtime: Option<Runtime> = taken.lock().unwrap().take();
        drop(runtime);
        sender.send(()).unwrap();
    });
    let mut timer = set(&runtime, LONG, &stop);
    *slot.lock().unwrap() = Some(runtime);
    timer.reset(after(Duration::from_millis(2)));
    receiver.recv().unwrap();
}

/// Set on one worker, moved to the other, polled with another waker and dropped there.
#[test]
fn a_timer_moves_between_workers() {
    let runtime = runtime(2);
    let barrier = Arc::new(Barrier::new(2));
    let (sender, receiver) = mpsc::channel();
    let there = barrier.clone();
    let first = runtime.spawn(async move {
        let mut timers: Vec<Sleep> = (0..3).map(|_| sleep(LONG)).collect();
        for timer in &mut timers {
            wait_for_once(timer).await;
        }
        sender.send(timers).unwrap();
        // Holds its worker, so that the other task is on the other one.
        there.wait();
    });
    let second = runtime.spawn(async move {
        let mut timers = receiver.recv().unwrap();
        drop(timers.pop());
        let mut sooner = timers.pop().unwrap();
        sooner.reset(after(Duration::from_millis(1)));
        sooner.await;
        let mut later = timers.pop().unwrap();
        later.reset(after(2 * LONG));
        assert!(poll(&mut later, Waker::noop()).is_pending());
        later.reset(Instant::now());
        later.await;
        barrier.wait();
    });
    runtime.block_on(async {
        first.await.unwrap();
        second.await.unwrap();
    });
    assert_eq!(timers_set(&runtime), 0);
}

/// A timer belongs to the runtime in which it was made, wherever it is awaited.
#[test]
fn a_timer_moves_between_runtimes() {
    let (one, two) = (runtime(1), runtime(1));
    let (timer,) = one
        .block_on(one.spawn(async { (sleep(Duration::from_millis(2)),) }))
        .unwrap();
    let (mut long,) = one.block_on(one.spawn(async { (sleep(LONG),) })).unwrap();
    two.block_on(two.spawn(timer)).unwrap();
    let (mut long,) = two
        .block_on(two.spawn(async move {
            wait_for_once(&mut long).await;
            (long,)
        }))
        .unwrap();
    assert_eq!((timers_set(&one), timers_set(&two)), (1, 0));
    drop(one);
    assert!(poll(&mut long, Waker::noop()).is_pending());
    drop(long);
}

/// The numbers of timers that one worker has set, in the order in which they fire: each so much later than a time that
/// comes when all are set.
fn order_of(delays: &[Duration]) -> Vec<usize> {
    let runtime = runtime(1);
    let mut ahead = Duration::from_millis(50);
    loop {
        let (sender, receiver) = mpsc::channel();
        let delays = delays.to_vec();
        let task = runtime.spawn(async move {
            let start = after(ahead);
            let mut tasks = Vec::new();
            for (number, delay) in delays.into_iter().enumerate() {
                let sender = sender.clone();
                tasks.push(crate::spawn(async move {
                    let mut timer = sleep_until(start + delay);
                    let is_set = poll_fn(|cx| Poll::Ready(Pin::new(&mut timer).poll(cx).is_pending())).await;
                    let is_ahead = Instant::now() < start;
                    timer.await;
                    sender.send(number).unwrap();
                    is_set && is_ahead
                }));
                crate::task::yield_now().await;
            }
            let mut all_set = true;
            for task in tasks {
                all_set &= task.await.unwrap();
            }
            all_set
        });
        if runtime.block_on(task).unwrap() {
            return receiver.try_iter().collect();
        }
        // The machine was busy.
        ahead *= 2;
    }
}

#[test]
fn timers_fire_in_the_order_of_their_deadlines() {
    let delays = [3, 1, 2, 0, 4].map(Duration::from_millis);
    assert_eq!(order_of(&delays), [3, 1, 2, 0, 4]);
}

/// Those that are due together run one behind the other, the slot has no part in it.
#[test]
fn equal_deadlines_fire_in_the_order_in_which_they_were_set() {
    assert_eq!(order_of(&[Duration::ZERO; 40]), (0..40).collect::<Vec<_>>());
}
