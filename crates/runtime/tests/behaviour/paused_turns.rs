//! Who is at work while the clock is paused: bodies that poll, closures that block, tasks that block in place.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use quadrille::sync::{mpmc, oneshot};
use quadrille::time::{self, Instant, sleep, timeout};
use quadrille::{Runtime, Wait as _, thread};

const HOUR: Duration = Duration::from_secs(3600);

fn paused() -> Runtime {
    Runtime::builder().start_paused(true).build().unwrap()
}

/// A wake-up from before the pause is none in it, and none of the first pause is one in the second.
#[quadrille::test(worker_threads = 1)]
async fn a_clock_is_paused_again() {
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
}

#[test]
fn a_body_pauses_the_clock_after_it_was_woken() {
    let other = paused();
    other.block_on(async { quadrille::spawn(async {}).await.unwrap() });
    Runtime::builder().worker_threads(1).build().unwrap().block_on(async {
        quadrille::spawn(async {}).await.unwrap();
        time::pause();
        sleep(HOUR).await;
    });
}

/// The body is at work from the pause on, before it waits for the first time.
#[quadrille::test(worker_threads = 1)]
async fn the_clock_does_not_jump_in_the_poll_that_pauses_it() {
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
}

#[quadrille::test(start_paused = true)]
async fn the_clock_does_not_jump_while_a_file_is_asked() {
    for _ in 0..50 {
        let metadata = timeout(HOUR, quadrille::fs::metadata("/")).await;
        assert!(metadata.expect("the answer comes first").unwrap().is_dir());
    }
}

#[quadrille::test(start_paused = true)]
async fn a_closure_that_waits_lets_the_clock_jump() {
    let start = Instant::now();
    let closure = quadrille::spawn_blocking(move || {
        sleep(HOUR).wait();
        assert_eq!(start.elapsed(), HOUR);
    });
    sleep(HOUR / 2).await;
    assert_eq!(start.elapsed(), HOUR / 2);
    closure.await.unwrap();
    assert_eq!(start.elapsed(), HOUR);
}

/// Others run meanwhile, in the task's own time and in that of the body.
#[quadrille::test(start_paused = true)]
async fn a_task_that_blocks_in_place_lets_the_clock_jump() {
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
}

/// It waits for what the body does only once it has its turn.
#[quadrille::test(start_paused = true)]
async fn a_task_that_blocks_in_place_lets_the_body_poll() {
    let (done, is_done) = mpsc::channel();
    let blocking = quadrille::spawn(async move { quadrille::task::block_in_place(|| is_done.recv().unwrap()) });
    quadrille::spawn(async {}).await.unwrap();
    done.send(()).unwrap();
    blocking.await.unwrap();
}

#[test]
fn a_closure_that_waits_sees_the_end_of_its_paused_runtime() {
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
}

#[test]
fn a_body_that_panics_gives_its_turn_back() {
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
}

#[quadrille::test(start_paused = true)]
async fn limits_of_waits_go_by_the_clock_everywhere() {
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
}

#[quadrille::test(start_paused = true)]
async fn a_condition_is_waited_for_by_the_clock() {
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
}
