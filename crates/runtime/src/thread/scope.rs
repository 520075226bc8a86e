//! Threads that borrow from the stack of the thread that spawns them, as std's.
//!
//! Sound because [`scope`] does not return, and does not unwind, before each of its threads has dropped its closure and the
//! scope's share of its result (`Packet`): also when the runtime shuts down, when its threads are unwound, and it with them
//! (B c). What a thread borrows is used up to the decrement of `running` in the drop of its packet, and not afterwards.

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread;

use super::fiber::abort;
use super::handle::{Thread, payload};
use super::note::Reason;
use super::spawn::Builder;
use super::suspend::{Frame, Pause, is_cancelled, unwind};
use super::wait::{refuse_on_workers, suspends, wait_for, wait_on};
use crate::error::JoinError;
use crate::primitives::{AtomicBool, AtomicUsize, MutexGuard, Ordering};
use crate::stress::Mutex;
use crate::task;

/// In which threads can be spawned that borrow what outlives it; see [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    data: Arc<Data>,
    /// Invariant over 'scope, so that it can't shrink: what it lends lives exactly so long.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// What a scope and its threads share.
#[derive(Debug)]
struct Data {
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
    fn waiting(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waiting.lock().expect("nothing panics under this lock")
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
            // The lock decides, as between `Token::post` and its thread: either the waker is here, or who stores it looks again.
            let waiting = self.waiting().take();
            if let Some(waker) = waiting {
                waker.wake();
            }
        }
    }

    /// Waits until every thread has ended.
    fn wait(&self) {
        let done = poll_fn(|cx| {
            if self.is_done() {
                return Poll::Ready(());
            }
            let old = self.waiting().replace(cx.waker().clone());
            drop(old);
            if self.is_done() { Poll::Ready(()) } else { Poll::Pending }
        });
        wait_for(done, Pause::Outlasts, Reason::SCOPE);
    }
}

/// Where a scoped thread leaves its result. The thread and its handle share it, and the scope ends after the last of them.
struct Packet<'scope, T> {
    data: Arc<Data>,
    slot: Mutex<Slot<T>>,
    scope: PhantomData<&'scope ()>,
}

/// What has become of a scoped thread.
enum Slot<T> {
    /// It has not ended; in the drop of the packet: it was dropped before it has started.
    Open,
    Ended(thread::Result<T>),
    /// The handle has it.
    Taken,
}

impl<T> Packet<'_, T> {
    fn replace(&self, slot: Slot<T>) -> Slot<T> {
        mem::replace(&mut *self.slot.lock().expect("nothing panics under this lock"), slot)
    }
}

impl<T> Drop for Packet<'_, T> {
    fn drop(&mut self) {
        match self.replace(Slot::Taken) {
            Slot::Taken => {}
            // Ordering: Relaxed; `ended` publishes it.
            Slot::Open => self.data.cancelled.store(true, Ordering::Relaxed),
            Slot::Ended(result) => {
                match &result {
                    Ok(_) => {}
                    // Ordering: Relaxed; as above, for both.
                    Err(payload) if is_cancelled(&**payload) => self.data.cancelled.store(true, Ordering::Relaxed),
                    Err(_) => self.data.panicked.store(true, Ordering::Relaxed),
                }
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(result))) {
                    // It has been reported by the panic hook. Its own destructor might panic as well.
                    mem::forget(payload);
                }
            }
        }
        self.data.ended();
    }
}

/// The closure of a scoped thread, and where its result goes. Dropped in this order: the closure first.
struct Child<'scope, F, T> {
    closure: F,
    packet: Arc<Packet<'scope, T>>,
}

impl<F: FnOnce() -> T, T> Child<'_, F, T> {
    fn run(self) {
        let Self { closure, packet } = self;
        let result = catch_unwind(AssertUnwindSafe(closure));
        let was_open = packet.replace(Slot::Ended(result));
        debug_assert!(matches!(was_open, Slot::Open), "a thread ends once");
    }
}

/// Runs `f`, which may spawn threads that borrow from the caller, and waits for all of them.
///
/// As [`std::thread::scope`], with user-level threads. A user-level thread that calls it is suspended while it waits, an
/// ordinary thread is blocked; that one must have entered a runtime. If the runtime shuts down, the threads of the scope are
/// ended first, and then the thread that waits for them.
///
/// # Panics
/// - If a thread of the scope has panicked and was not joined, once all have ended.
/// - On an ordinary thread, if one was ended by the shutdown of its runtime and was not joined.
/// - In a task, and on a user-level thread that panics: it could not wait.
///
/// ```
/// use quadrille::thread;
///
/// let runtime = quadrille::Runtime::new()?;
/// let sum = runtime.spawn_thread(|| {
///     let numbers = [1, 2, 3];
///     thread::scope(|s| {
///         let first = s.spawn(|| numbers[0]);
///         let rest = s.spawn(|| numbers[1..].iter().sum::<i32>());
///         first.join().unwrap() + rest.join().unwrap()
///     })
/// });
/// assert_eq!(sum.join().unwrap(), 6);
/// # Ok::<(), quadrille::BuildError>(())
/// ```
///
/// What a thread borrows must outlive the scope:
///
/// ```compile_fail
/// quadrille::thread::scope(|s| {
///     let inside = 1;
///     s.spawn(|| assert_eq!(inside, 1));
/// });
/// ```
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    if suspends() {
        // Nor could it be suspended later: `f` runs under `catch_unwind`, so the answer then is that of now.
        assert!(
            !thread::panicking(),
            "a user-level thread can't wait for a scope while it panics"
        );
    } else {
        refuse_on_workers();
    }
    let scope = Scope {
        data: Arc::new(Data {
            running: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            waiting: Mutex::new(None),
        }),
        scope: PhantomData,
        env: PhantomData,
    };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    let unwound = AbortOnDrop;
    scope.data.wait();
    mem::forget(unwound);
    let ends = Frame::takes_up_unwinding();
    let result = result.unwrap_or_else(|payload| resume_unwind(payload));
    if ends {
        unwind();
    }
    // Ordering: Relaxed; published by `ended`, for both.
    assert!(
        !scope.data.panicked.load(Ordering::Relaxed),
        "a thread of this scope has panicked"
    );
    if scope.data.cancelled.load(Ordering::Relaxed) {
        assert!(
            suspends(),
            "a thread of this scope was ended by the shutdown of its runtime"
        );
        // The same is about to happen to the calling thread, or should.
        unwind();
    }
    result
}

/// To unwind while threads borrow from the stack would free what they use.
struct AbortOnDrop;

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        abort("a scope was left while threads borrow from its stack");
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Spawns a thread that may borrow what outlives the scope, on the current runtime.
    ///
    /// # Panics
    /// Outside of a runtime, and if there is no memory for its stack: [`Builder::spawn_scoped`] gives that as an error.
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        Builder::new()
            .spawn_scoped(self, f)
            .expect("no memory for the stack of a user-level thread")
    }

    /// Calls `launch` with a closure that runs `f` and leaves its result with the handle.
    pub(super) fn launch<F, T>(
        &'scope self,
        f: F,
        launch: impl FnOnce(Box<dyn FnOnce() + Send + 'scope>) -> task::JoinHandle<thread::Result<()>>,
    ) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        // Ordering: Relaxed; the scope waits only after `f` has returned, which calls this or waits for who does.
        self.data.running.fetch_add(1, Ordering::Relaxed);
        let packet = Arc::new(Packet {
            data: self.data.clone(),
            slot: Mutex::new(Slot::Open),
            scope: PhantomData,
        });
        let child = Child {
            closure: f,
            packet: packet.clone(),
        };
        ScopedJoinHandle {
            task: launch(Box::new(move || child.run())),
            packet,
        }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Ordering: Relaxed; a snapshot.
        f.debug_struct("Scope")
            .field("running", &self.data.running.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

/// Waits for a thread of a [`scope`] to end, and gives its result. Dropping it leaves that to the scope.
pub struct ScopedJoinHandle<'scope, T> {
    task: task::JoinHandle<thread::Result<()>>,
    packet: Arc<Packet<'scope, T>>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits until the thread has ended; see [`JoinHandle::join`](super::JoinHandle::join).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn join(self) -> thread::Result<T> {
        let id = self.task.id();
        let ended = wait_on(self.task, Reason::join(id));
        let result = match self.packet.replace(Slot::Taken) {
            Slot::Ended(result) => result,
            // It was dropped before it has started.
            Slot::Open | Slot::Taken => return Err(payload(ended.err().unwrap_or_else(|| JoinError::cancelled(id)))),
        };
        result.map_err(|cause| payload(task::join::error(id, cause)))
    }

    /// The thread.
    #[must_use]
    pub fn thread(&self) -> &Thread {
        Thread::of(self.task.meta())
    }

    /// Whether the thread has ended, in whatever way; `join` then returns at once.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle")
            .field("id", &self.task.id())
            .field("finished", &self.is_finished())
            .finish()
    }
}
