//! Which task the calling thread runs: one that wakes itself, or a user-level thread that gives way, tells its runner
//! so without the state word, which others write.
//!
//! Giving way is the most frequent wake-up of all, and otherwise costs three read-modify-writes: to be woken, to let
//! go, to begin again. The runner holds the task anyway, and asks here when the poll has ended; meanwhile others find
//! it held, as it is.
//!
//! Runs do not nest: tasks are run by the loops of workers, of relievers and of the blocking pool, and a destructor
//! only drops what it finds: what it drops of another task counts as that one meanwhile (`dropping`). So a thread runs
//! one task or none. While the task blocks in place it still is the one: others run on other threads.

use std::cell::Cell;
use std::ptr::{self, NonNull};

use super::cell::Header;
use super::{Id, Meta};

thread_local! {
    static RUNNING: Running = const {
        Running {
            task: Cell::new(None),
            woke_itself: Cell::new(false),
        }
    };
}

/// What a thread runs. Two words: a bit in the first would be written by itself and read with the rest, which waits
/// until it is in the cache.
struct Running {
    /// Held by who runs it, or there for who drops what it leaves, for as long as this is set.
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

/// Calls `f`, which drops what that task leaves, as if the thread ran the task: destructors are told its id. What the
/// thread runs, if it runs anything, it runs again after that.
///
/// What it is told of wake-ups meanwhile goes with `f`: nobody runs a body that is dropped, or was. On a user-level
/// thread `f` may wait: that ends the run, and another has begun when it goes on, which is told what is its own.
///
/// # Safety
/// The task is there until `f` has returned.
pub(super) unsafe fn dropping<R>(header: NonNull<Header>, f: impl FnOnce() -> R) -> R {
    /// Puts it back, also when `f` panics.
    struct Restore {
        dropped: NonNull<Header>,
        ran: Option<NonNull<Header>>,
        woke_itself: bool,
    }
    impl Drop for Restore {
        fn drop(&mut self) {
            RUNNING.with(|running| {
                if running.task.get() == Some(self.dropped) {
                    running.task.set(self.ran);
                    running.woke_itself.set(self.woke_itself);
                }
            });
        }
    }
    let _restore = RUNNING.with(|running| Restore {
        dropped: header,
        ran: running.task.replace(Some(header)),
        woke_itself: running.woke_itself.get(),
    });
    f()
}

/// The id of the task that the calling thread runs, if it runs one, or whose body or result it drops.
pub(super) fn id() -> Option<Id> {
    let header = RUNNING.with(|running| running.task.get())?;
    // SAFETY: set by `begin`, whose caller holds the task until it is no more, or by `dropping`, until when the task is
    // there; that is on this thread, and so are we. The id never changes.
    Some(unsafe { header.as_ref() }.meta.id)
}

/// Whether the calling thread runs the task with this metadata, and nobody is left to ask for its result.
#[inline]
pub(crate) fn is_detached(meta: &Meta) -> bool {
    let Some(header) = RUNNING.with(|running| running.task.get()) else {
        return false;
    };
    // SAFETY: the header is there, as in `id`; what changes of it is in atomics and cells.
    let task = unsafe { header.as_ref() };
    ptr::eq(&raw const task.meta, meta) && !task.lifecycle.is_joined()
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
