//! The driver as a whole: its thread, its shutdown, wakers that misbehave.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_lite::future::block_on;

use super::*;
use crate::sys::clock;

/// Runs `test` in a runtime, and shuts it down.
pub(crate) fn with_driver(test: impl FnOnce()) {
    let runtime = crate::Runtime::builder().worker_threads(1).build().unwrap();
    let _entered = runtime.enter();
    test();
}

/// Late enough never to come within a test.
const LONG: Duration = Duration::from_secs(1000);

const BOTH: Interest = Interest {
    readable: true,
    writable: true,
};

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

/// A timer in `duration` that was polled with `waker`.
fn set(driver: &Driver, duration: Duration, waker: &Waker) -> TimerEntry {
    let mut timer = driver.timer(clock::after(duration));
    assert!(timer.poll(&mut Context::from_waker(waker)).is_pending());
    timer
}

/// Waits for a timer.
fn wait(mut timer: TimerEntry) {
    block_on(std::future::poll_fn(|cx| timer.poll(cx)));
}

fn phase(driver: &Driver) -> Phase {
    driver.shared.lock().phase
}

/// Two ends that don't block.
fn pair() -> (UnixStream, UnixStream) {
    let (left, right) = UnixStream::pair().unwrap();
    left.set_nonblocking(true).unwrap();
    right.set_nonblocking(true).unwrap();
    (left, right)
}

#[test]
fn the_thread_starts_with_the_first_timer_that_waits() {
    let driver = Driver::new();
    let timer = driver.timer(clock::after(LONG));
    assert!(
        driver
            .timer(clock::now())
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    );
    assert_eq!(phase(&driver), Phase::Idle);
    drop(timer);
    let timer = set(&driver, LONG, Waker::noop());
    assert_eq!(phase(&driver), Phase::Running);
    assert_eq!(driver.shared.lock().timers.len(), 1);
    drop(timer);
    assert_eq!(driver.shared.lock().timers.len(), 0, "dropping unsets");
}

#[test]
fn the_thread_starts_with_the_first_source() {
    let driver = Driver::new();
    let (left, _right) = pair();
    let registration = driver.register(left.as_fd(), BOTH).unwrap();
    assert_eq!(phase(&driver), Phase::Running);
    registration.deregister(left.as_fd()).unwrap();
}

#[test]
fn an_earlier_timer_interrupts_the_wait_for_a_later_one() {
    let driver = Driver::new();
    let (sender, receiver) = mpsc::channel();
    let tell = waker(move || sender.send(()).unwrap());
    let later = set(&driver, LONG, Waker::noop());
    // However far the thread has come towards its wait: without the notification this would hang.
    for _ in 0..200 {
        let timer = set(&driver, Duration::from_micros(200), &tell);
        receiver.recv().unwrap();
        drop(timer);
    }
    drop(later);
}

#[test]
fn timers_of_many_threads_all_fire() {
    const THREADS: u64 = 4;
    const TIMERS: u64 = 200;
    let driver = Driver::new();
    let late = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let driver = &driver;
                scope.spawn(move || {
                    for number in 0..TIMERS {
                        let deadline = clock::after(Duration::from_micros((number * 37 + thread * 11) % 400));
                        wait(driver.timer(deadline));
                        assert!(clock::now() >= deadline);
                    }
                    1
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
    });
    assert_eq!(late, THREADS);
    assert_eq!(driver.shared.lock().timers.len(), 0);
}

#[test]
fn a_waker_that_panics_does_not_end_the_thread() {
    let driver = Driver::new();
    let (sender, receiver) = mpsc::channel();
    let bomb = waker(move || {
        sender.send(()).unwrap();
        panic!("for the test");
    });
    let timer = set(&driver, Duration::from_millis(1), &bomb);
    receiver.recv().unwrap();
    drop(timer);
    wait(driver.timer(clock::after(Duration::from_millis(1))));
    assert_eq!(phase(&driver), Phase::Running);
}

#[test]
fn shutdown_drops_timers_and_tells_who_waits_for_a_source() {
    let driver = Driver::new();
    let (sender, receiver) = mpsc::channel();
    let tell = waker(move || sender.send("called").unwrap());
    let mut timer = set(&driver, LONG, &tell);
    let (closed, closes) = mpsc::channel();
    let told = waker(move || closed.send(()).unwrap());
    let (left, _right) = pair();
    let registration = driver
        .register(
            left.as_fd(),
            Interest {
                readable: true,
                writable: false,
            },
        )
        .unwrap();
    let mut cx = Context::from_waker(&tell);
    assert!(
        registration
            .poll_ready(Side::Read, &mut Context::from_waker(&told))
            .is_pending()
    );
    driver.shutdown();
    driver.shutdown();
    assert_eq!(closes.try_iter().count(), 1);
    assert!(timer.poll(&mut cx).is_pending());
    timer.reset(clock::after(LONG));
    assert!(timer.poll(&mut cx).is_pending(), "a timer never expires afterwards");
    assert!(
        matches!(registration.poll_ready(Side::Read, &mut cx), Poll::Ready(Err(_))),
        "a source answers"
    );
    assert!(driver.register(left.as_fd(), BOTH).is_err());
    drop((timer, tell));
    assert!(
        receiver.recv().is_err(),
        "no waker of the timer is left, and none was called"
    );
}

#[test]
fn shutdown_before_the_first_use_is_final() {
    let driver = Driver::new();
    driver.shutdown();
    let timer = set(&driver, LONG, Waker::noop());
    assert_eq!(phase(&driver), Phase::Stopped);
    assert!(driver.shared.lock().thread.is_none());
    drop(timer);
}

#[test]
fn a_waker_may_shut_its_driver_down() {
    let driver = Arc::new(Driver::new());
    let (sender, receiver) = mpsc::channel();
    let inner = Arc::clone(&driver);
    let stop = waker(move || {
        inner.shutdown();
        sender.send(()).unwrap();
    });
    let timer = set(&driver, Duration::from_millis(1), &stop);
    receiver.recv().unwrap();
    assert_eq!(phase(&driver), Phase::Stopped);
    drop(timer);
}

#[test]
fn dropping_the_driver_joins_the_thread() {
    let driver = Driver::new();
    let timer = set(&driver, LONG, Waker::noop());
    let shared = Arc::downgrade(&driver.shared);
    drop(driver);
    drop(timer);
    assert!(
        shared.upgrade().is_none(),
        "the thread held the last reference but ours"
    );
}

#[test]
fn readiness_comes_with_data_and_goes_with_would_block() {
    let driver = Driver::new();
    let (mut left, mut right) = pair();
    let registration = driver.register(left.as_fd(), BOTH).unwrap();
    for round in 0..100_u8 {
        right.write_all(&[round]).unwrap();
        let mut byte = [0];
        loop {
            let tick = block_on(registration.ready(Side::Read, false)).unwrap();
            match left.read(&mut byte) {
                Ok(1) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    registration.clear_readiness(Side::Read, tick);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(byte, [round]);
    }
    registration.deregister(left.as_fd()).unwrap();
}

#[test]
fn several_tasks_may_wait_for_one_side() {
    let driver = Driver::new();
    let (left, mut right) = pair();
    let registration = driver.register(left.as_fd(), BOTH).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| block_on(registration.ready(Side::Read, false)).unwrap());
        }
        right.write_all(b"x").unwrap();
    });
    registration.deregister(left.as_fd()).unwrap();
}

#[test]
fn a_hang_up_makes_both_sides_ready() {
    let driver = Driver::new();
    let (left, right) = pair();
    let registration = driver.register(left.as_fd(), BOTH).unwrap();
    drop(right);
    block_on(registration.ready(Side::Read, false)).unwrap();
    block_on(registration.ready(Side::Write, false)).unwrap();
    registration.deregister(left.as_fd()).unwrap();
}

#[test]
fn a_file_that_cannot_be_watched_is_an_error_and_leaves_nothing_behind() {
    let driver = Driver::new();
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    assert!(driver.register(file.as_fd(), BOTH).is_err());
    assert!(driver.shared.sources().close().is_empty());
}
