//! Who is at work while the clock is paused: bodies that poll, closures that block, tasks that block in place.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use futures_lite::future::poll_once;
use quadrille::sync::{mpmc, oneshot};
use quadrille::task::yield_now;
use quadrille::time::{self, Instant, advance, sleep, timeout};
use quadrille::{Runtime, Wait as _, thread};

use crate::wait::watched;

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

fn paused() -> Runtime {
    Runtime::builder().start_paused(true).build().unwrap()
}

fn on_paused(body: impl Future<Output = ()> + Send + 'static) {
    watched("a clock that starts paused", move || paused().block_on(body));
}

/// Where the clock goes at first.
fn on_one_worker(body: impl Future<Output = ()> + Send + 'static) {
    watched("a clock that is paused", move || {
        Runtime::builder().worker_threads(1).build().unwrap().block_on(body);
    });
}

/// A wake-up from before the pause is none in it, and none of the first pause is one in the second.
#[test]
fn a_clock_is_paused_again() {
    on_one_worker(async {
        for _ in 0..3 {
            time::pause();
            let start = Instant::now();
            sleep(HOUR).await;
            assert_eq!(start.elapsed(), HOUR);
            time::resume();
            sleep(Duration::from_millis(1)).await;
        }
        quadrille::spawn(async { time::pause() }).await.unwrap();
        let start = Instant::now();
        sleep(HOUR).await;
        assert_eq!(start.elapsed(), HOUR);
    });
}

#[test]
fn a_body_pauses_the_clock_after_it_was_woken() {
    watched("a paused clock", || {
        let other = paused();
        other.block_on(async { quadrille::spawn(async {}).await.unwrap() });
        Runtime::builder().worker_threads(1).build().unwrap().block_on(async {
            quadrille::spawn(async {}).await.unwrap();
            time::pause();
            sleep(HOUR).await;
        });
    });
}

/// The body is at work from the pause on, before it waits for the first time.
#[test]
fn the_clock_does_not_jump_in_the_poll_that_pauses_it() {
    on_one_worker(async {
        let (stopped, stops) = mpsc::channel();
        quadrille::spawn(async move {
            // Until the task that sleeps is in the queue behind this one.
            stops.recv().unwrap();
        });
        time::pause();
        let start = Instant::now();
        let sleeping = quadrille::spawn(sleep(HOUR));
        stopped.send(()).unwrap();
        let real = std::time::Instant::now();
        while real.elapsed() < Duration::from_millis(20) {
            assert_eq!(start.elapsed(), Duration::ZERO);
        }
        sleeping.await.unwrap();
        assert_eq!(start.elapsed(), HOUR);
    });
}

#[test]
fn the_clock_does_not_jump_while_a_file_is_asked() {
    on_paused(async {
        for _ in 0..50 {
            let metadata = timeout(HOUR, quadrille::fs::metadata("/")).await;
            assert!(metadata.expect("the answer comes first").unwrap().is_dir());
        }
    });
}

#[test]
fn a_closure_that_waits_lets_the_clock_jump() {
    on_paused(async {
        let start = Instant::now();
        let closure = quadrille::spawn_blocking(move || {
            sleep(HOUR).wait();
            assert_eq!(start.elapsed(), HOUR);
        });
        sleep(HOUR / 2).await;
        assert_eq!(start.elapsed(), HOUR / 2);
        closure.await.unwrap();
        assert_eq!(start.elapsed(), HOUR);
    });
}

/// Others run meanwhile, in the task's own time and in that of the body.
#[test]
fn a_task_that_blocks_in_place_lets_the_clock_jump() {
    on_paused(async {
        let start = Instant::now();
        let sleeping = quadrille::spawn(sleep(HOUR));
        let blocking = quadrille::spawn(async move {
            quadrille::task::block_in_place(|| {
                assert_eq!(async { 1 }.wait(), 1);
                sleeping.wait().unwrap();
                assert_eq!(start.elapsed(), HOUR);
            });
            sleep(HOUR).await;
        });
        sleep(HOUR / 2).await;
        assert_eq!(start.elapsed(), HOUR / 2);
        blocking.await.unwrap();
        assert_eq!(start.elapsed(), 2 * HOUR);
    });
}

/// It waits for what the body does only once it has its turn.
#[test]
fn a_task_that_blocks_in_place_lets_the_body_poll() {
    on_paused(async {
        let (done, is_done) = mpsc::channel();
        let blocking = quadrille::spawn(async move { quadrille::task::block_in_place(|| is_done.recv().unwrap()) });
        quadrille::spawn(async {}).await.unwrap();
        done.send(()).unwrap();
        blocking.await.unwrap();
    });
}

#[test]
fn a_closure_that_waits_sees_the_end_of_its_paused_runtime() {
    watched("a paused clock", || {
        let runtime = paused();
        let (tx, rx) = oneshot::channel::<()>();
        let (began, begins) = mpsc::channel();
        drop(runtime.spawn(async move {
            let _tx = tx;
            std::future::pending::<()>().await;
        }));
        drop(runtime.spawn_blocking(move || {
            began.send(()).unwrap();
            rx.recv_blocking().unwrap_err();
        }));
        begins.recv().unwrap();
        let handle = runtime.handle().clone();
        drop(runtime);
        assert_eq!(handle.block_on(async { 1 }), 1, "it needs no turn");
    });
}

#[test]
fn a_body_that_panics_gives_its_turn_back() {
    watched("a paused clock", || {
        let runtime = paused();
        let body = || runtime.block_on(async { panic!("as asked") });
        catch_unwind(AssertUnwindSafe(body)).unwrap_err();
        for _ in 0..2 {
            std::thread::scope(|scope| {
                let other = scope.spawn(|| runtime.block_on(async { quadrille::spawn(sleep(HOUR)).await.unwrap() }));
                other.join().unwrap();
            });
            runtime.block_on(async { sleep(HOUR).await });
        }
    });
}

#[test]
fn limits_of_waits_go_by_the_clock_everywhere() {
    on_paused(async {
        let late = || {
            let (tx, rx) = mpmc::bounded(1);
            quadrille::spawn(async move {
                sleep(2 * HOUR).await;
                let _ = tx.send(()).await;
            });
            let start = Instant::now();
            assert!(rx.recv().wait_timeout(HOUR).is_err());
            assert_eq!(start.elapsed(), HOUR);
        };
        thread::spawn(late).await.unwrap();
        quadrille::spawn_blocking(late).await.unwrap();
        late();
    });
}

#[test]
fn a_condition_is_waited_for_by_the_clock() {
    on_paused(async {
        let start = Instant::now();
        let waiting = thread::spawn(move || {
            let (mutex, condvar) = (thread::sync::Mutex::new(()), thread::sync::Condvar::new());
            let (_guard, result) = condvar
                .wait_timeout_while(mutex.lock().unwrap(), HOUR, |()| true)
                .unwrap();
            assert!(result.timed_out());
        });
        waiting.await.unwrap();
        assert_eq!(start.elapsed(), HOUR);
    });
}

/// The turn of the second pause is given back, not that of the first.
#[test]
fn a_clock_is_paused_again_inside_of_a_wait() {
    on_paused(async {
        async {
            time::resume();
            time::pause();
        }
        .wait();
        quadrille::spawn(sleep(HOUR)).await.unwrap();
    });
}

/// A body of one runtime has no turn in another one, whose clock it pauses.
#[test]
fn a_body_pauses_the_clock_of_another_runtime() {
    watched("two runtimes", || {
        for first in [paused(), Runtime::builder().worker_threads(1).build().unwrap()] {
            let second = Runtime::builder().worker_threads(1).build().unwrap();
            first.block_on(async {
                {
                    let _entered = second.enter();
                    time::pause();
                }
                second.spawn(async { sleep(HOUR).await }).await.unwrap();
                quadrille::spawn(async {}).await.unwrap();
            });
        }
    });
}

/// Its limit is over when the runtime stops, and after that goes by the real time.
#[test]
fn a_wait_with_a_limit_ends_with_its_paused_runtime() {
    watched("a paused clock", || {
        let runtime = paused();
        let (began, begins) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        drop(runtime.spawn_blocking(move || {
            let (_tx, rx) = mpmc::bounded::<()>(1);
            while !stopped.load(Ordering::Relaxed) {
                rx.recv().wait_timeout(Duration::from_millis(1)).unwrap_err();
                let _ = began.send(());
            }
        }));
        begins.recv().unwrap();
        // Ordering: Relaxed; the closure sees it some time.
        stop.store(true, Ordering::Relaxed);
        drop(runtime);
    });
}

/// What a reliever runs is at work, too.
#[test]
fn the_clock_does_not_jump_while_another_task_runs_beside_one_that_blocks() {
    on_paused(async {
        let (begins, began) = mpsc::channel();
        let (sleeps, slept) = mpsc::channel();
        let start = Instant::now();
        let blocking = quadrille::spawn(async move {
            quadrille::task::block_in_place(|| began.recv().unwrap());
            let mut timer = pin!(sleep(HOUR));
            assert!(poll_once(timer.as_mut()).await.is_none());
            sleeps.send(()).unwrap();
            timer.await;
        });
        let running = quadrille::spawn(async move {
            begins.send(()).unwrap();
            // Until the first task has gone on, and has a timer; and then so long that the clock could jump to it.
            slept.recv().unwrap();
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(start.elapsed(), Duration::ZERO);
        });
        running.await.unwrap();
        blocking.await.unwrap();
        assert_eq!(start.elapsed(), HOUR);
    });
}

#[test]
fn the_clock_does_not_jump_under_a_task_that_pauses_it_in_place() {
    on_one_worker(async {
        let sleeping = quadrille::spawn(async { sleep(HOUR).await });
        let pausing = quadrille::spawn(async {
            quadrille::task::block_in_place(|| {
                time::pause();
                let start = Instant::now();
                std::thread::sleep(Duration::from_millis(20));
                assert_eq!(start.elapsed(), Duration::ZERO);
            });
        });
        pausing.await.unwrap();
        sleeping.await.unwrap();
    });
}

/// The second one is run by a reliever, whose reliever lets the clock jump.
#[test]
fn tasks_that_block_in_place_beside_each_other_let_the_clock_jump() {
    on_paused(async {
        let start = Instant::now();
        let (tx, rx) = oneshot::channel();
        let first = quadrille::spawn(async move {
            quadrille::task::block_in_place(|| rx.wait().unwrap());
        });
        let second = quadrille::spawn(async move {
            quadrille::task::block_in_place(|| sleep(HOUR).wait());
            tx.send(()).unwrap();
        });
        first.await.unwrap();
        second.await.unwrap();
        assert_eq!(start.elapsed(), HOUR);
    });
}

#[test]
fn a_wait_with_a_limit_goes_on_when_the_clock_does() {
    on_paused(async {
        let (tx, rx) = oneshot::channel();
        // It counts as at work until it waits, and the clock jumps to nothing: the limit comes last.
        let waiting = quadrille::spawn_blocking(move || rx.wait_timeout(HOUR));
        let resuming = quadrille::spawn(async move {
            time::resume();
            // Longer than it takes to look whether the runtime stops.
            sleep(Duration::from_millis(60)).await;
            tx.send(1).unwrap();
        });
        assert_eq!(waiting.await.unwrap().expect("no hour has passed"), Ok(1));
        resuming.await.unwrap();
    });
}

/// What runs on the one worker of a paused runtime.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Task,
    Bound,
    Thread,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Task, Self::Bound, Self::Thread];

    fn spawn(self, body: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Task => drop(quadrille::spawn(body)),
            Self::Bound => drop(quadrille::task::spawn_pinned(move || body)),
            Self::Thread => drop(thread::spawn(move || body.wait())),
        }
    }
}

fn in_a_task(kind: Kind, body: impl Future<Output = ()> + Send + 'static) {
    watched("a task that moves the clock", move || {
        let runtime = Runtime::builder().worker_threads(1).start_paused(true).build().unwrap();
        let (done, is_done) = oneshot::channel();
        runtime.block_on(async move {
            kind.spawn(async move {
                body.await;
                done.send(()).unwrap();
            });
            is_done.await.expect("it has not panicked");
        });
    });
}

/// So many tasks that sleep for an hour and more, one a minute longer than the other, note it, and wake one each that
/// is of their kind and would follow them at once; all wait when this returns.
async fn sleepers(count: u64, kind: Kind) -> Arc<Mutex<Vec<u64>>> {
    let log = Arc::new(Mutex::new(Vec::new()));
    for number in 0..count {
        let log = Arc::clone(&log);
        let (sender, receiver) = mpmc::bounded(1);
        kind.spawn(async move {
            sleep(HOUR + MINUTE * u32::try_from(number).unwrap()).await;
            log.lock().unwrap().push(number);
            sender.try_send(()).unwrap();
        });
        kind.spawn(async move { receiver.recv().await.unwrap() });
    }
    for _ in 0..4 * count {
        yield_now().await;
    }
    log
}

#[test]
fn who_is_woken_by_an_advance_of_a_task_has_run_in_order() {
    for (kind, of_sleepers) in Kind::ALL
        .into_iter()
        .flat_map(|kind| Kind::ALL.map(|other| (kind, other)))
    {
        in_a_task(kind, async move {
            let log = sleepers(8, of_sleepers).await;
            advance(2 * HOUR).await;
            let all: Vec<u64> = (0..8).collect();
            assert_eq!(*log.lock().unwrap(), all, "{kind:?}, of sleepers: {of_sleepers:?}");
        });
    }
}

/// Nobody else runs meanwhile, and nobody waits for that for ever.
#[test]
fn an_advance_that_holds_up_its_worker_ends() {
    for kind in Kind::ALL {
        in_a_task(Kind::Task, async move {
            let log = sleepers(2, kind).await;
            futures_lite::future::block_on(advance(2 * HOUR));
            assert_eq!(*log.lock().unwrap(), []);
        });
    }
}

/// Its poll is the last of a streak out of the slot, after which the deque has its turn.
#[test]
fn who_is_woken_at_the_end_of_a_streak_has_run() {
    in_a_task(Kind::Task, async {
        let log = sleepers(1, Kind::Task).await;
        let (to_first, at_first) = mpmc::bounded(1);
        let (to_second, at_second) = mpmc::bounded(1);
        let (to_us, at_us) = mpmc::bounded(1);
        drop(quadrille::spawn(async move {
            let message = at_first.recv().await;
            to_second.try_send(message).unwrap();
        }));
        drop(quadrille::spawn(async move {
            let message = at_second.recv().await.unwrap();
            to_us.try_send(message).unwrap();
        }));
        for _ in 0..3 {
            yield_now().await;
        }
        to_first.try_send(()).unwrap();
        assert_eq!(at_us.recv().await, Ok(Ok(())));
        advance(2 * HOUR).await;
        assert_eq!(log.lock().unwrap().len(), 1);
    });
}
