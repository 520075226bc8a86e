//! Waiting for a future on a plain thread, or on a user-level one, which is suspended.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::block_on::block_on_here;
use crate::coop;
use crate::primitives::{Thread, current, park};
use crate::sched::context::may_block;
use crate::thread::{self, Wait as _};

/// Wakes the thread that waits. A late wake-up only makes a later `park` of that thread return early, as it may.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls `future` on this thread, which sleeps in between. Without a limit: it has no other task to give way to.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    if thread::suspends() {
        return future.wait();
    }
    if may_block() {
        return block_on_here(coop::unconstrained(future));
    }
    hold_up_worker(future)
}

/// The same on a worker, where it should not be but may be, say in a destructor.
///
/// The loop is not that of [`block_on_here`], whose thread is nobody the runtime counts on: that one spins on a CPU
/// which workers have left, says that it polls outside of a task, fills a budget for each poll, and lets a clock that
/// stands go on while it sleeps. A worker is in the middle of a task, which is at work for all that others know, so the
/// clock stands. And the task may have spent its budget, which nobody fills here: with a limit each poll would only
/// wake itself.
///
/// What wakes this thread may be meant for who called: the task may be inside of somebody's own `block_on`, which waits
/// by `park` for one of several futures, of which this is one. So it leaves an `unpark` behind where it has taken some.
fn hold_up_worker<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(current())));
    let mut cx = Context::from_waker(&waker);
    // Not the value of the block: that would be leaked if the future's destructor panicked (rust-lang/rust#47949).
    let output;
    let mut unparks = UnparksSelf(false);
    {
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(ready) = coop::without_limit(|| future.as_mut().poll(&mut cx)) {
                output = ready;
                break;
            }
            park();
            unparks.0 = true;
        }
    }
    drop(unparks);
    output
}

/// Leaves an `unpark` behind if it is true, also where the future panics.
struct UnparksSelf(bool);

impl Drop for UnparksSelf {
    fn drop(&mut self) {
        if self.0 {
            current().unpark();
        }
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use std::future::poll_fn;
    use std::time::{Duration, Instant};

    use super::*;

    /// As a `block_on` around it does, of whose futures another one was ready meanwhile.
    #[test]
    fn who_waits_by_park_besides_is_woken() {
        let mut polls = 0;
        hold_up_worker(poll_fn(|_| {
            polls += 1;
            if polls == 2 {
                return Poll::Ready(());
            }
            // It is meant for the one around it.
            current().unpark();
            Poll::Pending
        }));
        let (begin, limit) = (Instant::now(), Duration::from_secs(60));
        std::thread::park_timeout(limit);
        assert!(begin.elapsed() < limit);
    }
}
