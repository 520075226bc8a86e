//! Which task the calling thread runs: one that wakes itself tells its runner so without the state word, which others write.
//!
//! Giving way is the most frequent wake-up of all, and otherwise costs three read-modify-writes: to be woken, to let go, to begin
//! again. The runner holds the task anyway, and asks here when the poll has ended; meanwhile others find it held, as it is.
//!
//! Runs do not nest: tasks are run by the loops of workers, of relievers and of the blocking pool, and a destructor only drops what it
//! finds. So a thread runs one task or none. While the task blocks in place it still is the one: others run on other threads.

use std::cell::Cell;
use std::ptr::NonNull;

use super::cell::Header;

thread_local! {
    /// Address of the header; its lowest bit says that the task woke itself. Zero: none runs.
    static RUNNING: Cell<usize> = const { Cell::new(0) };
}

const WOKE_ITSELF: usize = 1;

/// The thread begins to run a task, which it holds.
#[inline]
pub(super) fn begin(header: NonNull<Header>) {
    debug_assert_eq!(RUNNING.get(), 0, "runs do not nest");
    RUNNING.set(header.addr().get());
}

/// The poll has ended. Whether the task woke itself.
#[inline]
pub(super) fn end() -> bool {
    RUNNING.take() & WOKE_ITSELF != 0
}

/// The task that the calling thread runs is to run again.
#[inline]
pub(super) fn again() {
    let running = RUNNING.get();
    debug_assert_ne!(running, 0, "one runs");
    RUNNING.set(running | WOKE_ITSELF);
}

/// If the calling thread runs this very task: notes that it is to run again. False: it does not.
#[inline]
pub(super) fn wake_itself(header: NonNull<Header>) -> bool {
    let running = RUNNING.get();
    let itself = running & !WOKE_ITSELF == header.addr().get();
    if itself {
        RUNNING.set(running | WOKE_ITSELF);
    }
    itself
}
