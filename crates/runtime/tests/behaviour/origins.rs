//! Where tasks may be spawned from, and which runtime is the current one there.

use quadrille::{Handle, Runtime, spawn};

use crate::shape::{Shape, for_each_shape};
use crate::wait::{eventually, watched};

/// Which runtime the calling thread would spawn on: they are told apart by their number of workers.
fn current() -> Option<usize> {
    Handle::try_current().map(|handle| handle.worker_count())
}

#[test]
fn a_task_is_spawned_from_anywhere() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let here = Some(shape.workers);
        // From `block_on`.
        assert_eq!(
            runtime.block_on(async { spawn(async { current() }).await.unwrap() }),
            here
        );
        // From a task.
        let outer = runtime.spawn(async { spawn(async { current() }).await.unwrap() });
        assert_eq!(runtime.block_on(outer).unwrap(), here);
        // From a foreign thread, by handle and by `enter`.
        let handle = runtime.handle().clone();
        let foreign = std::thread::spawn(move || {
            assert_eq!(current(), None);
            let by_handle = handle.spawn(async { current() });
            let _entered = handle.enter();
            let by_enter = spawn(async { current() });
            (by_handle, by_enter)
        });
        let (by_handle, by_enter) = foreign.join().unwrap();
        assert_eq!(runtime.block_on(by_handle).unwrap(), here);
        assert_eq!(runtime.block_on(by_enter).unwrap(), here);
        // From a task of another runtime.
        let other = Shape::flat(3).runtime();
        let handle = runtime.handle().clone();
        let far = other.spawn(async move {
            let far = handle.spawn(async { current() }).await.unwrap();
            (far, current())
        });
        assert_eq!(other.block_on(far).unwrap(), (here, Some(3)));
        // From a job that may block.
        let handle = runtime.handle().clone();
        let job = runtime.spawn_blocking(move || handle.block_on(handle.spawn(async { current() })));
        assert_eq!(runtime.block_on(job).unwrap().unwrap(), here);
    });
}

#[test]
fn no_runtime_is_current_outside() {
    watched("a plain thread", || {
        assert_eq!(current(), None);
        let refused = std::panic::catch_unwind(|| spawn(async {})).unwrap_err();
        let message = refused.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| refused.downcast_ref::<&str>().copied()).unwrap();
        assert!(message.contains("no quadrille runtime"), "{message}");
        let runtime = Shape::flat(1).runtime();
        runtime.block_on(async { assert_eq!(current(), Some(1)) });
        assert_eq!(current(), None);
    });
}

#[test]
fn guards_nest() {
    watched("three runtimes", || {
        let runtimes = [1, 2, 3].map(|workers| Shape::flat(workers).runtime());
        let [one, two, three] = &runtimes;
        {
            let _one = one.enter();
            assert_eq!(current(), Some(1));
            {
                let _two = two.enter();
                assert_eq!(current(), Some(2));
                let _again = one.enter();
                assert_eq!(current(), Some(1));
                // A `block_on` has a runtime of its own.
                assert_eq!(three.block_on(async { current() }), Some(3));
                assert_eq!(current(), Some(1));
            }
            assert_eq!(current(), Some(1));
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _three = three.enter();
                panic!("out of a guard's scope");
            }));
            assert!(panicked.is_err());
            assert_eq!(current(), Some(1));
        }
        assert_eq!(current(), None);
    });
}

#[test]
fn block_on_nests_on_a_plain_thread() {
    watched("two runtimes", || {
        let (one, two) = (Shape::flat(1).runtime(), Shape::flat(2).runtime());
        let answer = one.block_on(async {
            let inner = two.block_on(async { spawn(async { current() }).await.unwrap() });
            (inner, spawn(async { current() }).await.unwrap())
        });
        assert_eq!(answer, (Some(2), Some(1)));
    });
}

#[test]
fn a_guard_inside_a_task_makes_its_runtime_current() {
    watched("two runtimes", || {
        let (one, two) = (Shape::flat(1).runtime(), Shape::flat(2).runtime());
        let other = two.handle().clone();
        let seen = one.block_on(one.spawn(async move {
            let (inside, spawned) = {
                let _entered = other.enter();
                (current(), spawn(async { current() }))
            };
            (inside, spawned.await.unwrap(), current())
        }));
        assert_eq!(seen.unwrap(), (Some(2), Some(2), Some(1)));
    });
}

#[test]
fn a_guard_may_outlive_its_runtime() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let _entered = runtime.enter();
        drop(runtime);
        let dropped = crate::count::Count::default();
        let token = dropped.token();
        let handle = spawn(async move { drop(token) });
        assert!(futures_lite::future::block_on(handle).unwrap_err().is_cancelled());
        assert_eq!(dropped.get(), 1);
    });
}

#[test]
fn a_handle_is_joined_on_another_thread() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (sender, receiver) = std::sync::mpsc::channel::<quadrille::JoinHandle<usize>>();
        let handle = runtime.handle().clone();
        let joiner = std::thread::spawn(move || {
            let joined = receiver.iter().map(|task| handle.block_on(task).unwrap());
            joined.sum::<usize>()
        });
        for i in 0..500 {
            sender.send(runtime.spawn(async move { i })).unwrap();
        }
        drop(sender);
        assert_eq!(joiner.join().unwrap(), 124_750);
        // And inside a task of another runtime.
        let other = Shape::flat(2).runtime();
        let tasks: Vec<_> = (0..500).map(|i| runtime.spawn(async move { i })).collect();
        let sum = other.spawn(async move {
            let mut sum = 0;
            for task in tasks {
                sum += task.await.unwrap();
            }
            sum
        });
        assert_eq!(other.block_on(sum).unwrap(), 124_750);
    });
}

#[test]
fn a_handle_moves_to_another_waker_between_polls() {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::Context;
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let gate = crate::gate::Gate::default();
        let mut handle = runtime.spawn(gate.pass());
        let (first, second) = (crate::count::Count::default(), crate::count::Count::default());
        for count in [&first, &second] {
            let waker = count.waker();
            assert!(
                Pin::new(&mut handle)
                    .poll(&mut Context::from_waker(&waker))
                    .is_pending()
            );
        }
        gate.open();
        eventually("the last waker is woken", || second.get() == 1);
        assert_eq!(first.get(), 0, "only the waker of the last poll is woken");
        runtime.block_on(handle).unwrap();
        assert_eq!(second.get(), 1);
    });
}

#[test]
fn guards_go_in_any_order() {
    watched("three runtimes", || {
        let runtimes = [1, 2, 3].map(|workers| Shape::flat(workers).runtime());
        let [one, two, three] = runtimes.each_ref().map(Runtime::enter);
        drop(two);
        assert_eq!(current(), Some(3));
        drop(one);
        assert_eq!(current(), Some(3), "only that guard is left");
        drop(three);
        assert_eq!(current(), None);
    });
}
