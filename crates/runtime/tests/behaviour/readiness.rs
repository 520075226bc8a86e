//! L: what becomes readable or writable reaches whoever waits for it, whatever the other tasks do, as long as a worker
//! is free.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream as Plain;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use quadrille::net::{UnixStream, pipe};
use quadrille::{JoinHandle, Runtime, Wait as _, spawn};

use crate::count::Count;
use crate::gate::Gate;
use crate::shape::{Shape, come_to_rest, for_each_shape, for_each_shape_if, hold_up, occupy_in_place, runtimes};
use crate::wait::{eventually, patient, watched};

/// A task of `runtime` that echoes byte by byte, and the other end, for a thread that is no worker.
fn echo(runtime: &Runtime) -> (Plain, JoinHandle<()>) {
    let (ours, theirs) = Plain::pair().unwrap();
    let task = runtime.spawn(async move {
        let socket = UnixStream::from_std(theirs).unwrap();
        let mut byte = [0];
        while socket.read(&mut byte).await.unwrap() > 0 {
            socket.write_all(&byte).await.unwrap();
        }
    });
    (ours, task)
}

/// Sends so many bytes, each after the answer to the one before.
fn round_trips(mut socket: &Plain, count: usize) {
    for number in 0..count {
        let sent = [u8::try_from(number % 256).unwrap()];
        socket.write_all(&sent).unwrap();
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        assert_eq!(byte, sent);
    }
}

#[test]
fn messages_go_through_pipes() {
    for_each_shape(|shape| {
        const ROUNDS: u32 = 50;
        let runtime = shape.runtime();
        let pairs = shape.workers.min(16);
        let chains: Vec<_> = (0..pairs)
            .map(|_| {
                runtime.spawn(async move {
                    let ((first, to), (from, last)) = (pipe().unwrap(), pipe().unwrap());
                    let copies = spawn(async move {
                        let mut bytes = [0; 4];
                        while first.read_exact(&mut bytes).await.is_ok() {
                            last.write_all(&bytes).await.unwrap();
                        }
                    });
                    let mut sum = 0;
                    for round in 0..ROUNDS {
                        to.write_all(&round.to_le_bytes()).await.unwrap();
                        let mut bytes = [0; 4];
                        from.read_exact(&mut bytes).await.unwrap();
                        sum += u32::from_le_bytes(bytes);
                    }
                    drop(to);
                    copies.await.unwrap();
                    sum
                })
            })
            .collect();
        for chain in chains {
            assert_eq!(runtime.block_on(chain).unwrap(), ROUNDS * (ROUNDS - 1) / 2);
        }
    });
}

/// Whoever slept in the poll is stuck in a task now: the sentinel takes over, whichever cache the workers left are
/// behind.
#[test]
fn stuck_workers_delay_nobody_while_one_is_free() {
    for_each_shape_if(
        |shape| shape.workers > 1,
        |shape| {
            let runtime = shape.runtime();
            for round in 0..5 {
                let (socket, task) = echo(&runtime);
                round_trips(&socket, 3);
                // All but one, or some of them.
                let stuck = hold_up(&runtime, 1 + (shape.workers - 2) * (round % 2));
                let begin = Instant::now();
                round_trips(&socket, 5);
                assert!(
                    begin.elapsed() < patient(Duration::from_secs(5)),
                    "{:?}",
                    begin.elapsed()
                );
                for task in stuck.release() {
                    runtime.block_on(task).unwrap();
                }
                drop(socket);
                runtime.block_on(task).unwrap();
            }
        },
    );
}

/// Whoever took over from a worker that is stuck sleeps in the poll from then on: not each message waits for an
/// interval of the sentinel.
#[test]
fn who_has_taken_over_polls_on_while_the_other_is_stuck() {
    let runtime = Shape::flat(2).runtime();
    // Once might be luck: a worker that has not slept when the next message comes waits for no sentinel.
    for _ in 0..5 {
        let (socket, task) = echo(&runtime);
        round_trips(&socket, 3);
        let stuck = hold_up(&runtime, 1);
        let takeovers = || runtime.metrics().total().io_takeovers;
        let before = takeovers();
        round_trips(&socket, 40);
        assert!(takeovers() - before <= 3, "{} for 40 messages", takeovers() - before);
        for task in stuck.release() {
            runtime.block_on(task).unwrap();
        }
        drop(socket);
        runtime.block_on(task).unwrap();
    }
}

/// While a task computes for long, another connection is served: before the computation ends, so by another worker.
#[test]
fn a_task_that_registers_and_computes_does_not_keep_its_source_to_itself() {
    for_each_shape_if(
        |shape| shape.workers > 1,
        |shape| {
            let runtime = shape.runtime();
            let (mut ours, theirs) = Plain::pair().unwrap();
            let (gate, served) = (Gate::default(), Gate::default());
            let (held, told) = (gate.clone(), served.clone());
            // The first source of all, registered by the task that then gives way to nobody.
            let computes = runtime.spawn(async move {
                let socket = UnixStream::from_std(theirs).unwrap();
                let reads = spawn(async move {
                    socket.read_exact(&mut [0]).await.unwrap();
                    told.open();
                });
                held.block();
                reads.await.unwrap();
            });
            ours.write_all(b"x").unwrap();
            eventually("it is read", || served.is_open());
            gate.open();
            runtime.block_on(computes).unwrap();
        },
    );
}

/// Nobody is woken for events but the worker that sleeps in the poll, unless a pause has let the sentinel resign; that
/// takes a look.
#[test]
fn a_steady_load_wakes_no_other_worker() {
    for workers in [2, 4] {
        let runtime = Shape::flat(workers).runtime();
        let (socket, task) = echo(&runtime);
        round_trips(&socket, 50);
        let before = runtime.metrics().total();
        round_trips(&socket, 2000);
        let after = runtime.metrics().total();
        let (unparks, looks) = (
            after.unparks - before.unparks,
            after.sentinel_looks - before.sentinel_looks,
        );
        assert!(unparks <= looks + 5, "{unparks} unparks, {looks} looks of the sentinel");
        assert!(after.io_events > before.io_events, "they were told of it");
        drop(socket);
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn an_idle_runtime_with_sources_does_nothing() {
    watched("every shape comes to rest", || {
        let runtimes = runtimes();
        let (begun, mut count) = (Count::default(), 0);
        for (shape, runtime) in &runtimes {
            for _ in 0..shape.workers.min(16) {
                let begun = begun.clone();
                count += 1;
                drop(runtime.spawn(async move {
                    let (reader, _writer) = pipe().unwrap();
                    begun.add();
                    reader.read(&mut [0]).await.unwrap()
                }));
            }
        }
        eventually("all wait", || begun.get() == count);
        come_to_rest(&runtimes, |runtime| {
            let total = runtime.metrics().total();
            (total.parks, total.sentinel_looks, total.searches, total.io_polls)
        });
    });
}

/// Whoever slept in the poll blocks in place, and so do all others.
#[test]
fn readiness_comes_while_all_workers_block() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let (socket, task) = echo(&runtime);
            round_trips(&socket, 3);
            let blocked = occupy_in_place(&runtime);
            round_trips(&socket, 5);
            for task in blocked.release() {
                runtime.block_on(task).unwrap();
            }
            round_trips(&socket, 5);
            drop(socket);
            runtime.block_on(task).unwrap();
        },
    );
}

/// Threads that are no workers register and wait, while all workers sleep.
#[test]
fn threads_that_are_no_workers_wait_too() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for number in 0..20_u8 {
                        let _entered = runtime.enter();
                        let (mut ours, theirs) = Plain::pair().unwrap();
                        let socket = UnixStream::from_std(theirs).unwrap();
                        let writes = thread::spawn(move || ours.write_all(&[number]).unwrap());
                        let mut byte = [0];
                        runtime.block_on(socket.read_exact(&mut byte)).unwrap();
                        assert_eq!(byte, [number]);
                        writes.join().unwrap();
                    }
                });
            }
        });
    });
}

#[test]
fn user_level_threads_wait_too() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (mut ours, theirs) = Plain::pair().unwrap();
        let thread = runtime.spawn_thread(move || {
            let socket = UnixStream::from_std(theirs).unwrap();
            let mut sum = 0;
            let mut byte = [0];
            while socket.read(&mut byte).wait().unwrap() > 0 {
                sum += u32::from(byte[0]);
            }
            sum
        });
        for number in 0..100 {
            ours.write_all(&[number]).unwrap();
        }
        drop(ours);
        assert_eq!(thread.join().unwrap(), 4950);
    });
}

/// Numbers and places of descriptors are used again and again, while events of the ones before are under way.
#[test]
fn thousands_come_and_go_under_load() {
    for_each_shape_if(
        |shape| shape.workers <= 16,
        |shape| {
            const TASKS: usize = 8;
            const PAIRS: usize = 200;
            let runtime = shape.runtime();
            let tasks: Vec<_> = (0..TASKS)
                .map(|task| {
                    runtime.spawn(async move {
                        for number in 0..PAIRS {
                            let (left, right) = UnixStream::pair().unwrap();
                            let bytes = u64::try_from(task * PAIRS + number).unwrap().to_le_bytes();
                            let mut received = [0; 8];
                            let reads = spawn(async move {
                                // Dropped with an event under way, one time in three.
                                right.read_exact(&mut received).await.unwrap();
                                received
                            });
                            if number % 3 == 0 {
                                left.write_all(&bytes[..4]).await.unwrap();
                                reads.abort();
                                left.write_all(&bytes[4..]).await.unwrap_or_default();
                            } else {
                                left.write_all(&bytes).await.unwrap();
                                assert_eq!(reads.await.unwrap(), bytes);
                            }
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
        },
    );
}

#[test]
fn a_runtime_ends_with_readers_waiting() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (alive, waiting) = (Arc::new(()), Count::default());
        for _ in 0..50 {
            let (alive, waiting) = (alive.clone(), waiting.clone());
            drop(runtime.spawn(async move {
                let (reader, _writer) = pipe().unwrap();
                waiting.add();
                let _ = reader.read(&mut [0]).await;
                drop(alive);
            }));
        }
        eventually("all wait", || waiting.get() == 50);
        drop(runtime);
        assert_eq!(Arc::strong_count(&alive), 1, "every task was dropped");
    });
}
