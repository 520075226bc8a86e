//! A group's mailbox: anyone pushes without a lock, whoever drains takes all.
//!
//! A Treiber stack emptied by one `swap(null)` and reversed once, hence first-in first-out a batch. Push-only plus full
//! swap has no ABA; and a producer that is preempted between its two steps hides nothing but its own task, which an
//! exchange-and-link queue can't say.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::Linked;
use crate::lines;
use crate::primitives::{AtomicPtr, Ordering, StaticUsize};
use crate::stress;

#[derive(Debug)]
pub(crate) struct Mailbox<T: Linked> {
    head: AtomicPtr<()>,
    /// Pushed and not drained, roughly: on the line that pushers write anyway. No model's business, hence not loom's
    /// type.
    len: StaticUsize,
    holds: PhantomData<T>,
}

// SAFETY: the mailbox hands each T from one thread to another, by an atomic word.
unsafe impl<T: Linked + Send> Sync for Mailbox<T> {}
// SAFETY: as above.
unsafe impl<T: Linked + Send> Send for Mailbox<T> {}

impl<T: Linked> Mailbox<T> {
    pub(crate) fn new() -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
            len: StaticUsize::new(0),
            holds: PhantomData,
        }
    }

    /// Pushes from any thread. The last touch of `item` (W3).
    pub(crate) fn push(&self, item: T) {
        lines::touch(&self.head);
        // Ordering: Relaxed; a hint. Before the push, so that no drain takes off what is not yet there.
        self.len.fetch_add(1, Ordering::Relaxed);
        let raw = item.into_raw();
        // Ordering: Relaxed; the exchange below publishes the link.
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: `raw` is ours until the exchange succeeds.
            unsafe { T::link(raw) }.store(head, Ordering::Relaxed);
            stress::delay();
            // Ordering: Release; (W1 a) publishes the task and its link to the Acquire swap in `drain`.
            match self
                .head
                .compare_exchange_weak(head, raw.as_ptr(), Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes everything, oldest first.
    pub(crate) fn drain(&self) -> Drain<T> {
        if self.is_empty() {
            return Drain {
                next: None,
                holds: PhantomData,
            };
        }
        // Ordering: Acquire; pairs with `push` (W1 a). One swap gives the whole list to this thread (W2).
        let mut newest = NonNull::new(self.head.swap(ptr::null_mut(), Ordering::Acquire));
        let mut oldest = None;
        let mut count = 0;
        while let Some(raw) = newest {
            // SAFETY: the list is ours since the swap.
            let link = unsafe { T::link(raw) };
            // Ordering: Relaxed; ours.
            newest = NonNull::new(link.load(Ordering::Relaxed));
            link.store(oldest.map_or(ptr::null_mut(), NonNull::as_ptr), Ordering::Relaxed);
            oldest = Some(raw);
            count += 1;
        }
        // Ordering: Relaxed; a hint.
        self.len.fetch_sub(count, Ordering::Relaxed);
        Drain {
            next: oldest,
            holds: PhantomData,
        }
    }

    /// Number of items in it, roughly.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // Ordering: Relaxed; a hint.
        self.len.load(Ordering::Relaxed)
    }

    /// Whether the mailbox looks empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        lines::touch(&self.head);
        // Ordering: Relaxed; a hint between tasks; in a final look the fence (W1 B) has come before.
        self.head.load(Ordering::Relaxed).is_null()
    }
}

impl<T: Linked> Drop for Mailbox<T> {
    fn drop(&mut self) {
        self.drain().for_each(drop);
    }
}

/// What a drain took, oldest first; what is not taken from it is dropped with it.
#[derive(Debug)]
pub(crate) struct Drain<T: Linked> {
    next: Option<NonNull<()>>,
    holds: PhantomData<T>,
}

impl<T: Linked> Iterator for Drain<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let raw = self.next?;
        // SAFETY: the chain belongs to this drain; `raw` was not turned back yet.
        let link = unsafe { T::link(raw) };
        // Ordering: Relaxed; ours since the swap in `drain`.
        self.next = NonNull::new(link.load(Ordering::Relaxed));
        // SAFETY: from `into_raw` in `push`; unlinked above, so it is turned back once.
        Some(unsafe { T::from_raw(raw) })
    }
}

impl<T: Linked> Drop for Drain<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}
