use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::task::Wake;

use futures_lite::future::{block_on, poll_once};

use super::*;
use crate::panics::tests::waker_that_panics;
use crate::sync::wake_all::tests::Wakes;

/// What a future of the model is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Is {
    New,
    /// With or without somebody to wake.
    Waiting(bool),
    Told,
    Released,
    Ended,
}

/// What tokio's documentation says, without lists, rounds and wakers.
#[derive(Default)]
struct Model {
    permit: bool,
    futures: Vec<Option<Is>>,
    /// Who is waiting, in order.
    order: Vec<usize>,
    wakes: Vec<usize>,
}

impl Model {
    fn end_wait(&mut self, of: usize, how: Is) {
        self.wakes[of] += usize::from(self.futures[of] == Some(Is::Waiting(true)));
        self.futures[of] = Some(how);
        self.order.retain(|other| *other != of);
    }

    fn notify(&mut self, which: End) {
        let told = match which {
            End::First => self.order.first(),
            End::Last => self.order.last(),
        };
        match told.copied() {
            Some(told) => self.end_wait(told, Is::Told),
            None => self.permit = true,
        }
    }

    fn notify_waiters(&mut self) {
        for of in 0..self.futures.len() {
            if matches!(self.futures[of], Some(Is::New | Is::Waiting(_))) {
                self.end_wait(of, Is::Released);
            }
        }
    }

    /// Whether it is ready.
    fn poll(&mut self, of: usize, has_waker: bool) -> bool {
        let is = self.futures[of].get_or_insert(Is::New);
        match *is {
            Is::New if !self.permit => {
                *is = Is::Waiting(has_waker);
                self.order.push(of);
            }
            Is::New => {
                self.permit = false;
                *is = Is::Ended;
            }
            Is::Waiting(had) => *is = Is::Waiting(had || has_waker),
            Is::Told | Is::Released | Is::Ended => *is = Is::Ended,
        }
        *is == Is::Ended
    }

    /// By a task without budget.
    fn poll_spent(&mut self, of: usize) {
        let is = self.futures[of].get_or_insert(Is::New);
        match *is {
            Is::New => {
                *is = Is::Waiting(true);
                self.order.push(of);
                if mem::take(&mut self.permit) {
                    self.end_wait(of, Is::Told);
                }
            }
            Is::Waiting(_) => *is = Is::Waiting(true),
            Is::Told | Is::Released | Is::Ended => self.wakes[of] += 1,
        }
    }

    fn drop_future(&mut self, of: usize) {
        self.order.retain(|other| *other != of);
        if self.futures[of].take() == Some(Is::Told) {
            self.notify(End::First);
        }
    }
}

/// What a step of a script does: three notify, and each future has five of its own.
const NOTIFYING: usize = 3;
const OF_EACH: usize = 5;

/// Runs a script beside the model, and in the end asks every future, and for the permit.
fn check(futures: usize, steps: &[usize]) {
    let notify = Notify::new();
    let wakes: Vec<Arc<Wakes>> = (0..futures).map(|_| Arc::default()).collect();
    let wakers: Vec<Waker> = wakes.iter().map(|wakes| Waker::from(wakes.clone())).collect();
    let mut real: Vec<Option<Pin<Box<Notified<'_>>>>> = (0..futures).map(|_| None).collect();
    let mut model = Model {
        futures: vec![None; futures],
        wakes: vec![0; futures],
        ..Model::default()
    };
    let ends = (0..futures).map(|of| NOTIFYING + of * OF_EACH + 2);
    for step in steps.iter().copied().chain(ends) {
        match step {
            0 => (notify.notify_one(), model.notify(End::First)).1,
            1 => (notify.notify_last(), model.notify(End::Last)).1,
            2 => (notify.notify_waiters(), model.notify_waiters()).1,
            _ => {
                let (of, what) = ((step - NOTIFYING) / OF_EACH, (step - NOTIFYING) % OF_EACH);
                if what == 3 {
                    real[of] = None;
                    model.drop_future(of);
                    continue;
                }
                let future = real[of].get_or_insert_with(|| Box::pin(notify.notified()));
                let mut cx = Context::from_waker(&wakers[of]);
                if what == 4 {
                    coop::start(0);
                    let is_pending = future.as_mut().poll(&mut cx).is_pending();
                    coop::stop();
                    assert!(is_pending, "{futures} futures: {steps:?}");
                    model.poll_spent(of);
                    continue;
                }
                let is_ready = match what {
                    0 => {
                        model.futures[of].get_or_insert(Is::New);
                        continue;
                    }
                    1 => future.as_mut().enable(),
                    _ => future.as_mut().poll(&mut cx).is_ready(),
                };
                assert_eq!(is_ready, model.poll(of, what == 2), "{futures} futures: {steps:?}");
            }
        }
    }
    let told: Vec<usize> = wakes.iter().map(|wakes| wakes.count()).collect();
    assert_eq!(told, model.wakes, "{futures} futures: {steps:?}");
    drop(real);
    (0..futures).for_each(|of| model.drop_future(of));
    assert_eq!(
        block_on(poll_once(notify.notified())).is_some(),
        model.permit,
        "{futures} futures: {steps:?}"
    );
    notify
        .state
        .with(|state| assert!(state.waiting.is_empty() && state.released.is_empty()));
}

/// Two futures, each made, enabled, polled with budget and without, and dropped at every moment, between all
/// notifications.
#[test]
fn every_short_script() {
    let kinds = NOTIFYING + 2 * OF_EACH;
    for script in 0..kinds.pow(5) {
        let steps: Vec<usize> = (0..5).map(|at| script / kinds.pow(at) % kinds).collect();
        check(2, &steps);
    }
}

/// Long scripts of more futures; one that fails prints itself.
#[test]
fn many_long_scripts() {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..10_000 {
        let futures = 3 + usize::try_from(random >> 40).unwrap() % 3;
        let steps: Vec<usize> = (0..30)
            .map(|_| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                usize::try_from(random >> 33).unwrap() % (NOTIFYING + futures * OF_EACH)
            })
            .collect();
        check(futures, &steps);
    }
}

/// A task that has spent its budget polls two; the runtime polls it again, with both told.
#[test]
fn a_poll_of_a_task_without_budget_is_told_by_the_next_notification() {
    let runtime = crate::Runtime::builder().worker_threads(1).build().unwrap();
    let task = runtime.spawn(async {
        let notify = Notify::new();
        let (mut first, mut second) = (Box::pin(notify.notified()), Box::pin(notify.notified()));
        while coop::has_budget_remaining() {
            assert!(poll_once(coop::consume_budget()).await.is_some());
        }
        assert!(poll_once(first.as_mut()).await.is_none());
        assert!(poll_once(second.as_mut()).await.is_none());
        notify.notify_one();
        notify.notify_one();
        assert!(poll_once(first.as_mut()).await.is_none(), "it waits for its next turn");
        crate::task::yield_now().await;
        (poll_once(first).await.is_some(), poll_once(second).await.is_some())
    });
    assert_eq!(block_on(task).unwrap(), (true, true));
}

/// More than a batch is released, and whoever is woken waits again, tells one, and tells all: those who came later are
/// told by that alone.
#[test]
fn who_is_woken_may_wait_and_notify() {
    struct Again {
        notify: Arc<Notify>,
        later: Mutex<Vec<Pin<Box<OwnedNotified>>>>,
    }
    impl Wake for Again {
        fn wake(self: Arc<Self>) {
            let mut later = Box::pin(self.notify.clone().notified_owned());
            assert!(!later.as_mut().enable());
            let mut all = self.later.lock().unwrap();
            all.push(later);
            if all.len() == 10 {
                // Only the first of those who came later, not one of those who have yet to be woken.
                self.notify.notify_one();
            }
        }
    }
    const MANY: usize = 100;
    let notify = Arc::new(Notify::new());
    let again = Arc::new(Again {
        notify: notify.clone(),
        later: Mutex::default(),
    });
    let waker = Waker::from(again.clone());
    let mut cx = Context::from_waker(&waker);
    let mut waiting: Vec<_> = (0..MANY).map(|_| Box::pin(notify.notified())).collect();
    for waiting in &mut waiting {
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
    }
    notify.notify_waiters();
    for waiting in &mut waiting {
        assert!(waiting.as_mut().poll(&mut cx).is_ready());
    }
    let mut later = mem::take(&mut *again.later.lock().unwrap());
    assert_eq!(later.len(), MANY);
    let told: Vec<usize> = (0..MANY).filter(|i| later[*i].as_mut().enable()).collect();
    assert_eq!(told, [0]);
}

#[test]
fn a_waker_that_panics_keeps_nobody_from_being_told() {
    let notify = Notify::new();
    let panics = waker_that_panics();
    let wakes = Arc::new(Wakes::default());
    let counts = Waker::from(wakes.clone());
    let mut futures: Vec<_> = (0..3).map(|_| Box::pin(notify.notified())).collect();
    for (future, waker) in futures.iter_mut().zip([&panics, &counts, &panics]) {
        assert!(future.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    }
    assert!(catch_unwind(AssertUnwindSafe(|| notify.notify_waiters())).is_err());
    assert_eq!(wakes.count(), 1);
    assert!(futures.iter_mut().all(|future| future.as_mut().enable()));
}

#[test]
fn threads_hand_a_notification_round() {
    let notify = [Notify::new(), Notify::new()];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2000 {
                block_on(notify[0].notified());
                notify[1].notify_one();
            }
        });
        for _ in 0..2000 {
            notify[0].notify_one();
            block_on(notify[1].notified());
        }
    });
    assert!(block_on(poll_once(notify[0].notified())).is_none());
}
