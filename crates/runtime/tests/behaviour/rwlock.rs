//! `RwLock`: tasks, user-level threads and ordinary threads at one lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quadrille::sync::RwLock;
use quadrille::{Runtime, Wait as _, task, thread};

use crate::count::Count;
use crate::gate::Gate;
use crate::shape::for_each_shape_if;
use crate::wait::{eventually, watched};

const ROUNDS: usize = 60;

/// A lock, and who is inside.
#[derive(Debug, Default)]
struct Visited {
    lock: RwLock<usize>,
    readers: AtomicUsize,
    writers: AtomicUsize,
}

impl Visited {
    /// What a reader does inside, before it gives way and after.
    fn begin_read(&self) {
        self.readers.fetch_add(1, Ordering::SeqCst);
        assert_eq!(self.writers.load(Ordering::SeqCst), 0, "no writer is inside");
    }

    fn end_read(&self) {
        assert_eq!(self.writers.load(Ordering::SeqCst), 0, "no writer is inside");
        self.readers.fetch_sub(1, Ordering::SeqCst);
    }

    /// What a writer does inside.
    fn begin_write(&self, value: &mut usize) {
        assert_eq!(self.writers.fetch_add(1, Ordering::SeqCst), 0, "nobody else is inside");
        assert_eq!(self.readers.load(Ordering::SeqCst), 0, "nobody else is inside");
        *value += 1;
    }

    fn end_write(&self) {
        assert_eq!(self.readers.load(Ordering::SeqCst), 0, "nobody else is inside");
        self.writers.fetch_sub(1, Ordering::SeqCst);
    }

    /// A third of the turns writes, a third reads, a third does both one after the other.
    async fn tasked(self: Arc<Self>) {
        for round in 0..ROUNDS {
            if round % 3 == 0 {
                let read = self.lock.read().await;
                self.begin_read();
                task::yield_now().await;
                self.end_read();
                drop(read);
                continue;
            }
            let mut write = self.lock.write().await;
            self.begin_write(&mut write);
            task::yield_now().await;
            self.end_write();
            let written = *write;
            if round % 3 == 1 {
                let read = write.downgrade();
                self.begin_read();
                task::yield_now().await;
                self.end_read();
                assert_eq!(*read, written, "no writer came in between");
            }
        }
    }

    /// As [`tasked`](Self::tasked).
    fn threaded(&self, gives_way: fn()) {
        for round in 0..ROUNDS {
            if round % 3 == 0 {
                let read = self.lock.read().wait();
                self.begin_read();
                gives_way();
                self.end_read();
                drop(read);
                continue;
            }
            let mut write = if round % 2 == 0 {
                self.lock.write_blocking()
            } else {
                self.lock.write().wait()
            };
            self.begin_write(&mut write);
            gives_way();
            self.end_write();
            let written = *write;
            if round % 3 == 1 {
                let read = write.downgrade();
                self.begin_read();
                gives_way();
                self.end_read();
                assert_eq!(*read, written, "no writer came in between");
            }
        }
    }
}

#[test]
fn there_are_readers_or_one_writer() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| {
            let runtime = shape.runtime();
            let visited = Arc::new(Visited::default());
            let ordinary: Vec<_> = (0..2)
                .map(|_| {
                    let visited = visited.clone();
                    std::thread::spawn(move || visited.threaded(std::thread::yield_now))
                })
                .collect();
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let visited = visited.clone();
                    runtime.spawn_thread(move || visited.threaded(thread::yield_now))
                })
                .collect();
            let tasks: Vec<_> = (0..4).map(|_| runtime.spawn(visited.clone().tasked())).collect();
            ordinary.into_iter().for_each(|thread| thread.join().unwrap());
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
            let visited = Arc::try_unwrap(visited).unwrap();
            assert_eq!(visited.lock.into_inner(), 10 * ROUNDS / 3 * 2);
        },
    );
}

/// The thread that has the lock is bound to the same worker, and goes on only if that is not held up.
#[test]
fn waiting_in_blocking_style_suspends_a_user_level_thread() {
    watched("blocking style", || {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let (lock, gate, begun) = (Arc::new(RwLock::new(0)), Gate::default(), Count::default());
        let holder = {
            let (lock, gate) = (lock.clone(), gate.clone());
            runtime.spawn_thread(move || {
                let mut guard = lock.write_blocking();
                gate.pass().wait();
                *guard += 1;
            })
        };
        eventually("the lock is held", || lock.try_read().is_err());
        let waits = {
            let (lock, begun) = (lock.clone(), begun.clone());
            runtime.spawn_thread(move || {
                begun.add();
                let read = *lock.read_blocking();
                read + *lock.write_blocking()
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
fn a_task_that_finds_the_lock_free_again_and_again_gives_way() {
    watched("gives way", || {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let (lock, gate) = (Arc::new(RwLock::new(false)), Gate::default());
        let looks = {
            let (lock, gate) = (lock.clone(), gate.clone());
            runtime.spawn(async move {
                gate.open();
                while !*lock.read().await {}
            })
        };
        gate.block();
        let writes = runtime.spawn(async move { *lock.write().await = true });
        runtime.block_on(looks).unwrap();
        runtime.block_on(writes).unwrap();
    });
}
