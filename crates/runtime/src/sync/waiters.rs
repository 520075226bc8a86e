//! Who waits on one side of a channel, in order, and who was told last.
//!
//! A waiter lives inside the future that waits, so waiting allocates nothing. Its entry is
//!
//! | place | in the list | waker | left by |
//! |---|---|---|---|
//! | `Out` | no | none | [`Waiters::wait`]: to the back |
//! | `Queued` | yes | of the last poll | [`Waiters::notify_first`], [`Waiters::notify_last`], [`Waiters::release_first`], [`Waiters::leave`] |
//! | `Notified` | no | none, it is being called | [`Waiters::wait`]: to the front; [`Waiters::leave`] |
//!
//! The **token** names the waiter that was notified last, from then until that waiter acts: it waits again, or it
//! leaves (because its operation is done, or because its future is dropped). While a token is out, somebody has
//! promised to look. [`Waiters::write_off`] stops relying on the promise; the waiter may still keep it.
//!
//! A *weak* waiter promises nothing and never gets the token: after it the next one is notified as well. A *sharing*
//! one is like any other, but [`Waiters::first_shares`] tells it apart: it wants to read what others may read
//! meanwhile. One that wants a number of things is weak, and the number is known while it is in the list.
//!
//! # Contract of the unsafe functions
//!
//! - **A1** Every call for one `Waiters`, and for the waiters that were ever passed to it, is made under one lock.
//! - **A2** A waiter that was passed to `wait` stays alive and in place until it was passed to `leave`.
//! - **A3** A waiter is passed to one `Waiters` only: to that in which it is, while it is in one, which changes by
//!   [`Waiters::append`] alone.

use std::marker::PhantomPinned;
use std::mem;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::task::Waker;

use crate::primitives::UnsafeCell;
use crate::task;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Out,
    Queued,
    Notified,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Strong,
    Weak,
    Sharing,
}

#[derive(Debug)]
struct Entry {
    place: Place,
    /// Never changes.
    kind: Kind,
    /// How many things. Never changes.
    wants: u32,
    waker: Option<Waker>,
    /// Towards the front. Meaningful in place `Queued`, as is `next`.
    prev: Option<NonNull<Waiter>>,
    next: Option<NonNull<Waiter>>,
}

/// One operation's place in a list.
#[derive(Debug)]
pub(crate) struct Waiter {
    entry: UnsafeCell<Entry>,
    /// Neighbours point here, also while the future's owner holds it by `&mut`.
    _pinned: PhantomPinned,
}

// SAFETY: the entry is reached under a lock only (A1), and what it owns, a waker, may be used and dropped anywhere.
unsafe impl Send for Waiter {}
// SAFETY: as above; `&Waiter` gives no access by itself.
unsafe impl Sync for Waiter {}

// As for `Lock`: under the lock no code of the user's runs.
impl UnwindSafe for Waiter {}
impl RefUnwindSafe for Waiter {}

impl Waiter {
    /// A waiter whose owner leaves when it loses interest.
    pub(crate) fn new() -> Self {
        Self::make(Kind::Strong, 1)
    }

    /// A waiter whose owner may lose interest without a word, and be alive for long.
    pub(crate) fn weak() -> Self {
        Self::make(Kind::Weak, 1)
    }

    /// A weak waiter for so many things at once.
    pub(crate) fn wanting(number: u32) -> Self {
        Self::make(Kind::Weak, number)
    }

    /// A waiter whose owner leaves when it loses interest, and wants what it need not have alone.
    pub(crate) fn sharing() -> Self {
        Self::make(Kind::Sharing, 1)
    }

    fn make(kind: Kind, wants: u32) -> Self {
        let entry = Entry {
            place: Place::Out,
            kind,
            wants,
            waker: None,
            prev: None,
            next: None,
        };
        Self {
            entry: UnsafeCell::new(entry),
            _pinned: PhantomPinned,
        }
    }
}

/// Whether [`Waiters::wait`] has put the waiter into the list.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It is in the list with a waker for this poll.
    Queued,
    /// It needs a waker of its own, and the one at hand is not that of a task of this crate. Nothing has changed: clone
    /// it, outside of the lock, and try everything again.
    NeedsWaker,
}

/// The waiters of one side, first come, first told.
#[derive(Debug)]
pub(crate) struct Waiters {
    head: Option<NonNull<Waiter>>,
    tail: Option<NonNull<Waiter>>,
    /// Compared, never followed.
    token: Option<NonNull<Waiter>>,
}

// SAFETY: the pointers are followed under one lock only (A1), to waiters that are `Send` and alive (A2).
unsafe impl Send for Waiters {}

/// Lends the entry of a waiter.
///
/// # Safety
/// The lock is held (A1), the waiter is alive, and `f` reaches no other entry by the same pointer.
#[inline(always)]
unsafe fn entry<R>(waiter: NonNull<Waiter>, f: impl FnOnce(&mut Entry) -> R) -> R {
    // SAFETY: alive, says the caller; a shared reference claims nothing about the entry.
    let waiter = unsafe { waiter.as_ref() };
    waiter.entry.with_mut(|entry| {
        // SAFETY: exclusive, because the caller holds the lock and `f` doesn't come here twice for one waiter.
        f(unsafe { &mut *entry })
    })
}

impl Waiters {
    pub(crate) const fn new() -> Self {
        Self {
            head: None,
            tail: None,
            token: None,
        }
    }

    /// Whether somebody waits of whom nobody has promised to take care.
    #[inline(always)]
    pub(crate) fn needs_notice(&self) -> bool {
        self.head.is_some() && self.token.is_none()
    }

    /// Whether somebody waits, relying on somebody else's promise.
    #[inline(always)]
    pub(crate) fn is_relying(&self) -> bool {
        self.head.is_some() && self.token.is_some()
    }

    /// Whether nobody is in the list.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// Whether the first in the list is a sharing one.
    ///
    /// # Safety
    /// A1 and A2.
    pub(crate) unsafe fn first_shares(&self) -> bool {
        // SAFETY: A1; alive, because it is in the list (A2).
        self.head
            .is_some_and(|first| unsafe { entry(first, |e| e.kind == Kind::Sharing) })
    }

    /// How many things the first in the list wants.
    ///
    /// # Safety
    /// A1 and A2.
    pub(crate) unsafe fn first_wants(&self) -> Option<u32> {
        // SAFETY: A1; alive, because it is in the list (A2).
        self.head.map(|first| unsafe { entry(first, |e| e.wants) })
    }

    /// Whether `waiter` is in the list.
    ///
    /// # Safety
    /// A1 and A3 for `waiter`.
    pub(crate) unsafe fn is_queued(&self, waiter: &Waiter) -> bool {
        // SAFETY: A1; alive, it is borrowed.
        unsafe { entry(NonNull::from(waiter), |e| e.place == Place::Queued) }
    }

    /// Whether `waiter` was notified and has not acted since.
    ///
    /// # Safety
    /// A1 and A3 for `waiter`.
    pub(crate) unsafe fn is_notified(&self, waiter: &Waiter) -> bool {
        // SAFETY: A1; alive, it is borrowed.
        unsafe { entry(NonNull::from(waiter), |e| e.place == Place::Notified) }
    }

    /// Forgets the promise of the token's holder, so that the next event notifies somebody else.
    #[inline(always)]
    pub(crate) fn write_off(&mut self) {
        self.token = None;
    }

    /// Takes the first waiter out of the list and gives it the token, unless it is weak. Its waker is to be called
    /// outside of the lock.
    ///
    /// # Safety
    /// A1 and A2.
    pub(crate) unsafe fn notify_first(&mut self) -> Option<Waker> {
        let first = self.head?;
        // SAFETY: the caller's; in the list.
        unsafe { self.notify(first) }
    }

    /// The same with the last one.
    ///
    /// # Safety
    /// A1 and A2.
    pub(crate) unsafe fn notify_last(&mut self) -> Option<Waker> {
        let last = self.tail?;
        // SAFETY: the caller's; in the list.
        unsafe { self.notify(last) }
    }

    /// Takes the first waiter out of the list, as if it had left: it was not notified, and promises nothing. Its waker
    /// is to be called outside of the lock.
    ///
    /// # Safety
    /// A1 and A2.
    pub(crate) unsafe fn release_first(&mut self) -> Option<Waker> {
        let first = self.head?;
        // SAFETY: the caller's; in the list.
        let (_, waker) = unsafe { self.take(first, Place::Out) };
        waker
    }

    /// Takes in all who are in the list `behind`, in their order, behind those who are in this one. Tokens stay where
    /// they are.
    ///
    /// # Safety
    /// A1 and A2, for both under one lock.
    pub(crate) unsafe fn append(&mut self, behind: &mut Self) {
        let (Some(first), Some(last)) = (behind.head.take(), behind.tail.take()) else {
            return;
        };
        // SAFETY: A1; it was at the front of a list, hence alive (A2).
        unsafe { entry(first, |e| e.prev = self.tail) };
        // SAFETY: A1; the end of this list.
        unsafe { self.set_next(self.tail, Some(first)) };
        self.tail = Some(last);
    }

    /// Takes `node` out of the list, and gives it the token unless it is weak.
    ///
    /// # Safety
    /// A1 and A2; `node` is in the list.
    unsafe fn notify(&mut self, node: NonNull<Waiter>) -> Option<Waker> {
        // SAFETY: the caller's.
        let (kind, waker) = unsafe { self.take(node, Place::Notified) };
        if kind != Kind::Weak {
            self.token = Some(node);
        }
        waker
    }

    /// Takes `node` out of the list, to `place`, and its waker.
    ///
    /// # Safety
    /// A1 and A2; `node` is in the list.
    unsafe fn take(&mut self, node: NonNull<Waiter>, place: Place) -> (Kind, Option<Waker>) {
        // SAFETY: A1; alive, because it is in the list (A2).
        unsafe { self.unlink(node) };
        let taken = |e: &mut Entry| {
            e.place = place;
            (e.kind, e.waker.take())
        };
        // SAFETY: as above; nothing has ended the borrow of A2 since.
        unsafe { entry(node, taken) }
    }

    /// Puts `waiter` into the list: at the back, or at the front if it was notified and came too late. If it is there,
    /// only the waker is renewed. `fresh` is a clone of `current`, or nothing: then one of our own tasks' wakers is
    /// cloned here. A waker that it replaces is left there instead, to be dropped outside of the lock.
    ///
    /// # Safety
    /// A1, A2 and A3 for `waiter`.
    pub(crate) unsafe fn wait(&mut self, waiter: &Waiter, current: &Waker, fresh: &mut Option<Waker>) -> Wait {
        let node = NonNull::from(waiter);
        let look = |e: &mut Entry| {
            if e.waker.as_ref().is_some_and(|w| w.will_wake(current)) {
                return (e.place, Wait::Queued);
            }
            if fresh.is_none() {
                if !task::is_own_waker(current) {
                    return (e.place, Wait::NeedsWaker);
                }
                // No code of a user's: a count is raised, and the lock is not taken twice.
                *fresh = Some(current.clone());
            }
            mem::swap(&mut e.waker, fresh);
            (mem::replace(&mut e.place, Place::Queued), Wait::Queued)
        };
        // SAFETY: A1; alive, it is borrowed.
        let (place, outcome) = unsafe { entry(node, look) };
        match (place, outcome) {
            (_, Wait::NeedsWaker) | (Place::Queued, Wait::Queued) => {}
            (Place::Out, Wait::Queued) => {
                let last = self.tail;
                // SAFETY: A1; not in the list, because its place was `Out`.
                unsafe { self.link(last, node, None) };
            }
            (Place::Notified, Wait::Queued) => {
                self.hand_in(node);
                let first = self.head;
                // SAFETY: A1; not in the list, because its place was `Notified`.
                unsafe { self.link(None, node, first) };
            }
        }
        outcome
    }

    /// Takes `waiter` out, wherever it is, and its token with it. The waker is to be dropped outside of the lock.
    ///
    /// # Safety
    /// A1 and A3 for `waiter`.
    pub(crate) unsafe fn leave(&mut self, waiter: &Waiter) -> Option<Waker> {
        let node = NonNull::from(waiter);
        let out = |e: &mut Entry| (mem::replace(&mut e.place, Place::Out), e.waker.take());
        // SAFETY: A1; alive, it is borrowed.
        let (place, waker) = unsafe { entry(node, out) };
        match place {
            Place::Out => {}
            // SAFETY: A1; it is in this list, because its place was `Queued` (A3).
            Place::Queued => unsafe { self.unlink(node) },
            Place::Notified => self.hand_in(node),
        }
        waker
    }

    fn hand_in(&mut self, node: NonNull<Waiter>) {
        if self.token == Some(node) {
            self.token = None;
        }
    }

    /// Links `node` between two neighbours.
    ///
    /// # Safety
    /// A1; `node` is alive and in no list; `prev` and `next` are neighbours in this one, `None` beyond its ends.
    unsafe fn link(&mut self, prev: Option<NonNull<Waiter>>, node: NonNull<Waiter>, next: Option<NonNull<Waiter>>) {
        let set = |e: &mut Entry| (e.prev, e.next) = (prev, next);
        // SAFETY: A1; alive, says the caller.
        unsafe { entry(node, set) };
        // SAFETY: A1; `prev` is in the list.
        unsafe { self.set_next(prev, Some(node)) };
        // SAFETY: A1; `next` is in the list.
        unsafe { self.set_prev(next, Some(node)) };
    }

    /// Takes `node` out of the list.
    ///
    /// # Safety
    /// A1; `node` is in the list.
    unsafe fn unlink(&mut self, node: NonNull<Waiter>) {
        // SAFETY: A1; in the list, hence alive (A2).
        let (prev, next) = unsafe { entry(node, |e| (e.prev.take(), e.next.take())) };
        // SAFETY: A1; `prev` is in the list.
        unsafe { self.set_next(prev, next) };
        // SAFETY: A1; `next` is in the list.
        unsafe { self.set_prev(next, prev) };
    }

    /// # Safety
    /// A1; `node` is in the list, or `None` for the end before the first.
    unsafe fn set_next(&mut self, node: Option<NonNull<Waiter>>, next: Option<NonNull<Waiter>>) {
        match node {
            // SAFETY: A1; in the list, hence alive (A2).
            Some(node) => unsafe { entry(node, |e| e.next = next) },
            None => self.head = next,
        }
    }

    /// # Safety
    /// A1; `node` is in the list, or `None` for the end behind the last.
    unsafe fn set_prev(&mut self, node: Option<NonNull<Waiter>>, prev: Option<NonNull<Waiter>>) {
        match node {
            // SAFETY: A1; in the list, hence alive (A2).
            Some(node) => unsafe { entry(node, |e| e.prev = prev) },
            None => self.tail = prev,
        }
    }
}
