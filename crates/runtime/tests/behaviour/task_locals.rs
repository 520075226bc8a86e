//! Values of scopes: each task and thread sees its own, wherever it goes on and whoever runs in between.

use quadrille::Wait as _;
use quadrille::task::yield_now;
use quadrille::thread;

use crate::count::{Count, OnDrop};
use crate::gate::Gate;
use crate::shape::for_each_shape;
use crate::wait::eventually;

quadrille::task_local! {
    static NUMBER: usize;
    static LABEL: String;
}

const EACH: usize = 50;

#[test]
fn each_has_its_own_wherever_it_goes_on() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let tasks: Vec<_> = (0..EACH)
            .map(|i| {
                let inside = async move {
                    for _ in 0..20 {
                        assert_eq!((NUMBER.get(), LABEL.with(String::len)), (i, i));
                        yield_now().await;
                    }
                    let spawned = quadrille::spawn(async { NUMBER.try_get().is_err() });
                    assert!(spawned.await.unwrap(), "it is not handed down");
                };
                runtime.spawn(NUMBER.scope(i, LABEL.scope("x".repeat(i), inside)))
            })
            .collect();
        let threads: Vec<_> = (0..EACH)
            .map(|i| {
                runtime.spawn_thread(move || {
                    assert!(NUMBER.try_get().is_err());
                    NUMBER.sync_scope(i, || {
                        for _ in 0..20 {
                            assert_eq!(NUMBER.get(), i);
                            thread::yield_now();
                        }
                        let outer = NUMBER.scope(i + 1, async {
                            yield_now().await;
                            NUMBER.get()
                        });
                        assert_eq!((outer.wait(), NUMBER.get()), (i + 1, i));
                    });
                    assert!(NUMBER.try_get().is_err());
                })
            })
            .collect();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(runtime.block_on(NUMBER.scope(3, async { NUMBER.get() })) == 3);
    });
}

/// A thread that ends in the middle of a scope, at shutdown, takes its value with it.
#[test]
fn a_suspended_thread_loses_its_own_at_shutdown() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (never, right) = (Gate::default(), Count::default());
        let threads: Vec<_> = (0..EACH)
            .map(|i| {
                let (never, right) = (never.clone(), right.clone());
                runtime.spawn_thread(move || {
                    LABEL.sync_scope(format!("{i}"), || {
                        let _looks = OnDrop::new(move || {
                            assert_eq!(LABEL.get(), format!("{i}"));
                            right.add();
                        });
                        never.pass().wait();
                    });
                })
            })
            .collect();
        eventually("all are suspended", || never.waiting() == EACH);
        drop(runtime);
        for thread in threads {
            assert!(thread.join().unwrap_err().is::<quadrille::task::JoinError>());
        }
        assert_eq!(right.get(), EACH, "each has seen its own at the end");
    });
}
