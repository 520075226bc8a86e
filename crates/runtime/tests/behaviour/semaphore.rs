//! The semaphore of `sync`, asked in blocking style.

use std::sync::Arc;

use quadrille::Runtime;
use quadrille::sync::Semaphore;

use crate::count::Count;
use crate::gate::Gate;
use crate::wait::{eventually, watched};

/// Who gives the permits is a task of the same worker, which goes on only if that is not held up.
#[test]
fn waiting_in_blocking_style_suspends_a_user_level_thread() {
    watched("blocking style", || {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let (semaphore, begun) = (Arc::new(Semaphore::new(0)), Count::default());
        let waits = {
            let (semaphore, begun) = (semaphore.clone(), begun.clone());
            runtime.spawn_thread(move || {
                begun.add();
                let one = semaphore.acquire_blocking().unwrap();
                let two = semaphore.acquire_many_blocking(2).unwrap();
                let owned = semaphore.clone().acquire_owned_blocking().unwrap();
                let many = semaphore.clone().acquire_many_owned_blocking(3).unwrap();
                let numbers = [
                    one.num_permits(),
                    two.num_permits(),
                    owned.num_permits(),
                    many.num_permits(),
                ];
                drop((one, two, owned, many));
                begun.add();
                (numbers, semaphore.acquire_many_blocking(8).is_err())
            })
        };
        eventually("it waits", || begun.get() == 1);
        let same = semaphore.clone();
        let gives = runtime.spawn(async move {
            for _ in 0..7 {
                same.add_permits(1);
                quadrille::task::yield_now().await;
            }
        });
        runtime.block_on(gives).unwrap();
        eventually("it waits for more than there are", || begun.get() == 2);
        semaphore.close();
        assert_eq!(waits.join().unwrap(), ([1, 2, 1, 3], true));
    });
}

#[test]
fn in_a_task_it_holds_up_the_worker_alone() {
    watched("in a task", || {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let (semaphore, begins) = (Arc::new(Semaphore::new(0)), Gate::default());
        let holds = {
            let (semaphore, begins) = (semaphore.clone(), begins.clone());
            runtime.spawn(async move {
                begins.open();
                semaphore.acquire_many_blocking(2).map(|permits| permits.num_permits())
            })
        };
        begins.block();
        semaphore.add_permits(2);
        assert_eq!(runtime.block_on(holds).unwrap(), Ok(2));
    });
}
