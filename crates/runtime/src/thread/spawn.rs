//! How threads are made.

use std::io;
use std::mem::size_of;
use std::sync::Arc;

use super::fiber::{self, Fiber};
use super::handle::JoinHandle;
use super::scope::{Scope, ScopedJoinHandle};
use super::stack::Reservation;
use crate::guarded::guarded;
use crate::runtime::{Handle, Runtime, spawn_unchecked, with_current};
use crate::sched::Shared;
use crate::sched::context::Context;
use crate::task::group::{Member, Set};
use crate::task::spawn::Options;
use crate::task::{self, TaskGroup};

/// Spawns a user-level thread on the current runtime; see [`Handle::spawn_thread`].
///
/// # Panics
/// Outside of a runtime, and if there is no memory for its stack: [`Builder::spawn`] gives that as an error.
///
/// ```
/// # let runtime = quadrille::Runtime::new().unwrap();
/// # let _guard = runtime.enter();
/// let thread = quadrille::thread::spawn(|| 6 * 7);
/// assert_eq!(thread.join().unwrap(), 42);
/// ```
#[track_caller]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Builder::new().spawn(f).expect(NO_STACK)
}

/// What is said where the want of memory is no error.
const NO_STACK: &str = "no memory for the stack of a user-level thread";

impl Handle {
    /// Spawns a user-level thread that runs `f`. It starts at once, whether or not the handle is joined; dropping the
    /// handle detaches it.
    ///
    /// It is placed like a task, and bound to the worker that runs it first. On a runtime that has shut down `f` is
    /// dropped, and the handle says so. Name and size of the stack: [`Builder`].
    ///
    /// # Panics
    /// If there is no memory for its stack: [`Builder::spawn_on`] gives that as an error.
    #[track_caller]
    pub fn spawn_thread<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        Builder::new().spawn_on(f, self).expect(NO_STACK)
    }
}

impl Runtime {
    /// Spawns a user-level thread; see [`Handle::spawn_thread`].
    ///
    /// # Panics
    /// If there is no memory for its stack.
    #[track_caller]
    pub fn spawn_thread<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.handle().spawn_thread(f)
    }
}

/// Makes threads with a name, or a stack of another size than the default.
///
/// ```
/// # let runtime = quadrille::Runtime::new().unwrap();
/// # let _guard = runtime.enter();
/// let thread = quadrille::thread::Builder::new()
///     .name("answer".to_owned())
///     .stack_size(64 * 1024)
///     .spawn(|| 6 * 7)?;
/// assert_eq!(thread.thread().name(), Some("answer"));
/// # thread.join().unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until it spawns"]
pub struct Builder {
    name: Option<String>,
    stack_size: Option<usize>,
    group: Option<TaskGroup>,
}

impl Builder {
    /// A builder of threads without a name, with stacks of the size that the runtime has for them, by default 256 KiB.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the thread; shown by [`Thread::name`](super::Thread::name), in the report of a stack overflow, and by
    /// [`Handle::threads`]. Costs two allocations, and an entry in a table under a lock.
    pub fn name(mut self, name: String) -> Self {
        self.name = Some(name);
        self
    }

    /// Size of the thread's stack in bytes, rounded up to a power of two; default that of the runtime
    /// ([`user_thread_stack_size`](crate::Builder::user_thread_stack_size)), 256 KiB (262144). Memory is used only as
    /// far as the stack is. What the closure and its result need is added if they are large. Results of tens of
    /// kilobytes are better boxed: built without optimizations, a task with one of 50 kB overflows the 2 MiB of its
    /// worker's own stack. So are futures of tens of kilobytes that the thread spawns or waits for: without
    /// optimizations each call on their way to where they stay has a copy on its stack, and to spawn one of 20 kB
    /// overflows 256 KiB. `spawn(Box::pin(future))`.
    pub fn stack_size(mut self, size: usize) -> Self {
        self.stack_size = Some(size);
        self
    }

    /// Makes it a thread of `group`: of the same coupling set as the group's tasks, with what the group says about
    /// locality and footprint. By default it belongs to the set of whoever spawns it.
    ///
    /// ```
    /// use quadrille::{TaskGroup, thread};
    ///
    /// # let runtime = quadrille::Runtime::new().unwrap();
    /// # let _guard = runtime.enter();
    /// let shard = TaskGroup::new().footprint(256 * 1024);
    /// let thread = thread::Builder::new().group(&shard).spawn(|| 6 * 7)?;
    /// let task = shard.spawn(async { 6 * 7 });
    /// # drop(task);
    /// assert_eq!(thread.join().unwrap(), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn group(mut self, group: &TaskGroup) -> Self {
        self.group = Some(group.clone());
        self
    }

    /// Spawns a thread on the current runtime.
    ///
    /// # Errors
    /// If there is no stack for it: `OutOfMemory` if the system gives no memory, or, where guard pages take mappings,
    /// no more of them (`vm.max_map_count`, which the error names); `InvalidInput` if it would be larger than 1 GiB.
    ///
    /// # Panics
    /// Outside of a runtime.
    #[track_caller]
    pub fn spawn<F, T>(mut self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        with_current(|shared| self.spawn_in(shared, f))
    }

    /// Spawns a thread on the runtime behind `handle`.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    pub fn spawn_on<F, T>(mut self, f: F, handle: &Handle) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_in(&handle.shared, f)
    }

    // By reference, as what follows: a builder is copied in other pieces than it was just written in, which waits for
    // the cache.
    fn spawn_in<F, T>(&mut self, shared: &Arc<Shared>, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.enter_group(shared) {
            None => self.spawn_of_set(shared, None, f),
            Some((set, member)) => self.spawn_of_set(shared, Some(set), guarded(f, member)),
        }
    }

    /// One more thread of its group, if it has one.
    fn enter_group(&self, shared: &Shared) -> Option<(Set, Member)> {
        self.group.as_ref().map(|group| group.enter(shared))
    }

    fn spawn_of_set<F, T>(&mut self, shared: &Arc<Shared>, set: Option<Set>, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let reservation = self.reserve::<F, T>(shared)?;
        let task = if fiber::is_moved::<F>() {
            // SAFETY: the closure and its result are 'static.
            unsafe { self.launch(set, f, reservation, shared) }
        } else {
            // SAFETY: as above.
            unsafe { self.launch(set, Box::new(f), reservation, shared) }
        };
        Ok(JoinHandle::new(task))
    }

    /// Spawns a thread that may borrow what outlives `scope`, on the current runtime; see [`scope`](super::scope()).
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    ///
    /// # Panics
    /// Outside of a runtime.
    #[track_caller]
    pub fn spawn_scoped<'scope, 'env, F, T>(
        mut self,
        scope: &'scope Scope<'scope, 'env>,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        with_current(|shared| {
            let reservation = self.reserve::<F, T>(shared)?;
            let (set, member) = self.enter_group(shared).unzip();
            // SAFETY: what the closure borrows is there for 'scope, and the scope does not end before the closure, with
            // all that belongs to its result, is dropped (`Packet`).
            Ok(scope.launch(guarded(f, member), |f| unsafe {
                self.launch(set, f, reservation, shared)
            }))
        })
    }

    /// Makes sure that there will be a stack.
    fn reserve<F, T>(&self, shared: &Arc<Shared>) -> io::Result<Reservation> {
        let size = self.stack_size.unwrap_or(shared.stacks.default_size());
        let size = size.saturating_add(large::<F, T>());
        Context::with(
            |context| match context.filter(|context| Arc::ptr_eq(&context.shared, shared)) {
                Some(context) => context.stacks.reserve(size),
                None => shared.stacks.reserve(0, size),
            },
        )
    }

    /// Spawns the task whose body is the thread.
    ///
    /// # Safety
    /// What `f` and its result borrow is there until both are dropped.
    unsafe fn launch<F, T>(
        &mut self,
        set: Option<Set>,
        f: F,
        reservation: Reservation,
        shared: &Arc<Shared>,
    ) -> task::JoinHandle<std::thread::Result<T>>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let options = Options {
            name: self.name.take().map(String::into_boxed_str),
            set,
            ..Options::default()
        };
        // SAFETY: what it borrows is there by our contract.
        let make = || unsafe { Fiber::new(f, reservation) };
        // SAFETY: by our contract.
        unsafe { spawn_unchecked(shared, options, make) }
    }
}

/// What a closure and its result take of a stack beside what the closure does there, if that is much: each is moved
/// there, and from frame to frame, by way of copies, about a dozen without optimizations.
const fn large<F, T>() -> usize {
    let both = size_of::<F>() + size_of::<T>();
    if both > 4096 { 16 * both } else { 0 }
}
