//! Which task the calling thread runs: one that wakes itself, or a user-level thread that gives way, tells its runner so without the state word, which
//! others write.
//!
//! Giving way is the most frequent wake-up of all, and otherwise costs three read-modify-writes: to be woken, to let go, to begin
//! again. The runner holds the task anyway, and asks here when the poll has ended; meanwhile others find it held, as it is.
//!
//! Runs do not nest: tasks are run by the loops of workers, of relievers and of the blocking pool, and a destructor only drops what it
//! finds. So a thread runs one task or none. While the task blocks in place it still is the one: others run on other threads.

use std::cell::Cell;
use std::ptr::NonNull;

use super::Id;
use super::cell::Header;

thread_local! {
    static RUNNING: Running = const {
        Running {
            task: Cell::new(None),
            woke_itself: Cell::new(false),
        }
    };
}

/// What a thread runs. Two words: a bit in the first would be written by itself and read with the rest, which waits until it is in the cache.
struct Running {
    /// Held by who runs it, for as long as this is set.
    task: Cell<Option<NonNull<Header>>>,
    woke_itself: Cell<bool>,
}

/// The thread begins to run a task.
///
/// # Safety
/// The caller holds the task, until it has called [`end`] on this thread.
#[inline]
pub(super) unsafe fn begin(header: NonNull<Header>) {
    RUNNING.with(|running| {
        debug_assert_eq!(running.task.get(), None, "runs do not nest");
        running.task.set(Some(header));
    });
}

/// The poll has ended. Whether the task woke itself.
#[inline]
pub(super) fn end() -> bool {
    RUNNING.with(|running| {
        running.task.set(None);
        running.woke_itself.take()
    })
}

/// The id of the task that the calling thread runs, if it runs one.
pub(super) fn id() -> Option<Id> {
    let header = RUNNING.with(|running| running.task.get())?;
    // SAFETY: set by `begin`, whose caller holds the task until it is no more; it runs on this thread, and so do we. The id never changes.
    Some(unsafe { header.as_ref() }.meta.id)
}

/// The task that the calling thread runs is to run again.
#[inline]
pub(super) fn again() {
    RUNNING.with(|running| {
        debug_assert_ne!(running.task.get(), None, "one runs");
        running.woke_itself.set(true);
    });
}

/// If the calling thread runs this very task: notes that it is to run again. False: it does not.
#[inline]
pub(super) fn wake_itself(header: NonNull<Header>) -> bool {
    RUNNING.with(|running| {
        let itself = running.task.get() == Some(header);
        if itself {
            running.woke_itself.set(true);
        }
        itself
    })
}
