//! The shortest programs through the public API.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quadrille::{Runtime, Wait as _, spawn, task};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().worker_threads(workers).build().unwrap()
}

#[test]
fn spawned_tasks_are_joined() {
    for workers in [1, 2, 4] {
        let runtime = runtime(workers);
        let sum = runtime.block_on(async {
            let handles: Vec<_> = (0..1000_u64).map(|i| spawn(async move { i })).collect();
            let mut sum = 0;
            for handle in handles {
                sum += handle.await.unwrap();
            }
            sum
        });
        assert_eq!(sum, 499_500);
        let outer = runtime.spawn(async {
            let handles: Vec<_> = (0..10_000_u64).map(|i| spawn(async move { i })).collect();
            let mut sum = 0;
            for handle in handles {
                sum += handle.await.unwrap();
            }
            sum
        });
        assert_eq!(runtime.block_on(outer).unwrap(), 49_995_000);
    }
}

#[test]
fn yields_and_channels_make_progress() {
    let runtime = runtime(2);
    runtime.block_on(async {
        let (tx, rx) = async_channel::bounded::<u32>(1);
        let (tx2, rx2) = async_channel::bounded::<u32>(1);
        let a = spawn(async move {
            for i in 0..10_000 {
                tx.send(i).await.unwrap();
                assert_eq!(rx2.recv().await.unwrap(), i);
            }
        });
        let b = spawn(async move {
            for _ in 0..10_000 {
                let i = rx.recv().await.unwrap();
                tx2.send(i).await.unwrap();
            }
        });
        let yields: Vec<_> = (0..100)
            .map(|_| {
                spawn(async {
                    for _ in 0..1000 {
                        task::yield_now().await;
                    }
                })
            })
            .collect();
        a.await.unwrap();
        b.await.unwrap();
        for y in yields {
            y.await.unwrap();
        }
    });
}

#[test]
fn shutdown_drops_every_task_once() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let runtime = runtime(2);
    for _ in 0..1000 {
        let counted = Counted(drops.clone());
        drop(runtime.spawn(async move {
            let _counted = counted;
            std::future::pending::<()>().await;
        }));
    }
    drop(runtime);
    assert_eq!(drops.load(Ordering::SeqCst), 1000);
}

#[test]
fn aborts_and_panics_reach_the_joiner() {
    let runtime = runtime(2);
    runtime.block_on(async {
        let handle = spawn(std::future::pending::<()>());
        handle.abort();
        assert!(handle.await.unwrap_err().is_cancelled());
        let handle = spawn(async { panic!("boom {}", std::hint::black_box(1)) });
        let error = handle.await.unwrap_err();
        assert!(error.is_panic());
        assert_eq!(error.into_panic().downcast_ref::<String>().unwrap(), "boom 1");
        assert_eq!(quadrille::spawn_blocking(|| 5).await.unwrap(), 5);
    });
}

#[quadrille::test]
async fn the_body_of_a_test_may_have_attributes() {
    #![expect(unused_variables, reason = "it has one, which is what the attribute holds for")]
    let unused = spawn(async { 1 }).await.unwrap();
}

#[quadrille::test(thread, worker_threads = 1)]
fn a_test_may_run_on_a_thread() -> Result<(), Box<dyn std::error::Error>> {
    let here = quadrille::thread::current();
    assert_eq!(here.name(), Some("a_test_may_run_on_a_thread"));
    // Its own worker runs what it waits for.
    assert_eq!(spawn(async { "42" }).wait()?.parse(), Ok(42));
    let there = quadrille::thread::spawn(quadrille::thread::current).join();
    assert_ne!(there.unwrap().id(), here.id());
    Ok(())
}

#[quadrille::test(thread)]
#[should_panic(expected = "on purpose")]
fn a_panic_of_a_test_on_a_thread_is_its_own() {
    spawn(async { panic!("on purpose") })
        .wait()
        .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
}
