//! A thread that waits for a future.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use crate::sched::context::polling;
use crate::sched::park::ParkWord;
use crate::sys::clock;
use crate::time::presence::{Guest, Stay};
use crate::{coop, current};

/// The waker of a thread in `block_on`.
struct ThreadWaker {
    word: ParkWord,
    guest: Guest,
}

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.guest.is_woken();
        let _found = self.word.unpark();
    }
}

/// Runs `future` on the calling thread, which may block, until it is ready.
pub(crate) fn block_on_here<F: Future>(future: F) -> F::Output {
    match block_on_until(future, None) {
        Some(output) => output,
        None => unreachable!("without a deadline it ends with an output"),
    }
}

/// The same until `deadline` at most.
pub(crate) fn block_on_until<F: Future>(future: F, deadline: Option<Instant>) -> Option<F::Output> {
    block_on_for(future, || match deadline {
        None => Some(None),
        Some(deadline) => {
            let left = deadline.saturating_duration_since(clock::now());
            (!left.is_zero()).then_some(Some(left))
        }
    })
}

/// The same, for as long as `goes_on` says each time that it waits, `None` for ever; or no longer, if that says nothing.
pub(crate) fn block_on_for<F: Future>(future: F, goes_on: impl Fn() -> Option<Option<Duration>>) -> Option<F::Output> {
    let mut future = pin!(future);
    let (stay, budget) = current::with(|shared| {
        let budget = shared.map_or(coop::DEFAULT, |shared| shared.policy.config.budget);
        (Stay::begin(shared), budget)
    });
    let thread = Arc::new(ThreadWaker {
        word: ParkWord::new(),
        guest: Guest::new(&stay),
    });
    let waker = Waker::from(thread.clone());
    let mut cx = Context::from_waker(&waker);
    loop {
        thread.guest.polls(&stay);
        if let Poll::Ready(output) = coop::with_limit(budget, || polling(|| future.as_mut().poll(&mut cx))) {
            return Some(output);
        }
        // A future that spends the whole budget each time comes here, too, having woken itself: its deadline counts, and others have their turn.
        let left = goes_on()?;
        // Whichever of the two ended it: the future says whether it is ready.
        thread.guest.rests(&stay);
        let _ended = thread.word.wait(left);
    }
}
