use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_lite::future::{block_on, poll_once};

use super::*;
use crate::panics::tests::waker_that_panics;
use crate::primitives::{AtomicUsize, Ordering};
use crate::sync::wake_all::tests::Wakes;

/// What a future of the model is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Is {
    New,
    Waiting,
    Served,
    Refused,
    /// Ended, and its permits are held.
    Holding,
    /// Ended with an error, or not there.
    Gone,
}

/// What the documentation says, without lists and wakers.
#[derive(Debug)]
struct Model {
    free: usize,
    is_closed: bool,
    futures: Vec<Is>,
    /// Who is waiting, in order.
    order: Vec<usize>,
    wakes: Vec<usize>,
}

/// What the future of this number wants.
const WANTS: [u32; 4] = [2, 1, 1, 3];

impl Model {
    fn try_take(&mut self, wants: u32) -> Result<(), TryAcquireError> {
        if self.is_closed {
            return Err(TryAcquireError::Closed);
        }
        if !self.order.is_empty() || self.free < wants as usize {
            return Err(TryAcquireError::NoPermits);
        }
        self.free -= wants as usize;
        Ok(())
    }

    fn add(&mut self, permits: usize) {
        self.free += permits;
        while let Some(&first) = self.order.first() {
            if self.is_closed || WANTS[first] as usize > self.free {
                return;
            }
            self.free -= WANTS[first] as usize;
            self.end_wait(first, Is::Served);
        }
    }

    fn end_wait(&mut self, of: usize, how: Is) {
        self.order.retain(|other| *other != of);
        self.futures[of] = how;
        self.wakes[of] += 1;
    }

    fn close(&mut self) {
        self.is_closed = true;
        for of in self.order.clone() {
            self.end_wait(of, Is::Refused);
        }
    }

    fn poll(&mut self, of: usize) -> Poll<bool> {
        let is = match self.futures[of] {
            Is::Served => Is::Holding,
            Is::Refused => Is::Gone,
            Is::Waiting => return Poll::Pending,
            Is::New | Is::Holding | Is::Gone => match self.try_take(WANTS[of]) {
                Ok(()) => Is::Holding,
                Err(TryAcquireError::Closed) => Is::Gone,
                Err(TryAcquireError::NoPermits) => {
                    self.order.push(of);
                    self.futures[of] = Is::Waiting;
                    return Poll::Pending;
                }
            },
        };
        self.futures[of] = is;
        Poll::Ready(is == Is::Holding)
    }

    /// By a task without budget.
    fn poll_spent(&mut self, of: usize) {
        match self.futures[of] {
            Is::Served | Is::Refused => self.wakes[of] += 1,
            Is::Waiting => {}
            Is::New | Is::Holding | Is::Gone => {
                let could_be_had = self.order.is_empty() && WANTS[of] as usize <= self.free;
                if self.is_closed || could_be_had {
                    self.wakes[of] += 1;
                } else {
                    self.order.push(of);
                    self.futures[of] = Is::Waiting;
                }
            }
        }
    }

    fn drop_future_or_permit(&mut self, of: usize) {
        self.order.retain(|other| *other != of);
        let is = std::mem::replace(&mut self.futures[of], Is::Gone);
        self.add(if matches!(is, Is::Served | Is::Holding) {
            WANTS[of] as usize
        } else {
            0
        });
    }
}

/// What a step of a script does: some concern all, and each future has some of its own.
const OF_ALL: usize = 4;
const OF_EACH: usize = 3;

/// A future, or the permits that it had.
enum Real<'a> {
    Nothing,
    Future(Pin<Box<Acquire<'a>>>),
    Permit(SemaphorePermit<'a>),
}

/// Runs a script beside the model, and in the end drops everything.
fn check(futures: usize, steps: &[usize]) {
    let semaphore = Semaphore::new(1);
    let wakes: Vec<Arc<Wakes>> = (0..futures).map(|_| Arc::default()).collect();
    let wakers: Vec<Waker> = wakes.iter().map(|wakes| Waker::from(wakes.clone())).collect();
    let mut real: Vec<Real<'_>> = (0..futures).map(|_| Real::Nothing).collect();
    let mut model = Model {
        free: 1,
        is_closed: false,
        futures: vec![Is::New; futures],
        order: Vec::new(),
        wakes: vec![0; futures],
    };
    let ends = (0..futures).map(|of| OF_ALL + of * OF_EACH + 1);
    for step in steps.iter().copied().chain(ends) {
        match step {
            0 => (semaphore.add_permits(1), model.add(1)).1,
            1 => (semaphore.close(), model.close()).1,
            2 => {
                let taken = semaphore.try_acquire().map(SemaphorePermit::forget);
                assert_eq!(taken, model.try_take(1), "{steps:?}");
            }
            3 => {
                let forgotten = semaphore.forget_permits(1);
                assert_eq!(forgotten, model.free.min(1), "{steps:?}");
                model.free -= forgotten;
            }
            _ => {
                let (of, what) = ((step - OF_ALL) / OF_EACH, (step - OF_ALL) % OF_EACH);
                if what == 1 {
                    real[of] = Real::Nothing;
                    model.drop_future_or_permit(of);
                    continue;
                }
                if let Real::Permit(permit) = &real[of] {
                    assert_eq!(permit.num_permits(), WANTS[of] as usize);
                    continue;
                }
                if let Real::Nothing = real[of] {
                    real[of] = Real::Future(Box::pin(semaphore.acquire_many(WANTS[of])));
                }
                let Real::Future(future) = &mut real[of] else { continue };
                let mut cx = Context::from_waker(&wakers[of]);
                if what == 2 {
                    coop::start(0);
                    let is_pending = future.as_mut().poll(&mut cx).is_pending();
                    coop::stop();
                    assert!(is_pending, "{futures} futures: {steps:?}");
                    model.poll_spent(of);
                } else {
                    let poll = future.as_mut().poll(&mut cx);
                    let has_it = poll.map(|taken| match taken {
                        Ok(permit) => (real[of] = Real::Permit(permit), true).1,
                        Err(AcquireError) => (real[of] = Real::Nothing, false).1,
                    });
                    assert_eq!(has_it, model.poll(of), "{futures} futures: {steps:?}");
                }
            }
        }
        let could_be_had = if model.order.is_empty() { model.free } else { 0 };
        assert_eq!(
            semaphore.available_permits(),
            could_be_had,
            "{futures} futures: {steps:?}"
        );
    }
    let told: Vec<usize> = wakes.iter().map(|wakes| wakes.count()).collect();
    assert_eq!(told, model.wakes, "{futures} futures: {steps:?}");
    semaphore.state.with(|state| {
        assert!(state.waiting.is_empty() && state.free == model.free, "{steps:?}");
    });
}

/// Three futures, one of which wants two permits, each polled, with budget and without, and dropped at every moment,
/// with its permits or without.
#[test]
fn every_short_script_does_what_the_model_says() {
    let kinds = OF_ALL + 3 * OF_EACH;
    for script in 0..kinds.pow(5) {
        let steps: Vec<usize> = (0..5).map(|at| script / kinds.pow(at) % kinds).collect();
        check(3, &steps);
    }
}

/// Long scripts of four futures; one that fails prints itself.
#[test]
fn long_scripts_do_what_the_model_says() {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut step = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let step = usize::try_from(random >> 33).unwrap() % (OF_ALL + 4 * OF_EACH);
        // Closed seldom, since little happens after it.
        if step == 1 && !random.is_multiple_of(8) {
            0
        } else {
            step
        }
    };
    for _ in 0..10_000 {
        let steps: Vec<usize> = (0..30).map(|_| step()).collect();
        check(4, &steps);
    }
}

/// More than a batch is served at once, though wakers panic, and in order.
#[test]
fn permits_that_come_together_serve_all_for_whom_they_are_enough() {
    const MANY: usize = 100;
    let semaphore = Semaphore::new(0);
    let panics = waker_that_panics();
    let mut waiting: Vec<_> = (0..MANY).map(|_| Box::pin(semaphore.acquire())).collect();
    for waiting in &mut waiting {
        let poll = waiting.as_mut().poll(&mut Context::from_waker(&panics));
        assert!(poll.is_pending());
    }
    let adds = || semaphore.add_permits(MANY - 1);
    assert!(catch_unwind(AssertUnwindSafe(adds)).is_err());
    let last = waiting.pop().unwrap();
    assert!(block_on(poll_once(last)).is_none());
    let permits: Vec<_> = waiting.into_iter().map(|waiting| block_on(waiting).unwrap()).collect();
    assert_eq!((permits.len(), semaphore.available_permits()), (MANY - 1, 0));
}

#[test]
fn closing_refuses_more_than_a_batch() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = semaphore.clone().try_acquire_owned().unwrap();
    let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(semaphore.clone().acquire_owned())).collect();
    for waiting in &mut waiting {
        assert!(block_on(poll_once(waiting.as_mut())).is_none());
    }
    semaphore.close();
    for waiting in waiting {
        assert_eq!(block_on(waiting).unwrap_err(), AcquireError);
    }
    drop(held);
    assert_eq!(semaphore.available_permits(), 1);
    assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::Closed);
}

#[test]
fn a_future_has_its_permits_though_the_semaphore_is_closed_meanwhile() {
    let semaphore = Semaphore::new(0);
    let mut waiting = Box::pin(semaphore.acquire());
    assert!(block_on(poll_once(waiting.as_mut())).is_none());
    semaphore.add_permits(1);
    semaphore.close();
    assert_eq!(block_on(waiting).unwrap().num_permits(), 1);
}

#[test]
fn zero_permits_are_had_at_once_though_others_wait() {
    let semaphore = Semaphore::new(0);
    let mut waiting = Box::pin(semaphore.acquire());
    assert!(block_on(poll_once(waiting.as_mut())).is_none());
    assert_eq!(block_on(semaphore.acquire_many(0)).unwrap().num_permits(), 0);
    assert_eq!(semaphore.try_acquire_many(0).unwrap().num_permits(), 0);
}

/// Also one that finds its permit at once, so that a loop gives way.
#[test]
fn each_acquisition_spends_budget() {
    let semaphore = Semaphore::new(1);
    coop::start(3);
    for _ in 0..2 {
        assert!(block_on(poll_once(semaphore.acquire())).is_some());
    }
    drop(semaphore.try_acquire());
    let is_spent = !coop::has_budget_remaining();
    let without = block_on(poll_once(semaphore.acquire()));
    coop::stop();
    assert!(is_spent && without.is_none());
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn permits_are_merged_and_split() {
    let (semaphore, other) = (Arc::new(Semaphore::new(5)), Arc::new(Semaphore::new(1)));
    let mut permit = semaphore.clone().try_acquire_many_owned(2).unwrap();
    permit.merge(semaphore.clone().try_acquire_owned().unwrap());
    assert!(permit.split(4).is_none());
    let part = permit.split(2).unwrap();
    assert_eq!((permit.num_permits(), part.num_permits()), (1, 2));
    assert!(Arc::ptr_eq(part.semaphore(), &semaphore));
    drop(part);
    assert_eq!(semaphore.available_permits(), 4);
    let foreign = other.clone().try_acquire_owned().unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| permit.merge(foreign))).is_err());
    assert_eq!((permit.num_permits(), other.available_permits()), (1, 1));
    permit.forget();
    assert_eq!(semaphore.available_permits(), 4);
}

#[test]
fn too_many_permits_are_refused() {
    let semaphore = Semaphore::new(Semaphore::MAX_PERMITS);
    assert!(catch_unwind(AssertUnwindSafe(|| semaphore.add_permits(1))).is_err());
    assert_eq!(semaphore.available_permits(), Semaphore::MAX_PERMITS);
    assert!(catch_unwind(|| Semaphore::new(Semaphore::MAX_PERMITS + 1)).is_err());
}

/// As many threads as want it are inside at the most, and every one has its turns.
#[test]
fn threads_share_permits() {
    let semaphore = Semaphore::new(3);
    let inside = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for wants in [1, 2, 3, 1] {
            let (semaphore, inside) = (&semaphore, &inside);
            scope.spawn(move || {
                for _ in 0..2000 {
                    let _permit = block_on(semaphore.acquire_many(wants)).unwrap();
                    // Ordering: Relaxed; the semaphore's lock orders the sections.
                    let before = inside.fetch_add(wants as usize, Ordering::Relaxed);
                    assert!(before + wants as usize <= 3);
                    // Ordering: Relaxed; as above.
                    inside.fetch_sub(wants as usize, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(semaphore.available_permits(), 3);
}
