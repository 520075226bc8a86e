//! Whether what a user-level thread waits for was woken, where its own waker does not tell.

use std::sync::Arc;
use std::task::{Wake, Waker};

use crate::primitives::{AtomicBool, Ordering};

/// A waker of a thread that remembers that it was called.
///
/// A thread that is suspended in the middle of a poll goes on by a wake-up that may have been for what the poll had
/// asked before, and that wake-up is used up then. Label Woken: the exchanges that set the word pair with the one that
/// finds it set: what led to each of these wake-ups is seen by the poll that follows.
#[derive(Debug)]
pub(super) struct Woken {
    since: AtomicBool,
    thread: Waker,
}

impl Woken {
    pub(super) fn new(thread: Waker) -> Arc<Self> {
        Arc::new(Self {
            since: AtomicBool::new(false),
            thread,
        })
    }

    /// Whether it was called since this was asked last.
    pub(super) fn take(&self) -> bool {
        // Ordering: Acquire (Woken); pairs with `wake_by_ref`.
        self.since.swap(false, Ordering::Acquire)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // First: who is resumed by the call finds it. Ordering: Release (Woken); pairs with `take`. No plain store: of
        // two calls `take` would see the last one's events alone.
        self.since.swap(true, Ordering::Release);
        self.thread.wake_by_ref();
    }
}

#[cfg(all(test, quadrille_loom))]
mod loom {
    use super::*;
    use crate::primitives::AtomicU32;

    /// Two wakers call at a time: who finds the mark, and none later, sees what led to either call.
    #[test]
    fn woken_tells_of_each_event() {
        ::loom::model(|| {
            let woken = Woken::new(Waker::noop().clone());
            let events = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            let wakers = [0, 1].map(|event| {
                let (woken, events) = (Arc::clone(&woken), Arc::clone(&events));
                ::loom::thread::spawn(move || {
                    // Ordering: Relaxed; that the mark orders it is the claim.
                    events[event].store(1, Ordering::Relaxed);
                    woken.wake_by_ref();
                })
            });
            let first = woken.take();
            // Ordering: Relaxed; as above.
            let seen = events.each_ref().map(|event| event.load(Ordering::Relaxed));
            for waker in wakers {
                waker.join().unwrap();
            }
            let second = woken.take();
            assert!(first || second, "a call left no mark");
            assert!(second || seen == [1, 1], "an event was not seen: {seen:?}");
        });
    }
}
