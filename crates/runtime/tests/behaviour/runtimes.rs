//! Several runtimes in one process that talk to each other and end in any order.

use std::cell::RefCell;
use std::sync::mpsc;

use quadrille::sync::{mpmc, oneshot};
use quadrille::task::block_in_place;
use quadrille::topology::current_affinity;
use quadrille::{Handle, Pinning, Runtime, spawn};

use crate::child::{assert_passed, is_child, run_child};
use crate::count::Count;
use crate::gate::Gate;
use crate::shape::{Shape, for_each_shape};
use crate::wait::watched;

const ROUNDS: u32 = 500;

/// A pair of tasks, one on each runtime, that hand a number to and fro: foreign wakes both ways.
async fn ping_pong(a: &Runtime, b: &Runtime) {
    let (to_b, from_a) = mpmc::bounded::<u32>(1);
    let (to_a, from_b) = mpmc::bounded::<u32>(1);
    let ping = a.spawn(async move {
        for i in 0..ROUNDS {
            to_b.send(i).await.unwrap();
            assert_eq!(from_b.recv().await.unwrap(), i + 1);
        }
    });
    let pong = b.spawn(async move {
        for _ in 0..ROUNDS {
            let i = from_a.recv().await.unwrap();
            to_a.send(i + 1).await.unwrap();
        }
    });
    ping.await.unwrap();
    pong.await.unwrap();
}

#[test]
fn tasks_of_two_runtimes_wake_each_other() {
    for_each_shape(|shape| {
        let (a, b) = (shape.runtime(), Shape::flat(2).runtime());
        a.block_on(ping_pong(&a, &b));
        b.block_on(ping_pong(&b, &a));
        // Each to and fro has two wake-ups, of which some may find who is woken still awake.
        for (runtime, name) in [(&a, "first"), (&b, "second")] {
            let wakes = runtime.metrics().foreign_wakes;
            assert!(wakes > u64::from(ROUNDS) / 10, "{wakes} of the {name} by the other");
        }
    });
}

#[test]
fn runtimes_end_in_any_order() {
    const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for_each_shape(|shape| {
        for order in ORDERS {
            let drops = Count::default();
            let mut runtimes = [
                Some(shape.runtime()),
                Some(Shape::flat(1).runtime()),
                Some(Shape::flat(2).runtime()),
            ];
            // Each waits for the others: by channel, by gate, by handle.
            let (sender, receiver) = mpmc::bounded::<u32>(4);
            let gate = Gate::default();
            for index in 0..3 {
                let runtime = runtimes[index].as_ref().unwrap();
                let next = runtimes[(index + 1) % 3].as_ref().unwrap();
                for _ in 0..20 {
                    let (sender, receiver, gate) = (sender.clone(), receiver.clone(), gate.clone());
                    let (token, other) = (drops.token(), drops.token());
                    let awaited = next.spawn(async move {
                        let _other = other;
                        gate.pass().await;
                    });
                    drop(runtime.spawn(async move {
                        let _token = token;
                        // They fail when the others are gone, and the task ends early: any way is right.
                        let _ = sender.send(1).await;
                        let _ = receiver.recv().await;
                        let _ = awaited.await;
                        std::future::pending::<()>().await;
                    }));
                }
            }
            drop((sender, receiver));
            for (nth, index) in order.into_iter().enumerate() {
                drop(runtimes[index].take());
                if nth == 0 {
                    gate.open();
                }
            }
            assert_eq!(drops.get(), 120, "order {order:?}");
        }
    });
}

#[test]
fn a_waker_outlives_its_runtime() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let gate = Gate::default();
        let drops = Count::default();
        for _ in 0..100 {
            let (token, passed) = (drops.token(), gate.pass());
            drop(runtime.spawn(async move {
                let _token = token;
                passed.await;
            }));
        }
        crate::wait::eventually("all tasks wait", || gate.waiting() == 100);
        drop(runtime);
        assert_eq!(drops.get(), 100);
        gate.open();
        assert_eq!(drops.get(), 100);
    });
}

#[test]
fn a_channel_outlives_its_runtime() {
    watched("two runtimes", || {
        let (a, b) = (Shape::flat(2).runtime(), Shape::flat(2).runtime());
        let (sender, receiver) = oneshot::channel::<u32>();
        let (quiet, silence) = oneshot::channel::<u32>();
        let waits = b.spawn(async move { (receiver.await, silence.await.is_err()) });
        drop(a.spawn(async move {
            let _quiet = quiet;
            std::future::pending::<()>().await;
        }));
        let sends = a.spawn(async move { sender.send(7).unwrap() });
        a.block_on(sends).unwrap();
        drop(a);
        assert_eq!(b.block_on(waits).unwrap(), (Ok(7), true));
    });
}

#[test]
fn many_runtimes_come_and_go() {
    watched("50 runtimes", || {
        for round in 0..50 {
            let runtime = Shape::flat(1 + round % 4).runtime();
            let sum = runtime.block_on(async {
                let tasks: Vec<_> = (0..10).map(|i| spawn(async move { i })).collect();
                let mut sum = 0;
                for task in tasks {
                    sum += task.await.unwrap();
                }
                sum
            });
            assert_eq!(sum, 45);
        }
    });
}

/// What a thread of the system has of its own is dropped in an order that nobody chooses: also when what `enter` needs
/// of it is gone.
#[test]
fn a_runtime_is_entered_while_a_thread_ends() {
    /// Enters, and spawns, when its thread ends.
    struct Last(RefCell<Option<(Handle, mpsc::Sender<()>)>>);
    impl Drop for Last {
        fn drop(&mut self) {
            let Some((handle, says)) = self.0.take() else { return };
            let entered = handle.enter();
            let again = handle.enter();
            drop(spawn(async move { says.send(()).unwrap() }));
            drop(entered);
            assert!(Handle::try_current().is_some());
            drop(again);
            assert!(Handle::try_current().is_none());
        }
    }
    thread_local!(static LAST: Last = const { Last(RefCell::new(None)) });

    if !is_child() {
        // A destructor of this kind that panics ends the process: so in one of its own.
        return assert_passed(&run_child(module_path!(), "a_runtime_is_entered_while_a_thread_ends"));
    }
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    let handle = runtime.handle().clone();
    let (says, said) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        // First here, so last in the end.
        LAST.with(|last| *last.0.borrow_mut() = Some((handle.clone(), says)));
        drop(handle.enter());
    });
    thread.join().unwrap();
    said.recv().unwrap();
    drop(runtime);
}

/// Not those of the worker that builds it, which may be one: in a thread of its own, while it blocks in place, with
/// another runtime entered, and in a hook.
#[test]
fn a_runtime_that_is_built_on_a_pinned_worker_has_all_cpus() {
    let workers = || Runtime::new().unwrap().handle().worker_count();
    let (outside, other) = (workers(), Shape::flat(1).runtime());
    let (hooked, in_hook) = mpsc::channel();
    let pinned = Runtime::builder()
        .pinning(Pinning::Strict)
        .on_thread_start(move || hooked.send(workers()).unwrap())
        .build()
        .unwrap();
    let inside = pinned.spawn_thread(move || {
        let here = current_affinity().unwrap();
        let _entered = other.enter();
        let built = [workers(), block_in_place(workers)];
        assert_eq!(current_affinity().unwrap(), here, "pinned again");
        built
    });
    assert_eq!(inside.join().unwrap(), [outside; 2]);
    assert_eq!(in_hook.recv().unwrap(), outside);
}
