//! `Notify`: tasks, user-level threads and ordinary threads wait at one, and are told one by one or all together.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use quadrille::sync::Notify;
use quadrille::task::yield_now;
use quadrille::{Wait as _, thread};

use crate::count::Count;
use crate::shape::for_each_shape;
use crate::wait::eventually;

/// What is handed over, and how those who fetch it hear of it.
#[derive(Debug, Default)]
struct Jobs {
    jobs: Mutex<VecDeque<usize>>,
    brought: Notify,
}

impl Jobs {
    fn bring(&self, job: usize) {
        self.jobs.lock().unwrap().push_back(job);
        self.brought.notify_one();
    }

    /// Any number may fetch: each is in the list before it looks.
    async fn fetch(&self) -> usize {
        loop {
            let mut brought = pin!(self.brought.notified());
            brought.as_mut().enable();
            if let Some(job) = self.jobs.lock().unwrap().pop_front() {
                return job;
            }
            brought.await;
        }
    }
}

#[test]
fn what_many_bring_many_fetch() {
    const EACH: usize = 200;
    const OF_A_KIND: usize = 4;
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let jobs = Arc::new(Jobs::default());
        let fetching: Vec<_> = (0..OF_A_KIND)
            .map(|_| {
                let (tasks, threads) = (jobs.clone(), jobs.clone());
                let task = runtime.spawn(async move {
                    let mut sum = 0;
                    for _ in 0..EACH {
                        sum += tasks.fetch().await;
                    }
                    sum
                });
                let thread = runtime.spawn_thread(move || (0..EACH).map(|_| threads.fetch().wait()).sum::<usize>());
                (task, thread)
            })
            .collect();
        let bringing: Vec<_> = (0..OF_A_KIND)
            .map(|_| {
                let (tasks, threads) = (jobs.clone(), jobs.clone());
                let task = runtime.spawn(async move {
                    for job in 0..EACH {
                        tasks.bring(job);
                        yield_now().await;
                    }
                });
                let thread = std::thread::spawn(move || (0..EACH).for_each(|job| threads.bring(job)));
                (task, thread)
            })
            .collect();
        for (task, thread) in bringing {
            runtime.block_on(task).unwrap();
            thread.join().unwrap();
        }
        let sums = fetching
            .into_iter()
            .map(|(task, thread)| runtime.block_on(task).unwrap() + thread.join().unwrap());
        assert_eq!(sums.sum::<usize>(), 2 * OF_A_KIND * (EACH * (EACH - 1) / 2));
    });
}

#[test]
fn all_go_on_who_waited_before() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let (notify, waiting, gone) = (Arc::new(Notify::new()), Count::default(), Count::default());
        for _ in 0..40 {
            let (of_task, of_thread) = (notify.clone().notified_owned(), notify.clone().notified_owned());
            let (ready, over) = (waiting.clone(), gone.clone());
            drop(runtime.spawn(async move {
                ready.add();
                of_task.await;
                over.add();
            }));
            let (ready, over) = (waiting.clone(), gone.clone());
            drop(runtime.spawn_thread(move || {
                ready.add();
                of_thread.wait();
                over.add();
            }));
        }
        // Some wait already, some have begun, some have not: all were made before.
        eventually("half of them have begun", || waiting.get() >= 40);
        notify.notify_waiters();
        eventually("all were told", || gone.get() == 80);
        let late = runtime.spawn_thread(move || {
            let mut late = pin!(notify.notified());
            let is_over = late.as_mut().enable();
            thread::yield_now();
            is_over || late.enable()
        });
        assert!(!late.join().unwrap(), "nothing is kept for who comes later");
    });
}

#[test]
fn a_task_that_is_aborted_hands_its_notification_on() {
    for_each_shape(|shape| {
        let runtime = shape.runtime();
        let notify = Arc::new(Notify::new());
        for _ in 0..20 {
            let (first, second) = (notify.clone(), notify.clone());
            let first = runtime.spawn(async move { first.notified().await });
            let thread = runtime.spawn_thread(move || second.notified().wait());
            // The task may have waited or not, and may end or not: if it does, by its notification.
            notify.notify_one();
            first.abort();
            if runtime.block_on(first).is_ok() {
                notify.notify_one();
            }
            thread.join().unwrap();
        }
    });
}
