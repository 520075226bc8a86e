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

/// Polls `future` on this thread, which sleeps in between. Without a limit: on a worker, where it should not be but may
/// be, say in a destructor, nobody fills a budget that the task has spent, and each poll would only wake itself. Who
/// may block lets a clock that stands go on meanwhile.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    if thread::suspends() {
        return future.wait();
    }
    if may_block() {
        return block_on_here(coop::unconstrained(future));
    }
    let waker = Waker::from(Arc::new(Unpark(current())));
    let mut cx = Context::from_waker(&waker);
    // Not the value of the block: that would be leaked if the future's destructor panicked (rust-lang/rust#47949).
    let output;
    {
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(ready) = coop::without_limit(|| future.as_mut().poll(&mut cx)) {
                output = ready;
                break;
            }
            park();
        }
    }
    output
}
