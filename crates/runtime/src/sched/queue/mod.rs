//! The queues that hold ready tasks. Each holds words: no queue knows what a task is.

pub(crate) mod bound;
pub(crate) mod deque;
pub(crate) mod export;
pub(crate) mod group;
pub(crate) mod injector;
#[cfg(all(test, not(quadrille_loom)))]
mod item;
pub(crate) mod local;
pub(crate) mod mailbox;
pub(crate) mod slot;

use std::ptr::NonNull;

use crate::primitives::AtomicPtr;

/// Something that can stand in a queue as one word, with room for a link.
///
/// # Safety
/// `from_raw(into_raw(x))` is `x`; `link` gives a field that lives as long as the thing behind the word and that nobody
/// else uses while the word is in a queue.
pub(crate) unsafe trait Linked: Sized {
    /// The thing as a word.
    fn into_raw(self) -> NonNull<()>;

    /// The thing again.
    ///
    /// # Safety
    /// `raw` comes from `into_raw` and is turned back once.
    unsafe fn from_raw(raw: NonNull<()>) -> Self;

    /// The link of the thing behind a word.
    ///
    /// # Safety
    /// `raw` comes from `into_raw`, was not turned back yet, and the caller owns it for `'a`.
    unsafe fn link<'a>(raw: NonNull<()>) -> &'a AtomicPtr<()>;

    /// Asks the processor for the memory at a word, whose thing may have gone: nothing is read.
    #[inline]
    fn fetch(raw: NonNull<()>) {
        _ = raw;
    }

    /// Asks the processor for the memory that the thing behind a word will use when it is run, soon, and that lies
    /// elsewhere.
    ///
    /// # Safety
    /// As for [`link`](Self::link).
    #[inline]
    unsafe fn prefetch(raw: NonNull<()>) {
        _ = raw;
    }
}
