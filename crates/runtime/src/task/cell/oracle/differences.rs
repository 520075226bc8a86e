//! What async-task does where the cell does otherwise: were it to change, the adapter would be wrong.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use async_task::{FallibleTask, Runnable};

thread_local! {
    static DROPS: Cell<usize> = const { Cell::new(0) };
}

/// Counts its drops, and has no memory that could be forgotten with it.
struct CountsDrops;

impl Drop for CountsDrops {
    fn drop(&mut self) {
        DROPS.set(DROPS.get() + 1);
    }
}

type Queue = Arc<Mutex<Vec<Runnable>>>;

/// A task that is always pending, and pushes `wakers` wakers of its own when it is polled.
fn pending(wakers: usize) -> (Runnable, FallibleTask<()>, Queue, Arc<Mutex<Vec<Waker>>>) {
    DROPS.set(0);
    let (queue, slot) = (Queue::default(), Arc::<Mutex<Vec<Waker>>>::default());
    // What points to memory would be forgotten with the future.
    let pushed = (wakers > 0).then(|| slot.clone());
    let shared = queue.clone();
    let counts = CountsDrops;
    let future = poll_fn(move |cx| {
        let _counts = &counts;
        if let Some(slot) = &pushed {
            slot.lock().unwrap().extend((0..wakers).map(|_| cx.waker().clone()));
        }
        Poll::Pending
    });
    let (runnable, task) = async_task::spawn(future, move |runnable| shared.lock().unwrap().push(runnable));
    (runnable, task.fallible(), queue, slot)
}

fn queued(queue: &Queue) -> usize {
    queue.lock().unwrap().len()
}

fn poll(task: &mut FallibleTask<()>, waker: &Waker) -> Poll<Option<()>> {
    Pin::new(task).poll(&mut Context::from_waker(waker))
}

#[test]
fn d1_the_last_waker_of_a_joined_task_changes_nothing() {
    let (runnable, mut task, queue, wakers) = pending(1);
    runnable.run();
    wakers.lock().unwrap().clear();
    assert_eq!((queued(&queue), DROPS.get()), (0, 0));
    assert!(poll(&mut task, Waker::noop()).is_pending());
    drop(task);
    queue.lock().unwrap().pop().expect("queued by the drop").run();
    assert_eq!(DROPS.get(), 1);
}

#[test]
fn d1_the_last_waker_of_a_detached_task_has_it_dropped_unpolled() {
    let (runnable, task, queue, wakers) = pending(1);
    task.detach();
    runnable.run();
    wakers.lock().unwrap().clear();
    let runnable = queue.lock().unwrap().pop().expect("queued by the last waker");
    assert!(!runnable.run());
    assert_eq!((wakers.lock().unwrap().len(), DROPS.get()), (0, 1), "polled");
}

#[test]
fn d2_a_joined_task_that_nobody_can_wake_waits() {
    let (runnable, mut task, queue, _wakers) = pending(0);
    runnable.run();
    assert!(poll(&mut task, Waker::noop()).is_pending());
    assert_eq!((queued(&queue), DROPS.get()), (0, 0));
    drop(task);
    queue.lock().unwrap().pop().expect("queued by the drop").run();
    assert_eq!(DROPS.get(), 1);
}

#[test]
fn d2_the_future_of_a_detached_task_that_nobody_can_wake_is_forgotten() {
    let (runnable, task, queue, _wakers) = pending(0);
    task.detach();
    runnable.run();
    assert_eq!((queued(&queue), DROPS.get()), (0, 0));
    assert_eq!(Arc::strong_count(&queue), 1, "the task is freed");
}

#[test]
fn d3_a_task_is_finished_before_its_future_is_dropped() {
    /// Asks the handle of its own task.
    struct Asks(Arc<Mutex<Place>>);
    /// The handle, and its answer.
    type Place = (Option<FallibleTask<()>>, Option<bool>);
    impl Drop for Asks {
        fn drop(&mut self) {
            let (task, finished) = &mut *self.0.lock().unwrap();
            *finished = task.as_ref().map(FallibleTask::is_finished);
        }
    }
    let place = Arc::<Mutex<_>>::default();
    let asks = Asks(place.clone());
    let future = poll_fn(move |_| {
        let _asks = &asks;
        Poll::Pending
    });
    let (runnable, task) = async_task::spawn(future, drop);
    place.lock().unwrap().0 = Some(task.fallible());
    drop(runnable);
    assert_eq!(place.lock().unwrap().1, Some(true));
    let task = place.lock().unwrap().0.take();
    drop(task);
}

#[test]
fn d4_a_joiner_that_has_gone_is_woken() {
    #[derive(Default)]
    struct Count(Mutex<usize>);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            *self.0.lock().unwrap() += 1;
        }
    }
    let count = Arc::new(Count::default());
    let (runnable, task) = async_task::spawn(async {}, drop);
    let mut task = task.fallible();
    assert!(poll(&mut task, &Waker::from(count.clone())).is_pending());
    task.detach();
    assert_eq!(Arc::strong_count(&count), 2);
    runnable.run();
    assert_eq!(*count.0.lock().unwrap(), 1);
}
