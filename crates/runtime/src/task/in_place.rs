//! Blocking in the middle of a task.

use crate::sched::in_place;

/// Runs `f`, which may block the calling thread of the operating system, while others run what its worker would.
///
/// For a call in the middle of a task or of a user-level thread that blocks, or computes for long, and borrows from its
/// surroundings; else [`spawn_blocking`](crate::spawn_blocking) is the better choice. What is ready on the worker goes
/// to the others. If all workers are in such calls, one thread of the blocking pool runs tasks in their place; if the
/// system refuses it one, not before one of the pool's is out of jobs, or the next such call, which asks again. It is
/// not counted for [`max_blocking_threads`](crate::Builder::max_blocking_threads), so that `f` may wait for the pool.
/// Where tasks that such threads run are in such calls as well, as many threads at most as that says take over from one
/// another.
///
/// Inside of `f` the calling code is on an ordinary thread: [`block_on`](crate::Handle::block_on),
/// [`.wait()`](crate::Wait::wait), [`thread::park`](crate::thread::park) and the locks of
/// [`thread::sync`](crate::thread::sync) block it, in a task as in a user-level thread. The runtime stays the current
/// one, and so do [`thread::current`](crate::thread::current) and what
/// [`quadrille::thread_local!`](crate::thread_local!) declares. What polls in there without a [budget](crate::coop) of
/// its own, as a foreign `block_on`, has no limit. A runtime that is dropped in there, by a task or a future of
/// `block_on`, does not wait for its threads, as elsewhere there. On a thread that is no worker, in a `block_in_place`,
/// and in a destructor that runs while its worker leaves, `f` is only called.
///
/// ```
/// # let runtime = quadrille::Runtime::builder().worker_threads(1).build()?;
/// let (sender, receiver) = std::sync::mpsc::channel();
/// let answer = runtime.block_on(async {
///     quadrille::spawn(async move {
///         quadrille::spawn(async move { sender.send(42).unwrap() });
///         // The only worker waits for a task.
///         quadrille::task::block_in_place(|| receiver.recv().unwrap())
///     })
///     .await
/// });
/// assert_eq!(answer.unwrap(), 42);
/// # Ok::<(), quadrille::BuildError>(())
/// ```
///
/// # What waits all the same
///
/// - User-level threads that are bound to the worker: nobody else may run them. They go on when `f` has returned. While
///   all workers are in such calls, threads that have not started wait, too: for the first that returns.
///   So `block_in_place(|| thread::spawn(|| 1).join())` waits for ever, in silence, once every worker is in one: with
///   one worker at the first call. A user-level thread joins without `block_in_place`, and a task awaits the handle.
///   Where it must be in there, the call waits for a task, or for what runs on no worker:
///
///   ```
///   # use quadrille::task::block_in_place;
///   # use quadrille::{Wait as _, spawn, spawn_blocking, thread};
///   # let runtime = quadrille::Runtime::builder().worker_threads(1).build()?;
///   # let task = runtime.spawn(async {
///   assert_eq!(thread::spawn(|| 1).await.unwrap(), 1);
///   block_in_place(|| {
///       assert_eq!(spawn(async { 1 }).wait().unwrap(), 1);
///       assert_eq!(spawn_blocking(|| 1).wait().unwrap(), 1);
///       assert_eq!(std::thread::spawn(|| 1).join().unwrap(), 1);
///   });
///   # });
///   # runtime.block_on(task).unwrap();
///   # Ok::<(), quadrille::BuildError>(())
///   ```
/// - All that belongs to the same task, as the other branches of a `join!`.
/// - Timers and sockets, while all workers are in such calls, and as many threads as may take over from them are so as
///   well: nobody is left to look after those. If each `f` waits for one of them, as by `sleep(limit).wait()`, all wait
///   for ever; the same with a clock that a test has paused.
/// - The end of the runtime: its workers leave when `f` has returned. No task runs then, and none is dropped before, so
///   `f` must not wait for one that does not come.
///
/// # Cost
///
/// Two uncontended locks, two counts, and what it takes to queue what was ready; if no worker is left, the start of a
/// thread, or waking one. A task that becomes ready while all workers are in such calls waits for up to a sentinel
/// interval (default 500 us).
///
/// # Panics
/// If `f` does.
pub fn block_in_place<R>(f: impl FnOnce() -> R) -> R {
    in_place::block_in_place(f)
}
