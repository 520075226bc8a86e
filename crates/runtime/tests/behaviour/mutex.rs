//! The mutex of `sync`, held across waits, by tasks, user-level threads and ordinary ones together.

use std::sync::Arc;

use quadrille::sync::Mutex;
use quadrille::task::yield_now;
use quadrille::{Runtime, Wait};

use crate::count::Count;
use crate::gate::Gate;
use crate::wait::{eventually, watched};

/// Each adds to the one number, waits, and adds the same to the other.
#[test]
fn tasks_and_threads_have_it_one_at_a_time() {
    const TURNS: u64 = 200;
    for workers in [1, 2] {
        watched(&format!("{workers} workers"), move || {
            let runtime = Runtime::builder().worker_threads(workers).build().unwrap();
            let mutex = Arc::new(Mutex::new((0_u64, 0_u64)));
            let visit = |mutex: Arc<Mutex<(u64, u64)>>| async move {
                for _ in 0..TURNS {
                    let mut guard = mutex.lock().await;
                    guard.0 += 1;
                    yield_now().await;
                    assert_eq!(guard.0, guard.1 + 1);
                    guard.1 += 1;
                }
            };
            let tasks: Vec<_> = (0..8).map(|_| runtime.spawn(visit(mutex.clone()))).collect();
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let visit = visit(mutex.clone());
                    runtime.spawn_thread(move || visit.wait())
                })
                .collect();
            let ordinary = {
                let mutex = mutex.clone();
                std::thread::spawn(move || (0..TURNS).for_each(|_| mutex.lock_blocking().1 += 0))
            };
            tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            ordinary.join().unwrap();
            assert_eq!(*mutex.try_lock().unwrap(), (12 * TURNS, 12 * TURNS));
        });
    }
}

/// The thread that has it is bound to the same worker, and goes on only if that is not held up.
#[test]
fn waiting_in_blocking_style_suspends_a_user_level_thread() {
    watched("blocking style", || {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let (mutex, gate, begun) = (Arc::new(Mutex::new(0)), Gate::default(), Count::default());
        let holder = {
            let (mutex, gate) = (mutex.clone(), gate.clone());
            runtime.spawn_thread(move || {
                let mut guard = mutex.lock_blocking();
                gate.pass().wait();
                *guard += 1;
            })
        };
        eventually("it is held", || mutex.try_lock().is_err());
        let waits = {
            let (mutex, begun) = (mutex.clone(), begun.clone());
            runtime.spawn_thread(move || {
                begun.add();
                let first = *mutex.lock_blocking();
                first + *mutex.lock_owned_blocking()
            })
        };
        eventually("the other one waits", || begun.get() == 1);
        gate.open();
        holder.join().unwrap();
        assert_eq!(waits.join().unwrap(), 2);
    });
}

/// Whether another task of the worker has its turn.
#[test]
fn a_task_that_finds_it_free_again_and_again_gives_way() {
    watched("gives way", || {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let mutex = Arc::new(Mutex::new(false));
        let looks = {
            let mutex = mutex.clone();
            runtime.spawn(async move { while !*mutex.lock().await {} })
        };
        let ends = {
            let mutex = mutex.clone();
            runtime.spawn(async move { *mutex.lock().await = true })
        };
        runtime.block_on(async { (looks.await.unwrap(), ends.await.unwrap()) });
        assert!(*mutex.try_lock().unwrap());
    });
}
