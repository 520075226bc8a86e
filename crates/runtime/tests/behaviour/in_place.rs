//! Blocking in place: what others take over, what waits, and what the call is like inside.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use quadrille::net::UnixStream;
use quadrille::policy::Config;
use quadrille::task::{block_in_place, spawn_local};
use quadrille::topology::Topology;
use quadrille::{Handle, Runtime, Wait as _, thread, time, worker_index};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::child::{assert_passed, is_child, run_child};
use crate::count::Count;
use crate::gate::Gate;
use crate::shape::{Shape, come_to_rest, for_each_shape, for_each_shape_if, occupy_in_place, runtimes};
use crate::wait::{eventually, patient, watched};

/// What is in the slot and the deque of the worker when it blocks.
#[test]
fn others_run_what_the_worker_had() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (gate, ran) = (Gate::default(), Count::default());
        let (block, count) = (gate.clone(), ran.clone());
        let blocks = runtime.spawn(async move {
            for _ in 0..100 {
                let count = count.clone();
                quadrille::spawn(async move {
                    quadrille::task::yield_now().await;
                    count.add();
                });
            }
            block_in_place(|| block.block());
        });
        eventually("all tasks run beside the one that blocks", || ran.get() == 100);
        assert!(!blocks.is_finished());
        gate.open();
        runtime.block_on(blocks).unwrap();
        assert_eq!(runtime.metrics().total().blocks_in_place, 1);
    });
}

/// Nobody's, while others have the worker.
#[test]
fn who_blocks_in_place_is_on_no_worker() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (handle, other) = (runtime.handle(), Shape::flat(1).runtime());
        for worker in 0..handle.worker_count() {
            let other = other.handle().clone();
            let asked = handle.spawn_pinned_on(worker, move || async move {
                let _entered = other.enter();
                let elsewhere = other.spawn(async { worker_index() });
                let inside = block_in_place(|| (worker_index(), other.block_on(elsewhere).unwrap()));
                (worker_index(), inside)
            });
            assert_eq!(runtime.block_on(asked).unwrap(), (Some(worker), (None, Some(0))));
        }
        let blocking = runtime.spawn_blocking(worker_index);
        assert_eq!(
            runtime.block_on(async { (worker_index(), blocking.await.unwrap()) }),
            (None, None)
        );
    });
}

/// With all workers blocked tasks are spawned, wake one another, and wait for time.
#[test]
fn tasks_go_on_while_all_workers_block() {
    for_each_shape_if(
        |shape| shape.workers <= 16,
        |shape| {
            let runtime = shape.runtime();
            let blocked = occupy_in_place(&runtime);
            let (sender, receiver) = quadrille::sync::mpmc::bounded(1);
            let sends = runtime.spawn(async move {
                for i in 0..20 {
                    time::sleep(Duration::from_micros(100)).await;
                    sender.send(i).await.unwrap();
                }
            });
            let receives = runtime.spawn(async move {
                let mut sum = 0;
                while let Ok(i) = receiver.recv().await {
                    sum += quadrille::spawn(async move { i }).await.unwrap();
                }
                sum
            });
            assert_eq!(runtime.block_on(receives).unwrap(), 190);
            runtime.block_on(sends).unwrap();
            for task in blocked.release() {
                runtime.block_on(task).unwrap();
            }
        },
    );
}

/// Nor does readiness wait for a number of tasks that compute: it is looked for between two of them, as by a worker.
#[test]
fn readiness_is_looked_for_while_all_workers_block_and_a_task_computes() {
    const ROUNDS: usize = 10;
    let runtime = Shape::flat(1).runtime();
    let blocked = occupy_in_place(&runtime);
    let (turns, stop) = (Count::default(), Gate::default());
    let (counts, is_over) = (turns.clone(), stop.clone());
    let computes = runtime.spawn(async move {
        while !is_over.is_open() {
            let begun = Instant::now();
            // Longer than `poll-interval`.
            while begun.elapsed() < Duration::from_micros(300) {}
            counts.add();
            quadrille::task::yield_now().await;
        }
    });
    let late = |_| {
        let entered = runtime.enter();
        let (writes, reads) = UnixStream::pair().unwrap();
        drop(entered);
        let (counts, begun) = (turns.clone(), Gate::default());
        let begins = begun.clone();
        let reading = runtime.spawn(async move {
            begins.open();
            reads.read_exact(&mut [0]).await.unwrap();
            counts.get()
        });
        begun.block();
        runtime.block_on(async { writes.write_all(&[1]).await }).unwrap();
        let written = turns.get();
        runtime.block_on(reading).unwrap().saturating_sub(written)
    };
    let late: Vec<_> = (0..ROUNDS).map(late).collect();
    assert!(late.iter().all(|turns| *turns < 10), "{late:?}");
    stop.open();
    runtime.block_on(computes).unwrap();
    for task in blocked.release() {
        runtime.block_on(task).unwrap();
    }
}

/// What a worker runs next is its own, and nobody watches for that; a timer that was set just before is watched for.
#[test]
fn a_timer_fires_though_its_worker_blocks_for_it() {
    let runtimes: Vec<_> = runtimes().into_iter().filter(|(shape, _)| shape.workers <= 4).collect();
    // Until nobody watches any more.
    come_to_rest(&runtimes, |runtime| runtime.metrics().total().parks);
    for (shape, runtime) in &runtimes {
        let (sender, receiver) = mpsc::channel();
        let (answer, answered) = mpsc::channel();
        runtime.spawn(async move {
            drop(spawn_local(async move {
                let received = block_in_place(|| receiver.recv_timeout(patient(Duration::from_secs(10))));
                answer.send(received).unwrap();
            }));
            time::sleep(Duration::from_millis(5)).await;
            // Nobody hears it if it is late.
            let _ = sender.send(());
        });
        assert_eq!(answered.recv().unwrap(), Ok(()), "{}", shape.name);
    }
}

/// Two tasks give way to each other's queue for ever: whoever relieves the workers comes to both.
#[test]
fn who_relieves_the_workers_passes_no_queue_over() {
    for policy in ["groups=off", "groups=on"] {
        watched(policy, move || {
            let config: Config = policy.parse().unwrap();
            let topology: Topology = "llc:2 core:1".parse().unwrap();
            let runtime = Runtime::builder()
                .worker_threads(2)
                .topology(topology)
                .config(config)
                .build()
                .unwrap();
            let (gate, both) = (Gate::default(), Count::default());
            let blocked: Vec<_> = (0..2)
                .map(|worker| {
                    let (gate, both) = (gate.clone(), both.clone());
                    runtime.handle().spawn_pinned_on(worker, move || async move {
                        drop(spawn_turns(both));
                        block_in_place(|| gate.block());
                    })
                })
                .collect();
            eventually("both tasks have run since all workers block", || both.get() == 2);
            gate.open();
            for task in blocked {
                runtime.block_on(task).unwrap();
            }
        });
    }
}

/// A task that gives way until it was counted, which is when it finds all workers blocked, and on.
fn spawn_turns(counted: Count) -> quadrille::JoinHandle<()> {
    quadrille::spawn(async move {
        let (mut turns, mut is_counted) = (0, false);
        while turns < 1000 || counted.get() < 2 {
            quadrille::task::yield_now().await;
            let blocks = Handle::current().metrics().total().blocks_in_place;
            turns += u32::from(blocks == 2);
            if turns >= 1000 && !is_counted {
                is_counted = true;
                counted.add();
            }
        }
    })
}

/// Each waits for one that is spawned later, and may be left nobody to run it by those before.
#[test]
fn who_blocks_in_place_of_another_is_relieved_too() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let (mut sender, end) = mpsc::channel();
            for _ in 0..20 {
                let (before, receiver) = mpsc::channel::<u32>();
                let after = std::mem::replace(&mut sender, before);
                runtime.spawn(async move {
                    let message = block_in_place(|| receiver.recv().unwrap());
                    after.send(message + 1).unwrap();
                });
            }
            runtime.spawn(async move { sender.send(0).unwrap() });
            assert_eq!(end.recv_timeout(patient(Duration::from_secs(20))), Ok(20));
        },
    );
}

/// The pool has a thread, which waits for a task, so who is to relieve stays in the queue.
#[test]
fn who_was_refused_a_thread_is_asked_for_again_by_the_next_call() {
    if !is_child() {
        let name = "who_was_refused_a_thread_is_asked_for_again_by_the_next_call";
        assert_passed(&run_child(module_path!(), name));
        return;
    }
    const STACK: usize = 256 << 20;
    let builder = Runtime::builder().worker_threads(1).thread_stack_size(STACK);
    // If the test fails nobody waits for the worker: it may wait for ever.
    let runtime = ManuallyDrop::new(builder.build().unwrap());
    let (gate, begun, leave) = (Gate::default(), Gate::default(), Gate::default());
    let (begins, block) = (begun.clone(), gate.clone());
    let job = runtime.spawn_blocking(move || {
        begins.open();
        block.block();
    });
    eventually("the job has begun", || begun.is_open());

    // Room for what the process does, and for no stack.
    let limit = getrlimit(Resource::As);
    let used = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = used.split(' ').next().unwrap().parse().unwrap();
    let low = pages * 4096 + STACK as u64 / 2;
    let mut refuses = getrlimit(Resource::As);
    refuses.current = Some(low);
    setrlimit(Resource::As, refuses).unwrap();
    let block = leave.clone();
    let first = runtime.spawn(async move { block_in_place(|| block.block()) });
    eventually("nobody relieves the worker", || runtime.metrics().blocking.queued == 1);
    leave.open();
    runtime.block_on(first).unwrap();
    assert_eq!(runtime.metrics().blocking.queued, 1);

    setrlimit(Resource::As, limit).unwrap();
    let opens = gate.clone();
    let second = runtime.spawn(async move {
        let task = quadrille::spawn(async move { opens.open() });
        block_in_place(|| task.wait().unwrap());
    });
    eventually("a task ran beside it", || second.is_finished());
    runtime.block_on(job).unwrap();
    drop(ManuallyDrop::into_inner(runtime));
}

/// Who runs tasks in the only worker's place leaves the pool its only place.
#[test]
fn a_call_may_wait_for_the_pool() {
    watched("a job and a file, with one place for both", || {
        let runtime = Shape::flat(1).builder().max_blocking_threads(1).build().unwrap();
        for round in 1..=20 {
            let job = runtime.spawn(async { block_in_place(|| quadrille::spawn_blocking(|| 1).wait().unwrap()) });
            assert_eq!(runtime.block_on(job).unwrap(), 1, "round {round}");
            let file =
                runtime.spawn(async { block_in_place(|| quadrille::fs::read("/proc/self/exe").wait().unwrap()) });
            assert!(runtime.block_on(file).unwrap().starts_with(b"\x7fELF"), "round {round}");
        }
    });
}

/// The calls are in tasks of which all but one run on a thread of the pool, and there are as many as have others in
/// their place.
#[test]
fn calls_that_wait_for_the_pool_are_relieved_by_as_many_as_it_has_places() {
    for places in [1, 2, 5] {
        watched("jobs of calls", move || {
            let runtime = Shape::flat(1).builder().max_blocking_threads(places).build().unwrap();
            let ran = Count::default();
            let tasks: Vec<_> = (0..3 * places)
                .map(|_| {
                    let count = ran.clone();
                    let job = move || quadrille::spawn_blocking(move || count.add()).wait().unwrap();
                    runtime.spawn(async move { block_in_place(job) })
                })
                .collect();
            for task in tasks {
                runtime.block_on(task).unwrap();
            }
            assert_eq!(ran.get(), 3 * places);
            let threads = || runtime.metrics().blocking.threads;
            eventually("those that took over have left", || threads() <= places);
        });
    }
}

/// A job that has the pool's only place waits for a task, while the only worker waits for the job.
#[test]
fn jobs_that_have_all_places_may_wait_for_tasks() {
    watched("a job, and a task that it waits for", || {
        let runtime = Shape::flat(1).builder().max_blocking_threads(1).build().unwrap();
        let gate = Gate::default();
        let block = gate.clone();
        let job = runtime.spawn_blocking(move || block.block());
        let waits = runtime.spawn(async move {
            quadrille::spawn(async move { gate.open() });
            block_in_place(|| job.wait().unwrap());
        });
        runtime.block_on(waits).unwrap();
    });
}

/// What is bound to the worker, or can be started by a worker alone, goes on when the call has returned.
#[test]
fn threads_wait_for_their_worker() {
    let runtime = Shape::flat(1).runtime();
    let (gate, begun, wakes) = (Gate::default(), Gate::default(), Gate::default());
    let pass = wakes.pass();
    let bound = runtime.spawn_thread(move || pass.wait());
    eventually("it is bound", || wakes.waiting() == 1);
    let (block, open) = (gate.clone(), begun.clone());
    let blocks = runtime.spawn(async move {
        block_in_place(|| {
            open.open();
            block.block();
        });
    });
    eventually("the worker blocks", || begun.is_open());
    let new = runtime.spawn_thread(|| ());
    wakes.open();
    // A task that was spawned after both, and its successor.
    let after = runtime.spawn(async { quadrille::spawn(async {}).await.unwrap() });
    runtime.block_on(after).unwrap();
    assert!(!bound.is_finished() && !new.is_finished());
    gate.open();
    bound.join().unwrap();
    new.join().unwrap();
    runtime.block_on(blocks).unwrap();
}

/// Inside it is an ordinary thread, whose runtime and user-level thread are the current ones.
#[test]
fn inside_one_may_block() {
    quadrille::thread_local! {
        static OWN: Cell<u32> = const { Cell::new(0) };
    }
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let in_task = runtime.spawn(async {
                block_in_place(|| {
                    let spawned = quadrille::spawn(async { 1 });
                    let waited = spawned.wait().unwrap() + Handle::current().block_on(async { 2 });
                    time::sleep(Duration::from_millis(1)).wait();
                    waited + block_in_place(|| 4)
                })
            });
            assert_eq!(runtime.block_on(in_task).unwrap(), 7);
            let in_thread = runtime.spawn_thread(|| {
                OWN.with(|own| own.set(5));
                let (me, place) = (thread::current(), std::thread::current().id());
                block_in_place(|| {
                    assert_eq!(thread::current().id(), me.id());
                    assert_eq!(OWN.with(Cell::get), 5);
                    let unparker = me.clone();
                    std::thread::spawn(move || unparker.unpark()).join().unwrap();
                    thread::park();
                    thread::yield_now();
                    thread::sleep(Duration::from_millis(1));
                });
                thread::yield_now();
                assert_eq!(std::thread::current().id(), place);
                OWN.with(Cell::get)
            });
            assert_eq!(in_thread.join().unwrap(), 5);
        },
    );
}

/// After a panic inside the worker is a worker again.
#[test]
fn a_panic_ends_the_call() {
    let runtime = Shape::flat(1).runtime();
    let task = runtime.spawn(async {
        let result = catch_unwind(|| block_in_place(|| panic!("inside")));
        assert!(result.is_err());
        let refused = catch_unwind(AssertUnwindSafe(|| std::future::ready(()).wait()));
        assert!(refused.is_err(), "outside of it a task may not wait");
        quadrille::spawn(async { 1 }).await.unwrap()
    });
    assert_eq!(runtime.block_on(task).unwrap(), 1);
}

#[test]
fn elsewhere_it_is_a_call() {
    assert_eq!(block_in_place(|| 1), 1);
    let runtime = Shape::flat(1).runtime();
    assert_eq!(runtime.block_on(async { block_in_place(|| 2) }), 2);
    let blocking = runtime.spawn_blocking(|| block_in_place(|| 3));
    assert_eq!(runtime.block_on(blocking).unwrap(), 3);
    assert_eq!(runtime.metrics().total().blocks_in_place, 0);
}

/// The runtime ends when the calls have returned; all that is left is dropped then.
#[test]
fn the_runtime_ends_meanwhile() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let (gate, begun, dropped) = (Gate::default(), Count::default(), Count::default());
            for _ in 0..shape.workers {
                let (block, begun, token) = (gate.clone(), begun.clone(), dropped.token());
                runtime.spawn(async move {
                    let _token = token;
                    block_in_place(|| {
                        begun.add();
                        block.block();
                    });
                });
            }
            eventually("all block", || begun.get() == shape.workers);
            // Pending, ready again and again, and a thread that is set aside.
            let never = Gate::default();
            for _ in 0..10 {
                let (pass, token) = (never.pass(), dropped.token());
                runtime.spawn(async move {
                    let _token = token;
                    pass.await;
                });
                let token = dropped.token();
                runtime.spawn(async move {
                    let _token = token;
                    loop {
                        quadrille::task::yield_now().await;
                    }
                });
                let token = dropped.token();
                drop(runtime.spawn_thread(move || {
                    let _token = token;
                    thread::park();
                }));
            }
            eventually("what waits does", || never.waiting() == 10);
            runtime.shutdown_background();
            gate.open();
            eventually("all is dropped", || dropped.get() == shape.workers + 30);
        },
    );
}

/// The last reference to a runtime goes inside the call, on its own worker.
#[test]
fn the_runtime_is_dropped_inside() {
    for workers in [1, 2] {
        let runtime = Shape::flat(workers).runtime();
        let (sender, receiver) = mpsc::channel();
        let task = runtime.spawn(async move { block_in_place(|| drop(receiver.recv().unwrap())) });
        sender.send(runtime).unwrap();
        eventually("it has ended", || task.is_finished());
    }
}

/// Workers and relievers that come and go all the time, tasks and threads among them; then the runtime ends in the
/// midst of it.
#[test]
fn calls_of_all_kinds_at_once() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            for _ in 0..5 {
                let runtime = shape.runtime();
                let (done, dropped) = (Count::default(), Count::default());
                for index in 0..60 {
                    let (done, token) = (done.clone(), dropped.token());
                    if index % 3 == 0 {
                        drop(runtime.spawn_thread(move || {
                            let _token = token;
                            loop {
                                block_in_place(std::thread::yield_now);
                                done.add();
                                thread::yield_now();
                            }
                        }));
                        continue;
                    }
                    drop(runtime.spawn(async move {
                        let _token = token;
                        loop {
                            let spawned = quadrille::spawn(async {});
                            block_in_place(|| {
                                std::thread::yield_now();
                                spawned.is_finished()
                            });
                            done.add();
                            quadrille::task::yield_now().await;
                        }
                    }));
                }
                eventually("they come round", || done.get() >= 3000);
                drop(runtime);
                assert_eq!(dropped.get(), 60);
            }
        },
    );
}

/// Also where it only calls `f`: a foreign `block_on` in there would never see a budget filled.
#[test]
fn nothing_is_paid_for_in_there() {
    for_each_shape(|shape| {
        let is_free = || {
            (0..200).for_each(|_| futures_lite::future::block_on(quadrille::coop::consume_budget()));
            quadrille::coop::has_budget_remaining()
        };
        let spends = || async move {
            while quadrille::coop::has_budget_remaining() {
                quadrille::coop::consume_budget().await;
            }
            let inner = || Handle::current().block_on(async { block_in_place(is_free) });
            let is_free = block_in_place(is_free) && block_in_place(inner);
            is_free && !quadrille::coop::has_budget_remaining()
        };
        let runtime = shape.runtime();
        assert!(runtime.block_on(spends()));
        assert!(runtime.block_on(runtime.spawn(spends())).unwrap());
    });
}
