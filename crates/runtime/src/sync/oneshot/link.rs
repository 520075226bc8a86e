//! What the two sides of a `oneshot` share, and its end.
//!
//! # Theorem Oneshot
//!
//! *(a) A side that waits for the other is woken when the other ends. (b) A message is received, dropped by the
//! receiver, or given back to the sender. (c) The memory is freed once, when neither side touches it any more.*
//!
//! Each side has a place for its waker, and three flags in one word:
//!
//! | flag | set by | says |
//! |---|---|---|
//! | `WAITS` | the side itself, which also takes it back | its waker is in its place (nothing any more once a side is `GONE`) |
//! | `GONE` | the side, while the other's isn't set: so at most one of the two ever is | it has ended first |
//! | `OUT` | the side, with the last that it does to the memory | the memory is the other's, to free |
//!
//! and `SENT` is set together with the sender's `GONE`, if a message is there.
//!
//! A place is its side's, with one exception: if the other's `GONE` found `WAITS`, it is the other's from there to its
//! `OUT`. The other moves the waker out to call it; the side may compare it meanwhile, and do no more. A side that
//! waits writes its place, then sets `WAITS` and looks at the other's `GONE` in one operation; a side that ends sets
//! `GONE` and looks at the other's `WAITS` in one operation, too. One of the two is the first, and the other sees it:
//! (a). Who finds `GONE` by the operation that sets `WAITS` was not seen to wait, and takes its waker out again.
//!
//! The message is written before the sender sets `GONE`, and is the receiver's afterwards. If the receiver was first,
//! the sender finds that out by the same operation, which then changes nothing, and the message is still its own: (b).
//!
//! A side that finds the other's `OUT` frees. If neither finds it by looking, both set theirs by a read-modify-write,
//! of which the second finds the first: (c). Who ends first, with nobody to wake, sets `OUT` together with `GONE`: a
//! message that is received and that nobody waited for costs one read-modify-write in all.

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use crate::primitives::{AtomicU8, Life, Ordering, UnsafeCell};

const WAITS: u8 = 1;
const GONE: u8 = 2;
const OUT: u8 = 4;
const SENT: u8 = 8;

/// One of the two sides of a channel.
pub(super) trait Side {
    /// How far its three flags are shifted.
    const SHIFT: u32;
    type Other: Side;
}

pub(super) enum Sends {}
pub(super) enum Receives {}

impl Side for Sends {
    const SHIFT: u32 = 0;
    type Other = Receives;
}

impl Side for Receives {
    const SHIFT: u32 = 4;
    type Other = Sends;
}

/// `flag` of the side `S`.
const fn of<S: Side>(flag: u8) -> u8 {
    flag << S::SHIFT
}

struct Shared<T> {
    /// The flags of both sides.
    ///
    /// Label Oneshot: all that change it are read-modify-writes, so who reads one of them by Acquire sees what came
    /// before every Release up to it.
    state: AtomicU8,
    /// The sender's place, and the receiver's.
    wakers: [UnsafeCell<MaybeUninit<Waker>>; 2],
    message: UnsafeCell<MaybeUninit<T>>,
    life: Life,
}

/// The other side ended first.
pub(super) struct OtherGone;

/// What a side holds: the way to what both share. Ends the side when it is dropped.
pub(super) struct Link<T, S: Side> {
    shared: NonNull<Shared<T>>,
    side: PhantomData<S>,
}

// SAFETY: a link reaches the word, which is atomic, and what is its side's by the theorem: wakers, which may be sent
// and shared, and the message, which goes from the sender's thread to the receiver's, or the thread that drops either:
// `Send`. `&Link` reaches the word alone, so `T: Sync` isn't asked for.
unsafe impl<T: Send, S: Side> Send for Link<T, S> {}
// SAFETY: as above.
unsafe impl<T: Send, S: Side> Sync for Link<T, S> {}

// The user's code (wakers, the message's destructor) runs where each step is complete, so no panic of his leaves
// anything half changed.
impl<T, S: Side> UnwindSafe for Link<T, S> {}
impl<T, S: Side> RefUnwindSafe for Link<T, S> {}

/// Both sides of a new channel.
pub(super) fn pair<T>() -> (Link<T, Sends>, Link<T, Receives>) {
    let empty = || UnsafeCell::new(MaybeUninit::uninit());
    let shared = Box::new(Shared {
        state: AtomicU8::new(0),
        wakers: [empty(), empty()],
        message: UnsafeCell::new(MaybeUninit::uninit()),
        life: Life::new(),
    });
    let shared = NonNull::from(Box::leak(shared));
    let (sends, receives) = (Link::to(shared), Link::to(shared));
    (sends, receives)
}

impl<T, S: Side> Link<T, S> {
    fn to(shared: NonNull<Shared<T>>) -> Self {
        Self {
            shared,
            side: PhantomData,
        }
    }

    #[inline(always)]
    fn shared(&self) -> &Shared<T> {
        // SAFETY: it came from a box, which is freed by the one side that finds the other's `OUT` (c); a link whose own
        // is set isn't used, as `end_first` and `leave` ask.
        let shared = unsafe { self.shared.as_ref() };
        shared.life.touch();
        shared
    }

    /// The place of this side's waker, or the other's.
    fn place<Of: Side>(&self) -> &UnsafeCell<MaybeUninit<Waker>> {
        &self.shared().wakers[usize::from(Of::SHIFT > 0)]
    }

    /// Moves the waker of `Of` out.
    ///
    /// # Safety
    /// One is there, and its place is this side's.
    unsafe fn take_waker<Of: Side>(&self) -> Waker {
        // SAFETY: as the caller says. It reads only: the side whose place it is may compare meanwhile.
        self.place::<Of>().with(|place| unsafe { place.cast::<Waker>().read() })
    }

    /// Whether the other side ended first. If that is the sender, its message is the receiver's.
    #[inline]
    pub(super) fn is_other_gone(&self) -> bool {
        // Ordering: Acquire (Oneshot); pairs with the exchange in `end_first`, before which the message was written.
        self.shared().state.load(Ordering::Acquire) & of::<S::Other>(GONE) != 0
    }

    /// Whether a message was sent that nobody has received.
    pub(super) fn has_message(&self) -> bool {
        // Ordering: Acquire (Oneshot); pairs with the exchange in `end_first`: who is told sees what came before.
        self.shared().state.load(Ordering::Acquire) & SENT != 0
    }

    /// Waits for the other side to end. The task of the last poll is woken.
    pub(super) fn poll_other_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Ordering: Acquire (Oneshot); as in `is_other_gone`.
        let state = self.shared().state.load(Ordering::Acquire);
        if state & of::<S::Other>(GONE) != 0 {
            return Poll::Ready(());
        }
        // SAFETY: this side, which alone sets the flag, has written its place.
        if state & of::<S>(WAITS) != 0 && unsafe { self.is_place_of(cx.waker()) } {
            return Poll::Pending;
        }
        // The user's code, before anything is changed.
        let fresh = cx.waker().clone();
        let Ok(_old) = self.take_back() else {
            return Poll::Ready(());
        };
        // SAFETY: `WAITS` is not set, and was not when somebody ended, so the place is ours; it is empty.
        self.place::<S>().with_mut(|place| unsafe { (*place).write(fresh) });
        // Ordering: AcqRel (Oneshot); Release pairs with the exchange in `end_first` that finds the waker, Acquire as
        // in `is_other_gone`.
        let state = self.shared().state.fetch_or(of::<S>(WAITS), Ordering::AcqRel);
        if state & of::<S::Other>(GONE) == 0 {
            return Poll::Pending;
        }
        // SAFETY: the other side ended before the flag was set, so it left the place alone (a); it was written above.
        drop(unsafe { self.take_waker::<S>() });
        Poll::Ready(())
    }

    /// Whether the waker in this side's place is that of the same task. If it was moved out meanwhile, it was so to be
    /// called.
    ///
    /// # Safety
    /// One was written there.
    unsafe fn is_place_of(&mut self, waker: &Waker) -> bool {
        // SAFETY: it was written, and nobody writes the place but this side, which is borrowed. Of a waker that was
        // moved out the words are still there, and `will_wake` compares them, and follows neither.
        self.place::<S>()
            .with(|place| unsafe { &*place.cast::<Waker>() }.will_wake(waker))
    }

    /// Takes this side's waker back, if one is there.
    ///
    /// # Errors
    /// The other side has ended, and the waker was taken by who was to take it.
    pub(super) fn take_back(&mut self) -> Result<Option<Waker>, OtherGone> {
        // Ordering: Relaxed; only this side sets the flag.
        if self.shared().state.load(Ordering::Relaxed) & of::<S>(WAITS) == 0 {
            return Ok(None);
        }
        // Ordering: Acquire (Oneshot); pairs with the exchange in `end_first`: who is told that the other is gone sees
        // what came before. The waker was written by this side.
        let state = self.shared().state.fetch_and(!of::<S>(WAITS), Ordering::Acquire);
        if state & of::<S::Other>(GONE) != 0 {
            return Err(OtherGone);
        }
        // SAFETY: it is there, as the flag said, and who ends from now on does not find it.
        Ok(Some(unsafe { self.take_waker::<S>() }))
    }

    /// Ends this side, if the other has not ended.
    ///
    /// # Errors
    /// The link itself, if the other side ended first. Its message, if it is the sender, can be received.
    pub(super) fn end(self) -> Result<(), Self> {
        let mut link = ManuallyDrop::new(self);
        // SAFETY: if so it is not used again, nor dropped.
        if unsafe { link.end_first(0) } {
            Ok(())
        } else {
            Err(ManuallyDrop::into_inner(link))
        }
    }

    /// Ends this side, unless the other ended first: then `false`, and nothing has changed. `sent` is `SENT` or 0.
    ///
    /// # Safety
    /// If it returns `true` or panics, the link is not used afterwards. With `SENT` a message is in its place.
    #[inline]
    unsafe fn end_first(&mut self, sent: u8) -> bool {
        let mut state = 0;
        loop {
            if state & of::<S::Other>(GONE) != 0 {
                return false;
            }
            // Nobody is to be woken: the memory isn't touched after this.
            let out = if state == 0 { of::<S>(OUT) } else { 0 };
            let ended = state | of::<S>(GONE) | out | sent;
            // Ordering: AcqRel (Oneshot); Release pairs with who finds this side gone, and with the last to leave.
            // Acquire pairs with the other side's `fetch_or` in `poll_other_gone`, before which it wrote its waker.
            // Also where it finds what the look before found: the waker may be another. On failure it pairs with the
            // other's exchange here, too, before which it wrote its message.
            let exchange = self
                .shared()
                .state
                .compare_exchange(state, ended, Ordering::AcqRel, Ordering::Acquire);
            match exchange {
                Ok(_) => break,
                Err(found) => state = found,
            }
        }
        if state != 0 {
            // SAFETY: found just now; the caller says the rest.
            unsafe { self.wake_and_leave(state) };
        }
        true
    }

    /// The rest of an end that found `state`, in which somebody waits.
    ///
    /// # Safety
    /// That end was this side's, and the first; the link is not used afterwards.
    unsafe fn wake_and_leave(&mut self, state: u8) {
        // SAFETY: it waited when this side ended, and had not ended: its place is ours, until we leave, and the waker
        // there (a).
        let others = (state & of::<S::Other>(WAITS) != 0).then(|| unsafe { self.take_waker::<S::Other>() });
        // SAFETY: our own place, with the flag set, and the other side ends second: it leaves the place alone.
        let _own = (state & of::<S>(WAITS) != 0).then(|| unsafe { self.take_waker::<S>() });
        // SAFETY: as the caller says; nothing below touches the memory.
        unsafe { self.leave() };
        if let Some(waker) = others {
            waker.wake();
        }
    }

    /// The message, if one was sent.
    ///
    /// # Safety
    /// The other side ended first, and this one takes the message once.
    unsafe fn take_message(&mut self) -> Option<T> {
        // Ordering: Relaxed; the caller has seen the other side gone, and `SENT` was set with that.
        let is_there = self.shared().state.load(Ordering::Relaxed) & SENT != 0;
        // SAFETY: it was written before the sender ended, which has been seen; from then on it is the receiver's (b). A
        // sender that is second has never set the flag.
        is_there.then(|| self.shared().message.with(|place| unsafe { place.cast::<T>().read() }))
    }

    /// Touches the memory no more, and frees it if it is the last to do so.
    ///
    /// # Safety
    /// Called once; the link isn't used afterwards.
    unsafe fn leave(&mut self) {
        let out = of::<S::Other>(OUT);
        // Ordering: Acquire (Oneshot); the other side's accesses came before it set the flag by Release: by the
        // `fetch_or` below, or the exchange in `end_first`.
        let mut is_last = self.shared().state.load(Ordering::Acquire) & out != 0;
        if !is_last {
            // Ordering: AcqRel (Oneshot); Release of this side's accesses to the last one, Acquire as above.
            is_last = self.shared().state.fetch_or(of::<S>(OUT), Ordering::AcqRel) & out != 0;
        }
        if is_last && self.shared().life.end() {
            // SAFETY: from a box (`pair`); the other side is out, and this is the end of ours (c). The places are
            // empty: who ended first has taken both wakers, and what was not sent or was taken isn't dropped.
            drop(unsafe { Box::from_raw(self.shared.as_ptr()) });
        }
    }
}

impl<T> Link<T, Sends> {
    /// Sends the message and ends this side.
    ///
    /// # Errors
    /// Gives the message back if the receiver ended first.
    #[inline]
    pub(super) fn send(self, message: T) -> Result<(), T> {
        let mut link = ManuallyDrop::new(self);
        // SAFETY: it is the sender's until the sender ends; nothing is there.
        link.shared()
            .message
            .with_mut(|place| unsafe { (*place).write(message) });
        // SAFETY: the message is there; if so, the link is not used again, nor dropped.
        if unsafe { link.end_first(SENT) } {
            return Ok(());
        }
        // SAFETY: written above; `SENT` was not set, so nobody else reads it.
        let message = link.shared().message.with(|place| unsafe { place.cast::<T>().read() });
        // SAFETY: its last use; `ManuallyDrop` keeps it from being dropped.
        unsafe { link.leave() };
        Err(message)
    }
}

impl<T> Link<T, Receives> {
    /// Ends this side: the message of a sender that has ended before, `None` if it has left none, or has not ended.
    #[inline]
    pub(super) fn receive(self) -> Option<T> {
        if !self.is_other_gone() {
            return None;
        }
        let mut link = ManuallyDrop::new(self);
        // SAFETY: the sender has ended; the link is used for nothing else afterwards.
        let message = unsafe { link.take_message() };
        // SAFETY: its last use, as above.
        unsafe { link.leave() };
        message
    }
}

impl<T, S: Side> Drop for Link<T, S> {
    fn drop(&mut self) {
        // SAFETY: if so it is not used again.
        if unsafe { self.end_first(0) } {
            return;
        }
        // SAFETY: the other side ended first, as `end_first` has seen; nobody uses the link after its drop.
        let message = unsafe { self.take_message() };
        // SAFETY: as above.
        unsafe { self.leave() };
        // The user's code, last.
        drop(message);
    }
}
