//! The body of a user-level thread, each run of which resumes a coroutine.
//!
//! | state | is | may move between OS threads | dropped by |
//! |---|---|---|---|
//! | fresh | the closure, and a stack that will be there | yes | anyone |
//! | started | the coroutine on its stack | no (B) | its owner, which unwinds it |
//!
//! The first run takes the stack and makes the coroutine; the runner has set `BOUND` before (B a). What is on the stack
//! need not be `Send`: it never leaves its OS thread. Nothing is published before `run` has returned to the worker's
//! stack.

use std::mem::{self, ManuallyDrop, size_of};
use std::ptr::{self, NonNull};
use std::thread;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::rarely::Rarely;
use super::stack::{self, Lent, Occupant, Reservation, Stack};
use super::suspend::{Aside, Frame, Input, Pause, Resumption, Suspension};
use crate::current;
use crate::current::Entered;
use crate::panics::quietly;
use crate::sched::context::Context;
use crate::sys::fault::abort_with;
use crate::task::Meta;
use crate::task::body::{self, Body, Outcome, is_aborted};
use crate::task::cell::Turn;
use crate::task::meta::{BOUND, READY, THREAD};

/// The body of a user-level thread that runs a closure `F` to its result `T`. Once it has started it is dropped by
/// `discard`, which unwinds what is suspended.
#[repr(C)]
pub(super) struct Fiber<F, T> {
    /// How far its stack is used while it is suspended; null before. First, so that who queues it knows what to fetch
    /// ahead (`task::cell`).
    stack_pointer: *const u8,
    state: State<F, T>,
}

enum State<F, T> {
    Fresh {
        closure: F,
        reservation: Reservation,
    },
    /// In the middle of `begin`.
    Starting,
    Started(Started<T>),
}

// SAFETY: a fresh fiber holds the closure, which is Send, and a reservation, which is. A started one holds a coroutine
// whose stack may hold what is not: that is run and dropped by its owner's OS thread alone (B), and may lie in memory
// that others free only when it has ended. Of its pointers the stack pointer is for prefetching only, the owner is
// compared only, and the occupant's name, which belongs to the metadata of the same task, is handed to the kernel only.
unsafe impl<F: Send, T: Send> Send for Fiber<F, T> {}

impl<F: FnOnce() -> T, T> Fiber<F, T> {
    /// The body of a thread that has not started.
    ///
    /// # Safety
    /// What `closure` borrows is there until the fiber is dropped.
    pub(super) unsafe fn new(closure: F, reservation: Reservation) -> Self {
        const { assert!(std::mem::offset_of!(Self, stack_pointer) == 0) };
        debug_assert!(is_moved::<F>(), "larger ones go by way of the heap");
        Self {
            stack_pointer: ptr::null(),
            state: State::Fresh { closure, reservation },
        }
    }

    /// Starts the thread, with the worker that becomes its owner, unless it is to unwind.
    #[cold]
    fn begin(&mut self, context: &Context, turn: &Turn) {
        let meta = turn.meta();
        if context.unwinding.get() || is_aborted(meta) {
            return;
        }
        let (closure, reservation) = self.state.take_fresh();
        debug_assert!(meta.has(BOUND), "the runner binds it first (B a)");
        debug_assert!(ptr::eq(&*context.shared, meta.scheduler()));
        // SAFETY: that of our task, whose flag is ours.
        unsafe { turn.roll_place() }.begins(context.id);
        let name = meta.extras().and_then(|extras| extras.name.as_deref());
        // What would have to be dropped if something below unwound would have to lie in memory until then. Nothing
        // does; if it did all the same the stack would be lost, and the process end (`AbortOnUnwind` in `task::cell`).
        let occupant = ManuallyDrop::new(Occupant::new(context.stacks.take(reservation), name));
        // SAFETY: the metadata is that of our task, and what the closure borrows is there by the contract of `new`. The
        // stack is new and lent here alone, and `Started` drops it after the coroutine.
        let coroutine = unsafe { begin(occupant.stack(), NonNull::from(meta), closure) };
        let started = State::Started(Started {
            coroutine,
            owner: NonNull::from(context),
            entered: Rarely::new(),
            ground: Ground(occupant),
        });
        // SAFETY: ours to write. What is there, `Starting`, has nothing to drop.
        unsafe { ptr::write(&raw mut self.state, started) };
    }
}

impl<F, T> State<F, T> {
    /// What a fresh one holds; it is `Starting` then. Taken out by itself: the whole is as large as what it becomes.
    ///
    /// # Panics
    /// If it is not fresh: a thread starts once.
    #[inline(always)]
    fn take_fresh(&mut self) -> (F, Reservation) {
        let Self::Fresh { closure, reservation } = self else {
            unreachable!("a thread starts once");
        };
        // SAFETY: it is there, and forgotten below.
        let closure = unsafe { ptr::read(closure) };
        // SAFETY: as above.
        let reservation = unsafe { ptr::read(reservation) };
        // SAFETY: ours to write. What was there has been taken out.
        unsafe { ptr::write(self, Self::Starting) };
        (closure, reservation)
    }
}

// SAFETY: what the closure throws is caught on its own stack (`Frame::run`), all else by `end`, which writes `place`,
// last of all. A thread that is pending has a waker in its frame (`Frame::enter_list`). It begins with `stack_pointer`.
unsafe impl<F: FnOnce() -> T, T> Body for Fiber<F, T> {
    type Output = thread::Result<T>;
    const FLAGS: u8 = THREAD;
    const BEGINS_WITH_ADDRESS: bool = true;

    #[inline]
    unsafe fn run(this: *mut Self, place: *mut Outcome<Self::Output>, turn: &Turn) -> bool {
        // SAFETY: it is there, and the caller's.
        let fiber = unsafe { &mut *this };
        let is_first = !matches!(fiber.state, State::Started(_));
        if is_first {
            Context::with(|context| fiber.begin(context.unwrap_or_else(|| misplaced()), turn));
        }
        let State::Started(started) = &mut fiber.state else {
            // Bound, and not begun (B c), or aborted. The closure is dropped where a panic of that is caught.
            // SAFETY: passed on; the reference is not used any more.
            unsafe { body::end(this, place, turn, Err(None)) };
            return true;
        };
        // In one place for the first run and all others: a frame more between here and the switch would be left wrongly
        // predicted.
        let waker;
        let input = if is_first {
            waker = turn.waker();
            Some(NonNull::from(&*waker))
        } else {
            (!started.unwinds(turn)).then(NonNull::dangling)
        };
        match started.resume(input, turn.meta()) {
            CoroutineResult::Yield(suspension) => {
                fiber.suspended(suspension, input.is_none(), turn);
                false
            }
            CoroutineResult::Return(result) => {
                // SAFETY: passed on; the reference is not used any more. The stack, of which nothing is in use any
                // more, goes with it.
                unsafe { body::end(this, place, turn, Ok(result)) };
                true
            }
        }
    }

    #[inline]
    unsafe fn discard(this: *mut Self, meta: &Meta) {
        // SAFETY: it is there, and the caller's.
        match unsafe { &mut (*this).state } {
            State::Started(started) if !started.coroutine.done() => started.unwind(meta),
            _ => {}
        }
        // SAFETY: as above; nobody uses it after this.
        unsafe { this.drop_in_place() };
    }
}

impl<F: FnOnce() -> T, T> Fiber<F, T> {
    #[inline(always)]
    fn suspended(&mut self, suspension: Suspension, unwinds: bool, turn: &Turn) {
        self.stack_pointer = suspension.stack_pointer();
        let goes_on = match suspension.pause() {
            Pause::GivesWay => true,
            // It has caught what unwound it, and waits for something else: nobody would wake it to be told again.
            Pause::Waits => unwinds && turn.is_aborted(),
            Pause::Outlasts => false,
        };
        if goes_on {
            turn.again();
        }
    }
}

/// What runs on a stack.
type Switched<T> = Coroutine<Input, Suspension, thread::Result<T>, Lent>;

/// Closures up to this size are moved to the new stack as they are, bytes; corosensei takes 1024. Larger ones go by way
/// of the heap, from the start: without optimizations a task's body is copied a dozen times on the worker's stack
/// before it runs.
const CLOSURE_MAX: usize = 512;

/// Whether a closure is moved as it is: what it needs on the new stack is its size, and the pointer beside it, rounded
/// up to its alignment, which one without a size may have as well.
pub(super) const fn is_moved<F>() -> bool {
    size_of::<F>() <= CLOSURE_MAX && align_of::<F>() <= CLOSURE_MAX
}

/// A coroutine that will run `closure`.
///
/// # Safety
/// - `meta` is that of the task whose body the coroutine becomes part of;
/// - what `closure` borrows is there until the coroutine has ended;
/// - the stack is lent to nobody else, and dropped or given back after the coroutine is dropped.
unsafe fn begin<F: FnOnce() -> T, T>(stack: &Stack, meta: NonNull<Meta>, closure: F) -> Switched<T> {
    let body = move |yielder: &Yielder<Input, Suspension>, input| {
        // SAFETY: the yielder and the first input of this very coroutine; `meta` by our contract.
        let frame = unsafe { Frame::new(yielder, input, meta) };
        frame.run(closure)
    };
    // SAFETY: by our contract, for the one coroutine that is made below.
    let stack = unsafe { stack.lend() };
    // SAFETY: what the closure borrows is there by our contract.
    unsafe { Coroutine::with_stack_unchecked(stack, body) }
}

/// A thread with a stack. What each turn needs comes first, so that it lies in few cache lines.
#[repr(C)]
struct Started<T> {
    /// Dropped before `ground`, which lends it its stack: fields go in their order.
    coroutine: Switched<T>,
    /// The worker that alone may use what is here. Never dereferenced.
    owner: NonNull<Context>,
    /// The runtimes that it has entered and not left, while it is suspended.
    entered: Rarely<Entered>,
    ground: Ground,
}

/// The stack of a thread that has started, until `drop` takes it: a worker gets it back, else the first LLC.
struct Ground(ManuallyDrop<Occupant>);

impl Drop for Ground {
    fn drop(&mut self) {
        // SAFETY: this is its end.
        let stack = unsafe { ManuallyDrop::take(&mut self.0) }.into_stack();
        Context::with(|context| match context {
            Some(context) => context.stacks.give_back(stack),
            None => drop(stack),
        });
    }
}

impl<T> Started<T> {
    /// Switches to the stack until it is suspended or ends. For the owner alone.
    #[inline(always)]
    fn resume(&mut self, input: Input, meta: &Meta) -> CoroutineResult<Suspension, thread::Result<T>> {
        let _resumption = Resumption::new();
        meta.clear(READY);
        // SAFETY: the guard goes at the end of this function, and the occupant stays where it is until then.
        let _entered = unsafe { stack::enter(&self.ground.0) };
        let depth = current::depth();
        if !self.entered.is_empty() {
            current::resume(mem::take(&mut *self.entered));
        }
        // Each way by itself: in one, what it has come to lay in memory in between (22 instructions a yield, 28 a
        // thread; callgrind).
        match self.coroutine.resume(input) {
            CoroutineResult::Yield(suspension) => {
                self.leave_above(depth);
                CoroutineResult::Yield(suspension)
            }
            CoroutineResult::Return(result) => {
                self.leave_above(depth);
                CoroutineResult::Return(result)
            }
        }
    }

    /// Leaves the runtimes that the thread has entered and not left, until it is resumed, or dropped if it has ended.
    #[inline(always)]
    fn leave_above(&mut self, depth: usize) {
        if current::depth() > depth {
            *self.entered = current::suspend_above(depth);
        }
    }

    /// (B) Whatever else has gone wrong: a started stack is not touched on another OS thread. The calling thread's
    /// worker.
    #[inline(always)]
    fn with_owner<R>(&self, f: impl FnOnce(&Context) -> R) -> R {
        Context::with(|context| {
            // One comparison: there is no owner at address 0.
            let owner = context.filter(|context| NonNull::from(*context) == self.owner);
            f(owner.unwrap_or_else(|| misplaced()))
        })
    }

    /// Whether it shall unwind. One look a turn: who aborts the thread later has woken it for the next.
    #[inline(always)]
    fn unwinds(&self, turn: &Turn) -> bool {
        self.with_owner(|context| context.unwinding.get() || turn.is_aborted())
    }

    /// Drops what is on the stack, by unwinding it. No started thread is dropped otherwise than by its end as things
    /// are: the owner's list has a reference to its task until then. This is for whatever drops one all the same.
    #[cold]
    fn unwind(&mut self, meta: &Meta) {
        self.with_owner(|_| ());
        // It may be dropped on another thread's stack.
        let _aside = (Aside::new(), stack::leave());
        loop {
            match self.resume(None, meta) {
                CoroutineResult::Yield(suspension) => match suspension.pause() {
                    // It has caught what unwinds it, and waits again.
                    Pause::Waits | Pause::GivesWay => {}
                    Pause::Outlasts => abort_with(format_args!(
                        "a user-level thread was dropped while others borrow from its stack"
                    )),
                },
                CoroutineResult::Return(result) => {
                    quietly(|| drop(result));
                    return;
                }
            }
        }
    }
}

#[cold]
fn misplaced() -> ! {
    abort_with(format_args!(
        "a started user-level thread is run or dropped away from its worker"
    ))
}
