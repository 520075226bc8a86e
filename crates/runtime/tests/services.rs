//! Timers, readiness, sets of tasks and the attributes, as users meet them: on real workers.

use std::future::pending;
use std::io;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use quadrille::net::{UnixStream, pipe};
use quadrille::sync::oneshot;
use quadrille::time::{Instant, interval, sleep, sleep_until, timeout};
use quadrille::{JoinSet, Runtime};

/// Late enough never to come within a test.
const LONG: Duration = Duration::from_secs(1000);

#[quadrille::test]
async fn many_tasks_sleep_at_the_same_time() {
    let start = Instant::now();
    let mut set = JoinSet::new();
    for number in 0..1000_u64 {
        set.spawn(async move {
            let deadline = start + Duration::from_micros(number * 17 % 20_000);
            sleep_until(deadline).await;
            assert!(Instant::now() >= deadline);
        });
    }
    assert_eq!(set.join_all().await.len(), 1000);
    // Far above 20 ms, for a machine with more to do; far below what would be for ever.
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[quadrille::test(worker_threads = 1)]
async fn a_task_that_is_aborted_leaves_no_timer_behind() {
    let alive = Arc::new(());
    let inner = Arc::clone(&alive);
    let (sets, set) = oneshot::channel();
    let task = quadrille::spawn(async move {
        let mut timer = sleep(LONG);
        assert!(timeout(Duration::ZERO, &mut timer).await.is_err());
        sets.send(()).unwrap();
        timer.await;
        drop(inner);
    });
    set.await.unwrap();
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[quadrille::test(worker_threads = 3)]
async fn pipes_connect_tasks_of_different_workers() -> io::Result<()> {
    const ROUNDS: u32 = 500;
    let mut set = JoinSet::new();
    for _ in 0..8 {
        let (reader, writer) = pipe()?;
        set.spawn(async move {
            for round in 0..ROUNDS {
                writer.write_all(&round.to_le_bytes()).await.unwrap();
            }
            0
        });
        set.spawn(async move {
            let mut bytes = [0; 4];
            let mut sum = 0;
            while reader.read_exact(&mut bytes).await.is_ok() {
                sum += u64::from(u32::from_le_bytes(bytes));
            }
            sum
        });
    }
    let expected = 8 * u64::from(ROUNDS) * u64::from(ROUNDS - 1) / 2;
    assert_eq!(set.join_all().await.into_iter().sum::<u64>(), expected);
    Ok(())
}

#[quadrille::test(topology = "node:1 llc:2 core:2")]
async fn sockets_answer_on_a_synthetic_machine() -> io::Result<()> {
    let (left, right) = UnixStream::pair()?;
    let echo = quadrille::spawn(async move {
        let mut buffer = [0; 64];
        loop {
            match right.read(&mut buffer).await.unwrap() {
                0 => break,
                length => right.write_all(&buffer[..length]).await.unwrap(),
            }
        }
    });
    for round in 0..=255_u8 {
        left.write_all(&[round; 64]).await?;
        let mut buffer = [0; 64];
        left.read_exact(&mut buffer).await?;
        assert_eq!(buffer, [round; 64]);
    }
    drop(left);
    echo.await.unwrap();
    Ok(())
}

#[quadrille::test]
async fn a_read_can_time_out_and_go_on() {
    let (reader, writer) = pipe().unwrap();
    let mut byte = [0];
    assert!(timeout(Duration::from_millis(2), reader.read(&mut byte)).await.is_err());
    writer.write_all(b"x").await.unwrap();
    assert_eq!(timeout(LONG, reader.read(&mut byte)).await.unwrap().unwrap(), 1);
    assert_eq!(&byte, b"x");
}

/// A writer whose pipe is always taken empty never waits: only the budget lets the other task run.
#[quadrille::test(worker_threads = 1)]
async fn a_stream_that_is_always_ready_does_not_hold_its_worker() {
    let (left, right) = UnixStream::pair().unwrap();
    let busy = quadrille::spawn(async move {
        loop {
            left.write_all(b"x").await.unwrap();
            right.read(&mut [0]).await.unwrap();
        }
    });
    quadrille::spawn(async {}).await.unwrap();
    busy.abort();
    assert!(busy.await.unwrap_err().is_cancelled());
}

#[quadrille::test]
async fn an_interval_ticks_while_others_work() {
    let mut ticks = interval(Duration::from_millis(1));
    let first = ticks.tick().await;
    for tick in 1..=5 {
        assert_eq!(ticks.tick().await, first + Duration::from_millis(1) * tick);
    }
}

#[quadrille::test]
#[should_panic(expected = "for the test")]
async fn other_attributes_of_a_test_keep_working() {
    panic!("for the test");
}

#[test]
fn a_runtime_stops_with_timers_and_readers_pending() {
    let alive = Arc::new(());
    let runtime = Runtime::builder().worker_threads(2).build().unwrap();
    let (begins, begun) = mpsc::channel();
    for _ in 0..100 {
        let (alive, begins) = (Arc::clone(&alive), begins.clone());
        drop(runtime.spawn(async move {
            let (reader, _writer) = pipe().unwrap();
            begins.send(()).unwrap();
            let _ = timeout(LONG, reader.read(&mut [0])).await;
            drop(alive);
        }));
    }
    // Some wait, the others may not even have begun.
    assert_eq!(begun.iter().take(50).count(), 50);
    let handle = runtime.handle().clone();
    drop(runtime);
    assert_eq!(Arc::strong_count(&alive), 1, "every task was dropped");
    let _entered = handle.enter();
    assert!(pipe().is_err(), "a runtime that has stopped watches nothing");
    drop(sleep(LONG));
}

#[test]
fn a_runtime_can_be_dropped_by_the_task_that_a_timer_woke() {
    let (sender, receiver) = mpsc::channel();
    let outer = Runtime::builder().worker_threads(1).build().unwrap();
    let inner = Runtime::builder().worker_threads(1).build().unwrap();
    let entered = inner.enter();
    let timer = sleep(Duration::from_millis(2));
    drop(entered);
    drop(outer.spawn(async move {
        // A timer of the inner runtime wakes a task of the outer one.
        timer.await;
        drop(inner);
        sender.send(()).unwrap();
    }));
    receiver.recv().unwrap();
}

#[test]
fn several_runtimes_have_timers_of_their_own() {
    let runtimes: Vec<Runtime> = (0..3)
        .map(|_| Runtime::builder().worker_threads(1).build().unwrap())
        .collect();
    let tasks: Vec<_> = runtimes
        .iter()
        .map(|runtime| runtime.spawn(async { sleep(Duration::from_millis(2)).await }))
        .collect();
    for (runtime, task) in runtimes.iter().zip(tasks) {
        runtime.block_on(task).unwrap();
    }
    let stuck = runtimes[0].spawn(pending::<()>());
    stuck.abort();
    assert!(runtimes[1].block_on(stuck).unwrap_err().is_cancelled());
}
