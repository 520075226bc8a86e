//! The memory of a task: one allocation with its header and, in turn, its body and its result; before the header of a
//! user-level thread is its place on the roll.
//!
//! Everybody has a pointer to the header, which does not say what the body is; its table of functions does. What may be
//! touched when:
//!
//! | part | by whom |
//! |---|---|
//! | place on the roll | who spawns, runs or drops the thread; who makes a list, while the memory is on the register (`thread::roll`) |
//! | lifecycle | anyone with a part in it (C e) |
//! | metadata | see `Meta` |
//! | body | the holder of the runnable |
//! | result | its runner, until it sets `DONE`; then the joiner (C c), or the runner if there is none |

pub(super) mod spare;

use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, offset_of, size_of};
use std::ops::Deref;
use std::ptr::NonNull;
use std::task::Waker;

use self::spare::Kind;
pub(crate) use self::spare::trim;
use super::Meta;
use super::body::{self, Body, Outcome};
use super::lifecycle::{Ended, Lifecycle};
use super::meta::{AHEAD, THREAD};
use super::state::{Pause, Then};
use super::{running, waker};
use crate::panics::quietly;
use crate::sys::prefetch;
use crate::thread::roll::Place;

/// What every task begins with.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Header {
    pub(super) lifecycle: Lifecycle,
    table: &'static Table,
    pub(super) meta: Meta,
}

/// What depends on the type of the body. Each is given the header of a task of that type.
#[derive(Debug)]
struct Table {
    /// Runs the body once; the flag says whether there are abort handles. True: it is gone, and its result in its
    /// place.
    run: unsafe fn(NonNull<Header>, bool) -> bool,
    /// Drops the body.
    cancel: unsafe fn(NonNull<Header>),
    /// Drops the result.
    drop_outcome: unsafe fn(NonNull<Header>),
    /// Frees the memory; body or result are gone, or forgotten.
    free: unsafe fn(NonNull<Header>),
    /// Where the result is, bytes from the header.
    outcome: usize,
}

#[repr(C)]
struct Cell<B: Body> {
    header: Header,
    stage: Stage<B>,
}

/// The body, or what has become of it.
#[repr(C)]
union Stage<B: Body> {
    body: ManuallyDrop<B>,
    outcome: ManuallyDrop<Outcome<B::Output>>,
}

impl<B: Body> Cell<B> {
    const TABLE: Table = Table {
        run: Self::run,
        cancel: Self::cancel,
        free: Self::free,
        drop_outcome: Self::drop_outcome,
        outcome: offset_of!(Self, stage),
    };

    /// Whether a list of threads has it.
    const KIND: Kind = if B::FLAGS & THREAD == 0 {
        Kind::Unlisted
    } else {
        Kind::Listed
    };

    /// Where the body is, while it is there.
    fn body(header: NonNull<Header>) -> *mut B {
        header.as_ptr().wrapping_byte_add(offset_of!(Self, stage)).cast()
    }

    /// Where its result is to be.
    fn place(header: NonNull<Header>) -> *mut Outcome<B::Output> {
        header.as_ptr().wrapping_byte_add(offset_of!(Self, stage)).cast()
    }

    /// # Safety
    /// The header is that of a `Cell<B>` whose runnable the caller holds, and whose body is there. The task is what
    /// runs on this thread (`running::begin`).
    unsafe fn run(header: NonNull<Header>, watched: bool) -> bool {
        // SAFETY: held, and said to run here (`run`), until this function returns.
        let turn = unsafe { Turn::new(header, watched) };
        // SAFETY: the body is there, and ours (the holder's); it is neither moved before it is dropped in place, nor
        // used after. The place is its own, and large enough for either. The turn is that of this task.
        unsafe { B::run(Self::body(header), Self::place(header), &turn) }
    }

    /// # Safety
    /// As for `run`.
    unsafe fn cancel(header: NonNull<Header>) {
        // SAFETY: as in `run`; the header is that of the body's task.
        unsafe { body::cancel(Self::body(header), header) };
    }

    /// # Safety
    /// As for [`drop_outcome`].
    unsafe fn drop_outcome(header: NonNull<Header>) {
        // SAFETY: passed on; the type is that of this table.
        unsafe { drop_outcome::<B::Output>(header) };
    }

    /// # Safety
    /// The header is that of a `Cell<B>`, whose body and result are gone, and which the caller alone refers to.
    unsafe fn free(header: NonNull<Header>) {
        // SAFETY: written by `allocate`, nobody else has it, and this is its end.
        unsafe { header.drop_in_place() };
        // SAFETY: `allocate` had it for this type, and nobody else has it. A thread left the roll when its body was
        // dropped (`Body`), or did not enter it (`Unmade`).
        unsafe { spare::free(Self::KIND, header.cast(), Layout::new::<Self>()) };
    }
}

/// A task with this metadata, held and joined by the caller. `make` makes its body. The metadata is made once its place
/// is known, so that the optimizer makes it there: a copy would be read in other pieces than it was written in, just
/// before, and each such read waits until the writes are in the cache.
#[inline]
pub(super) fn allocate<B: Body>(meta: impl FnOnce() -> Meta, make: impl FnOnce() -> B) -> NonNull<Header> {
    let header = spare::allocate(Cell::<B>::KIND, Layout::new::<Cell<B>>()).cast::<Header>();
    let begin = Header {
        lifecycle: Lifecycle::new(),
        table: const { &Cell::<B>::TABLE },
        meta: meta(),
    };
    // SAFETY: the first member of what there is room for.
    unsafe { header.write(begin) };
    let unmade = Unmade(header);
    // SAFETY: the place of the body, which is ours.
    unsafe { Cell::<B>::body(header).write(make()) };
    std::mem::forget(unmade);
    header
}

/// A thread's place on the roll.
///
/// # Safety
/// The body of this task has the flag `THREAD`, and the task is there for as long as the place is used.
#[inline]
pub(super) unsafe fn roll_place<'task>(header: NonNull<Header>) -> &'task Place {
    // SAFETY: `allocate` had memory of that kind for it.
    let place = unsafe { spare::place_of(header.cast()) };
    // SAFETY: made when the memory came from the allocator, and there until it goes back.
    unsafe { place.as_ref() }
}

/// Frees a task whose body could not be made.
struct Unmade(NonNull<Header>);

impl Drop for Unmade {
    fn drop(&mut self) {
        // SAFETY: it is `allocate`'s alone, and has no body.
        unsafe { free(self.0) };
    }
}

/// What [`run`] has come to.
pub(super) enum Run {
    /// The task was woken meanwhile, and is still the caller's to queue.
    Again,
    /// It waits, or was cancelled, since nobody is left who could wake it.
    Gone,
    /// Its body has gone.
    Finished,
}

/// That a task runs, for its body. It is there while the run lasts.
pub(crate) struct Turn {
    header: NonNull<Header>,
    watched: bool,
}

impl Turn {
    /// # Safety
    /// The caller holds the task, and it is what runs on this thread (`running::begin`), for as long as this lives.
    unsafe fn new(header: NonNull<Header>, watched: bool) -> Self {
        Self { header, watched }
    }

    /// The task's metadata.
    #[inline]
    pub(crate) fn meta(&self) -> &Meta {
        // SAFETY: `new`'s contract: held.
        &unsafe { self.header.as_ref() }.meta
    }

    /// The task, for what ends its body.
    #[inline]
    pub(super) fn header(&self) -> NonNull<Header> {
        self.header
    }

    /// The thread's place on the roll.
    ///
    /// # Safety
    /// The task's body has the flag `THREAD`.
    #[inline]
    pub(crate) unsafe fn roll_place(&self) -> &Place {
        // SAFETY: by our contract, and `new`'s: held.
        unsafe { roll_place(self.header) }
    }

    /// Whether somebody asks the task to stop, by a handle that there was when this run began (E e).
    #[inline]
    pub(crate) fn is_aborted(&self) -> bool {
        self.watched && body::is_aborted(self.meta())
    }

    /// A waker of the task, lent for the run.
    #[inline]
    pub(crate) fn waker(&self) -> Lent<'_> {
        // SAFETY: it is used while `self` is there, and so the task held (`new`).
        Lent(unsafe { waker::lend(self.header) }, PhantomData)
    }

    /// The task is to run again: what to wake it now would come to.
    #[inline]
    pub(crate) fn again(&self) {
        // By `new`'s contract that is the task which runs here.
        running::again();
    }
}

/// See [`Turn::waker`].
pub(crate) struct Lent<'turn>(ManuallyDrop<Waker>, PhantomData<&'turn Turn>);

impl Deref for Lent<'_> {
    type Target = Waker;

    #[inline]
    fn deref(&self) -> &Waker {
        &self.0
    }
}

/// Runs a task once.
///
/// # Safety
/// The caller holds the task's runnable, and gives it up unless the answer is `Again`.
#[inline]
pub(super) unsafe fn run(header: NonNull<Header>) -> Run {
    // SAFETY: what we hold is there.
    let this = unsafe { header.as_ref() };
    let watched = this.lifecycle.begin();
    let broken = AbortOnUnwind;
    // SAFETY: held by our contract; nothing unwinds from here to `end`.
    unsafe { running::begin(header) };
    // SAFETY: we hold the runnable, so the body is there; the table is that of its type. It runs here, as was just
    // said.
    let ended = unsafe { (this.table.run)(header, watched) };
    let woke_itself = running::end();
    std::mem::forget(broken);
    if ended {
        // SAFETY: we hold the task, and the body is gone.
        unsafe { end(header, true) };
        return Run::Finished;
    }
    if woke_itself {
        return Run::Again;
    }
    match this.lifecycle.pause() {
        Pause::Again => Run::Again,
        Pause::Released(_) => Run::Gone,
        Pause::Abandoned => {
            // SAFETY: nobody is left who could wake it, and we still hold it.
            unsafe { cancel(header) };
            Run::Gone
        }
    }
}

/// Drops a task's body without a result.
///
/// # Safety
/// The caller holds the task's runnable, and gives it up.
pub(super) unsafe fn cancel(header: NonNull<Header>) {
    let broken = AbortOnUnwind;
    // SAFETY: held.
    let table = unsafe { header.as_ref() }.table;
    // SAFETY: who holds the runnable finds the body there; the table is that of its type.
    let cancel = || unsafe { (table.cancel)(header) };
    // SAFETY: held until `end`.
    unsafe { running::dropping(header, cancel) };
    std::mem::forget(broken);
    // SAFETY: passed on; the body is gone.
    unsafe { end(header, false) };
}

/// Tells everybody that a task is done.
///
/// # Safety
/// The caller holds the task, whose body is gone; with a result in its place if `outcome`. It gives it up.
unsafe fn end(header: NonNull<Header>, outcome: bool) {
    // SAFETY: held.
    let this = unsafe { header.as_ref() };
    let drop_outcome = || {
        if outcome {
            // SAFETY: in place, and nobody else's (C c).
            unsafe { (this.table.drop_outcome)(header) };
        }
    };
    let tell = || {
        // SAFETY: held: `end` asks for it before it gives anything up. No reference outlasts that.
        body::tell_abort_handles(&unsafe { header.as_ref() }.meta);
    };
    match this.lifecycle.end(outcome, tell) {
        Ended::Released => {}
        Ended::Unshared => {
            drop_outcome();
            // SAFETY: (C e)
            unsafe { free(header) };
        }
        Ended::Unwanted => {
            drop_outcome();
            // SAFETY: still held; the caller's contract.
            unsafe { free_if(header, this.lifecycle.let_go()) };
        }
        Ended::Notify(waker) => {
            // SAFETY: as above.
            unsafe { free_if(header, this.lifecycle.let_go()) };
            quietly(|| waker.wake());
        }
    }
}

/// Frees a task if its word asked for that when the caller gave up a part in it.
///
/// # Safety
/// `then` is the answer to that.
#[inline]
pub(super) unsafe fn free_if(header: NonNull<Header>, then: Then) {
    debug_assert!(
        then != Then::Submit,
        "who lets go of a task that is done does not queue it"
    );
    if then == Then::Free {
        // SAFETY: (C e)
        unsafe { free(header) };
    }
}

/// # Safety
/// The caller alone refers to the task, whose body and result are gone.
unsafe fn free(header: NonNull<Header>) {
    // SAFETY: the caller refers to it.
    let table = unsafe { header.as_ref() }.table;
    // SAFETY: passed on; the table is that of its type.
    unsafe { (table.free)(header) };
}

/// Takes a task's result.
///
/// # Safety
/// The task's body has results of type `T`; one is in its place, and the caller's to take, once.
pub(super) unsafe fn take_outcome<T>(header: NonNull<Header>) -> Outcome<T> {
    // SAFETY: passed on.
    let place = unsafe { outcome_place::<T>(header) };
    // SAFETY: by our contract.
    unsafe { place.read() }
}

/// Where a task's result is.
///
/// # Safety
/// The caller has a part in the task, whose body has results of type `T`.
#[inline]
unsafe fn outcome_place<T>(header: NonNull<Header>) -> NonNull<Outcome<T>> {
    // SAFETY: by our contract it is there.
    let offset = unsafe { header.as_ref() }.table.outcome;
    // SAFETY: its table says how far from the header it is, in the same allocation.
    unsafe { header.byte_add(offset) }.cast()
}

/// Drops a task's result, for the task if the user's code sees that.
///
/// # Safety
/// As for [`take_outcome`]. The task is there until this returns.
#[inline]
pub(super) unsafe fn drop_outcome<T>(header: NonNull<Header>) {
    // SAFETY: passed on.
    let place = unsafe { outcome_place::<T>(header) };
    // SAFETY: by our contract it is there, and ours.
    if unsafe { place.as_ref() }.has_destructor() {
        // SAFETY: passed on.
        unsafe { drop_outcome_of_the_users::<T>(header) };
    }
}

/// Not inlined: most results have no destructor, and who drops one of those needs no frame for it.
///
/// # Safety
/// As for [`drop_outcome`].
#[inline(never)]
unsafe fn drop_outcome_of_the_users<T>(header: NonNull<Header>) {
    // SAFETY: by our contract.
    let drop_it = || drop(unsafe { take_outcome::<T>(header) });
    // SAFETY: by our contract.
    unsafe { running::dropping(header, drop_it) };
}

/// Whether such a body lies right behind its header: unless it, or its result, is aligned to more than that.
pub(super) const fn lies_next<B: Body>() -> bool {
    offset_of!(Cell<B>, stage) == size_of::<Header>()
}

/// Asks for the memory elsewhere that a task needs first when it is run: if it is a user-level thread, the end of its
/// stack.
///
/// # Safety
/// The caller holds the task, whose body is there, and, if the task has the flag `AHEAD`, begins with an address right
/// behind the header.
#[inline]
pub(super) unsafe fn fetch_ahead(header: NonNull<Header>) {
    // SAFETY: held.
    let this = unsafe { header.as_ref() };
    if this.meta.has(AHEAD) {
        // Where it is by the flag, so that the read need not wait for the table.
        debug_assert_eq!(this.table.outcome, size_of::<Header>());
        let body = header.as_ptr().wrapping_byte_add(size_of::<Header>());
        // SAFETY: the body of such a task begins with that word (`Fiber`), and nobody else uses it while we hold the
        // task.
        let stack = unsafe { body.cast::<*const u8>().read() };
        prefetch::bytes::<256>(stack);
    }
}

/// The body and its destructors catch what the user's code throws. If one of ours unwinds all the same, the task would
/// be held for ever.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod oracle;
#[cfg(all(test, not(quadrille_loom)))]
mod tests;
