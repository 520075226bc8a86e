//! What a scope and those who borrow from it share, threads or tasks; below, both are called threads.
//!
//! Sound because [`enter`] does not return, and does not unwind, before each of its threads has dropped its closure and
//! the scope's share of its result (`Packet`): also when the runtime shuts down, when its threads are unwound, its
//! tasks dropped, and it with them (B c). The scope itself is lent as well, to threads that spawn threads: it lies in a
//! frame outside of `enter`. What a thread borrows is used up to the decrement of `running` in the drop of its packet,
//! and not afterwards.

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::thread;

use crate::coop;
use crate::error::JoinError;
use crate::panics::quietly;
use crate::primitives::{AtomicBool, AtomicUsize, MutexGuard, Ordering};
use crate::sched::context::Context;
use crate::sched::waits_for_a_task;
use crate::stress::Mutex;
use crate::sys::fault::abort_with;
use crate::task::Id;
use crate::task::join::error;
use crate::thread::note::Reason;
use crate::thread::suspend::{Frame, Pause, is_cancelled, unwind};
use crate::thread::wait::{refuse_on_workers, suspends, wait_for};

/// What a scope and its threads share.
#[derive(Debug)]
pub(crate) struct Data {
    /// Packets that live: threads that run, and results that their handles have not given out.
    running: AtomicUsize,
    /// A thread has panicked, and nobody has joined it.
    panicked: AtomicBool,
    /// A thread was ended by the shutdown of its runtime, and nobody has joined it.
    cancelled: AtomicBool,
    /// Who waits for the threads to end.
    waiting: Mutex<Option<Waker>>,
}

impl Data {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            running: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            waiting: Mutex::new(None),
        })
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waiting.lock().expect("nothing panics under this lock")
    }

    /// How many have not ended.
    fn running(&self) -> usize {
        // Ordering: Relaxed; a snapshot.
        self.running.load(Ordering::Relaxed)
    }

    /// Whether every thread has ended.
    fn is_done(&self) -> bool {
        // Ordering: Acquire; pairs with the Release in `ended`: what the threads did happens before the scope returns.
        self.running.load(Ordering::Acquire) == 0
    }

    /// A packet is gone. The last touch of what its thread borrowed has come before.
    fn ended(&self) {
        // Ordering: Release; pairs with the Acquire in `is_done`.
        if self.running.fetch_sub(1, Ordering::Release) == 1 {
            // The lock decides, as between `Token::post` and its thread: either the waker is here, or who stores it
            // looks again.
            let waiting = self.waiting().take();
            if let Some(waker) = waiting {
                waker.wake();
            }
        }
    }

    /// For the one who waits: ready when every thread has ended, who is woken then.
    fn poll_done(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        if self.is_done() {
            return Poll::Ready(());
        }
        let old = self.waiting().replace(cx.waker().clone());
        drop(old);
        if self.is_done() {
            return Poll::Ready(());
        }
        waits_for_a_task();
        Poll::Pending
    }

    /// Waits until every thread has ended.
    fn wait(&self) {
        // Also if it has no threads: who makes one after the other gives way.
        let done = poll_fn(|cx| coop::poll_progress(cx, |cx| self.poll_done(cx)));
        wait_for(done, Pause::Outlasts, Reason::SCOPE);
    }
}

/// What a scope is: what it lends, and to whom.
pub(crate) struct Loan<'scope, 'env> {
    pub(crate) data: Arc<Data>,
    /// Invariant over 'scope, so that it can't shrink: what it lends lives exactly so long.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl Loan<'_, '_> {
    pub(crate) fn new() -> Self {
        Self {
            data: Data::new(),
            scope: PhantomData,
            env: PhantomData,
        }
    }
}

impl fmt::Debug for Loan<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("running", &self.data.running())
            .finish_non_exhaustive()
    }
}

/// Where a scoped thread leaves its result. The thread and its handle share it, and the scope ends after the last of
/// them.
pub(crate) struct Packet<'scope, T> {
    data: Arc<Data>,
    slot: Mutex<Slot<T>>,
    scope: PhantomData<&'scope ()>,
}

/// What has become of a scoped thread.
enum Slot<T> {
    /// It has not ended; in the drop of the packet: it was dropped before it has started, or, a task, before it was
    /// ready.
    Open,
    /// The same, or it was unwound for that: it was asked to stop.
    Aborted,
    Ended(thread::Result<T>),
    /// The handle has it.
    Taken,
}

impl<'scope, T> Packet<'scope, T> {
    /// For one more of the scope, which holds it until what it borrows has been dropped.
    pub(crate) fn new(data: &Arc<Data>) -> Arc<Self> {
        // Ordering: Relaxed; the scope waits only after its closure has returned, which calls this or waits for who
        // does.
        data.running.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self {
            data: data.clone(),
            slot: Mutex::new(Slot::Open),
            scope: PhantomData,
        })
    }

    /// That it is dropped is not to be the scope's concern any more.
    pub(crate) fn forgive(&self) {
        let mut slot = self.slot.lock().expect("nothing panics under this lock");
        if matches!(*slot, Slot::Open) {
            *slot = Slot::Aborted;
        }
    }

    /// Leaves the result.
    pub(crate) fn put(&self, result: thread::Result<T>) {
        let is_unwound = result.as_ref().is_err_and(|payload| is_cancelled(&**payload));
        let mut slot = self.slot.lock().expect("nothing panics under this lock");
        debug_assert!(matches!(*slot, Slot::Open | Slot::Aborted), "it ends once");
        // Nothing of what was there needs to be dropped. A payload that says no more than that it was asked to stop is
        // dropped by the caller, outside of the lock.
        if !(is_unwound && matches!(*slot, Slot::Aborted)) {
            *slot = Slot::Ended(result);
        }
    }

    /// Takes the result for the handle of the thread `id`, which has `ended` so.
    ///
    /// # Errors
    /// That of its panic; it was dropped before it was ready, or has started.
    pub(crate) fn take<R>(&self, id: Id, ended: Result<R, JoinError>) -> Result<T, JoinError> {
        match self.replace(Slot::Taken) {
            Slot::Ended(result) => result.map_err(|cause| error(id, cause)),
            Slot::Open | Slot::Aborted | Slot::Taken => Err(ended.err().unwrap_or_else(|| JoinError::cancelled(id))),
        }
    }

    /// Puts something else into its slot.
    fn replace(&self, slot: Slot<T>) -> Slot<T> {
        mem::replace(&mut *self.slot.lock().expect("nothing panics under this lock"), slot)
    }
}

impl<T> Drop for Packet<'_, T> {
    fn drop(&mut self) {
        match self.replace(Slot::Taken) {
            Slot::Taken | Slot::Aborted => {}
            // Ordering: Relaxed; `ended` publishes it.
            Slot::Open => self.data.cancelled.store(true, Ordering::Relaxed),
            Slot::Ended(result) => {
                match &result {
                    Ok(_) => {}
                    // Ordering: Relaxed; as above, for both.
                    Err(payload) if is_cancelled(&**payload) => self.data.cancelled.store(true, Ordering::Relaxed),
                    Err(_) => self.data.panicked.store(true, Ordering::Relaxed),
                }
                quietly(|| drop(result));
            }
        }
        self.data.ended();
    }
}

/// Runs `f`, and then waits for all who have a packet. What `f` lends them lives outside of `f`, in the frame of the
/// caller: they use it when `f` has long returned.
///
/// # Panics
/// See [`scope`](super::scope).
#[track_caller]
pub(crate) fn enter<T>(words: Words, data: &Data, f: impl FnOnce() -> T) -> T {
    if !suspends() {
        refuse_on_workers();
    }
    let result = catch_unwind(AssertUnwindSafe(f));
    let unwound = AbortOnDrop;
    data.wait();
    mem::forget(unwound);
    let ends = Frame::takes_up_unwinding();
    let result = result.unwrap_or_else(|payload| resume_unwind(payload));
    if ends {
        unwind();
    }
    // Ordering: Relaxed; published by `ended`, for both.
    if data.panicked.load(Ordering::Relaxed) {
        words.panicked();
    }
    if data.cancelled.load(Ordering::Relaxed) {
        // The same is about to happen to the calling thread, unless it belongs to another runtime than those of the
        // scope.
        let stops = Context::with(|context| context.is_some_and(|context| context.shared.sleepers.is_stopping()));
        if !suspends() || !stops {
            words.ended();
        }
        // Where it happens already this is a destructor, out of which nothing may unwind.
        if !Frame::is_in_destructor() {
            unwind();
        }
    }
    result
}

/// What those are called who borrow.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Words {
    Threads,
    Tasks,
}

impl Words {
    // Literals, so that a payload is a `&str`, as of most panics.
    #[cold]
    #[track_caller]
    fn panicked(self) -> ! {
        match self {
            Self::Threads => panic!("a thread of this scope has panicked"),
            Self::Tasks => panic!("a task of this scope has panicked"),
        }
    }

    #[cold]
    #[track_caller]
    fn ended(self) -> ! {
        match self {
            Self::Threads => panic!("a thread of this scope was ended by the shutdown of its runtime"),
            Self::Tasks => panic!("a task of this scope was ended by the shutdown of its runtime"),
        }
    }
}

/// To unwind while threads borrow from the stack would free what they use.
struct AbortOnDrop;

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        abort_with(format_args!("a scope was left while threads borrow from its stack"));
    }
}

#[cfg(all(test, quadrille_loom))]
mod loom {
    use super::*;
    use crate::primitives::UnsafeCell;
    use crate::thread::sync::loom::block_on;

    /// What a scope lends: a number for each of two threads.
    type Frame = [UnsafeCell<u32>; 2];

    /// Two threads write what they borrow, and end; one of them has panicked. Who waits for both reads what they have
    /// written, and learns of the panic.
    #[test]
    fn scope_ends_after_who_borrows() {
        ::loom::model(|| {
            let data = Data::new();
            let frame: Arc<Frame> = Arc::default();
            let threads = [0, 1].map(|index| {
                let (packet, frame) = (Packet::new(&data), Arc::clone(&frame));
                ::loom::thread::spawn(move || {
                    // SAFETY: nobody else uses it before the scope ends, which is what the model is about.
                    frame[index].with_mut(|number| unsafe { *number = 1 });
                    packet.put(if index == 0 { Ok(()) } else { Err(Box::new("panicked")) });
                    drop(packet);
                })
            });
            block_on(poll_fn(|cx| data.poll_done(cx)));
            for number in &*frame {
                // SAFETY: the threads have ended.
                assert_eq!(number.with(|number| unsafe { *number }), 1);
            }
            // Ordering: Relaxed; as in `enter`.
            assert!(data.panicked.load(Ordering::Relaxed));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}
