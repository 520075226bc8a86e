//! Parking and unparking, as std's: a token a thread, which `unpark` makes and `park` uses up.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::current;
use super::note::Reason;
use super::wait::{refuse_on_workers, wait_on, wait_timeout_on};
use crate::coop;
use crate::primitives::{AtomicBool, MutexGuard, Ordering};
use crate::stress::Mutex;

/// What `unpark` and `park` of a user-level thread agree on.
///
/// A park ends if the token is posted before or during it, and sees what was done before that; a wait that is given up
/// leaves it.
#[derive(Debug)]
pub(super) struct Token {
    posted: AtomicBool,
    /// Who waits for it: the thread's own waker, while it is parked.
    parked: Mutex<Option<Waker>>,
}

impl Default for Token {
    fn default() -> Self {
        Self {
            posted: AtomicBool::new(false),
            parked: Mutex::new(None),
        }
    }
}

impl Token {
    /// Makes the token, and wakes the thread if it is parked.
    pub(super) fn post(&self) {
        // Ordering: Release; what the unparker did happens before what the thread does after it has used the token up.
        if self.posted.swap(true, Ordering::Release) {
            return;
        }
        // The lock decides between the two: the thread has stored its waker before, and it is here; or it locks later,
        // and sees the token when it looks again.
        let parked = self.parked().take();
        if let Some(waker) = parked {
            waker.wake();
        }
    }

    /// Uses the token up if it is there.
    fn take(&self) -> bool {
        // Ordering: Acquire; pairs with the Release in `post`.
        self.posted.swap(false, Ordering::Acquire)
    }

    fn parked(&self) -> MutexGuard<'_, Option<Waker>> {
        self.parked.lock().expect("nothing panics under this lock")
    }
}

/// Waits for the token. Polled by its thread alone.
struct Parked<'a>(&'a Token);

impl Future for Parked<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Who finds a token each time would leave its worker to nobody.
        coop::poll_progress(cx, |cx| {
            if self.0.take() {
                return Poll::Ready(());
            }
            let old = self.0.parked().replace(cx.waker().clone());
            drop(old);
            if self.0.take() { Poll::Ready(()) } else { Poll::Pending }
        })
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        // Left behind, it would keep the task alive by way of its own metadata.
        let waker = self.0.parked().take();
        drop(waker);
    }
}

/// Waits until [`Thread::unpark`](super::Thread::unpark) is called for the calling thread, or returns at once if it was
/// called since the last park; now and then after a turn of others, by the [budget](crate::coop).
///
/// A user-level thread is suspended, an ordinary one blocked by [`std::thread::park`]. It may return without a reason
/// on an ordinary thread.
///
/// # Panics
/// As [`Wait::wait`](super::Wait::wait).
///
/// ```
/// use quadrille::thread;
///
/// let runtime = quadrille::Runtime::new()?;
/// let parked = runtime.spawn_thread(|| thread::park());
/// parked.thread().unpark();
/// parked.join().unwrap();
/// # Ok::<(), quadrille::BuildError>(())
/// ```
#[track_caller]
pub fn park() {
    let thread = current();
    match thread.token() {
        Some(token) => wait_on(Parked(token), Reason::PARK),
        None => {
            refuse_on_workers();
            std::thread::park();
        }
    }
}

/// The same, but no longer than `limit`: of an ordinary thread in real time, also where a test has
/// [paused](crate::time::pause) the clock.
///
/// # Panics
/// As [`Wait::wait_timeout`](super::Wait::wait_timeout), and on a user-level thread as
/// [`time::sleep`](crate::time::sleep).
#[track_caller]
pub fn park_timeout(limit: Duration) {
    let thread = current();
    match thread.token() {
        Some(token) => {
            // Either way the thread goes on; it looks by itself whether what it waited for is there.
            let _elapsed = wait_timeout_on(Parked(token), limit, Reason::PARK);
        }
        None => {
            refuse_on_workers();
            std::thread::park_timeout(limit);
        }
    }
}

#[cfg(all(test, quadrille_loom))]
mod loom {
    use std::pin::pin;
    use std::sync::Arc;

    use super::*;
    use crate::primitives::UnsafeCell;
    use crate::thread::sync::loom::block_on;

    /// Posts after having written what the one who parks reads.
    fn unpark(token: &Arc<(Token, UnsafeCell<u32>)>) -> ::loom::thread::JoinHandle<()> {
        let token = Arc::clone(token);
        ::loom::thread::spawn(move || {
            // SAFETY: nobody reads it before the token was posted, which is what the models are about.
            token.1.with_mut(|written| unsafe { *written = 1 });
            token.0.post();
        })
    }

    fn park(token: &(Token, UnsafeCell<u32>)) {
        block_on(Parked(&token.0));
        // SAFETY: who wrote has posted, and writes no more.
        assert_eq!(token.1.with(|written| unsafe { *written }), 1);
    }

    #[test]
    fn token_ends_the_park() {
        ::loom::model(|| {
            let token = Arc::new((Token::default(), UnsafeCell::new(0)));
            let unparks = unpark(&token);
            park(&token);
            unparks.join().unwrap();
        });
    }

    #[test]
    fn token_outlives_a_wait_that_is_given_up() {
        ::loom::model(|| {
            let token = Arc::new((Token::default(), UnsafeCell::new(0)));
            let unparks = unpark(&token);
            let mut used_up = false;
            block_on(std::future::poll_fn(|cx| {
                used_up = pin!(Parked(&token.0)).poll(cx).is_ready();
                Poll::Ready(())
            }));
            if !used_up {
                park(&token);
            }
            unparks.join().unwrap();
        });
    }
}
