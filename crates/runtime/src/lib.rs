//! An M:N runtime that places tasks by cache topology.
//!
//! Very many tasks run on one worker a hardware thread. Where a task goes when it is woken, who is woken for it, and
//! where an idle worker looks is decided with knowledge of the machine: groups of at most four hardware threads that
//! share a level-2 cache, last-level caches, NUMA nodes. Nothing else is needed: there is no other runtime underneath.
//!
//! ```
//! #[quadrille::main]
//! async fn main() {
//!     let (tx, rx) = quadrille::sync::mpmc::bounded(16);
//!     quadrille::spawn(async move {
//!         for i in 0..100 {
//!             tx.send(i).await.unwrap();
//!         }
//!     });
//!     let mut sum = 0;
//!     while let Ok(i) = rx.recv().await {
//!         sum += i;
//!     }
//!     assert_eq!(sum, 4950);
//! }
//! ```
//!
//! # Where to begin
//!
//! - [`#[quadrille::main]`](macro@main), or [`Runtime`] and its [`Builder`];
//! - [`spawn`], [`JoinHandle`], [`JoinSet`], [`JoinMap`], [`TaskGroup`], [`task`] for tasks; [`spawn_blocking`] for
//!   what blocks; [`task::spawn_pinned`] and [`task::spawn_local`] for futures that are not `Send`;
//! - [`thread`] for user-level threads, which are written like those of `std::thread` and cost about as much as tasks;
//! - [`net::Server`] for servers; [`CancellationToken`](sync::CancellationToken),
//!   [`TaskTracker`](task::TaskTracker) and [`Runtime::shutdown_timeout`] for an orderly end of other things;
//! - [`select!`], [`join!`] and [`try_join!`] for several futures in one task, [`task_local!`] for values that go with
//!   one;
//! - [`sync`] for channels and locks, [`time`] for timers, [`net`] and [`io`] for descriptors, and [`io::copy`] from
//!   one stream to another;
//! - [`fs`] for files, [`process`] for child processes, [`signal`] for signals;
//! - `docs/from-tokio.md`, `from-smol.md` and `from-std.md` in the repository for programs that come from there;
//! - [`policy::Config`] for the constants of the scheduler, [`metrics`] for its counters, [`topology`] for machines.
//!
//! # HTTP
//!
//! With the feature `hyper`, the module `quadrille::hyper` is the runtime that hyper asks for: [`net::TcpStream`] is a
//! connection as it is, `Executor` spawns tasks, `Timer` sets timers of [`time`], `Io` adapts streams of TLS. axum's
//! `Router` is served the same way, without axum's feature `tokio`; the examples `http_hello`, `json_service` and
//! `https_hello` do it. For `/metrics`: [`Metrics::prometheus`](metrics::Metrics::prometheus).
//!
//! # Promises
//!
//! - No wake-up is lost, whatever the policies answer.
//! - A task that is ready runs: at the latest two sentinel intervals (2 x 500 us) and one task of each worker later, as
//!   long as some worker is free. A task that never yields blocks only its own worker, and what is bound to it. Threads
//!   that have not begun may wait for 10 ms ([`Bind::patience`](policy::Bind::patience)).
//! - Every future, and every result, is dropped exactly once on every path: completion, panic, abort, shutdown.
//! - Dropping a runtime joins its workers; in asynchronous code, be it on a worker or in `block_on`, it neither blocks
//!   nor panics.
//!
//! # Cancel safety
//!
//! Dropping a future before it is ready cancels it. Each method says what that means, in three grades: *strict*
//! (dropping and calling again equals not dropping), *loses X* (it says which variant keeps X), *not safe* (it says why
//! it exists).
//!
//! # Environment
//!
//! `QUADRILLE_WORKERS`, `QUADRILLE_PIN`, `QUADRILLE_POLICY`, and with the feature `io-uring` `QUADRILLE_IO_URING`,
//! override the defaults of [`Builder`]; `QUADRILLE_TRACE=1s` prints one line of counters a second, with the
//! workers that are held up (`stuck=`).
//!
//! # Features
//!
//! `macros` (default): the attributes. `hyper`: the traits of hyper's runtime. `bytes`: methods of sockets and pipes
//! that read into buffers of the crate `bytes`, and write from them (`read_buf` and the like), and `io::read_buf` for
//! what has `AsyncRead` alone. `hwloc`: machines through the C library hwloc. `io-uring`: the module
//! `quadrille::uring`, sockets and files whose operations own their buffers; Linux only, a compile error elsewhere.
//! `decision-log`: for tests, what the policies were asked and answered. `sanitizer`: for builds with AddressSanitizer,
//! which must be told of every switch between stacks.

#[cfg(all(feature = "io-uring", not(target_os = "linux")))]
compile_error!(
    "the feature `io-uring` of quadrille needs Linux: enable it under [target.'cfg(target_os = \"linux\")'.dependencies]"
);

#[cfg(all(doctest, feature = "macros"))]
mod attributes;
mod block_on;
mod blocking;
#[doc(hidden)]
pub mod branches;
mod builder;
#[cfg(test)]
#[cfg_attr(quadrille_loom, expect(dead_code, reason = "most of who needs it isn't modelled"))]
mod child;
pub mod coop;
mod current;
#[cfg_attr(not(feature = "decision-log"), doc(hidden))]
pub mod decisions;
mod error;
pub mod fs;
mod guarded;
#[cfg(feature = "hyper")]
pub mod hyper;
pub mod io;
mod join_set;
mod lines;
pub mod metrics;
pub mod net;
mod panics;
mod pinning;
mod primitives;
pub mod process;
mod reactor;
pub mod runtime;
mod sched;
pub mod signal;
#[cfg(test)]
#[cfg_attr(quadrille_loom, expect(dead_code, reason = "who needs it isn't modelled"))]
mod skipped;
mod stragglers;
mod stress;
pub mod sync;
mod sys;
pub mod task;
pub mod thread;
pub mod time;
mod trace;
mod unpinned;
#[cfg(all(feature = "io-uring", target_os = "linux", not(quadrille_loom)))]
pub mod uring;

pub use builder::Builder;
pub use current::EnterGuard;
pub use error::BuildError;
pub use join_set::{JoinMap, JoinSet};
pub use pinning::{Pinning, PinningError};
pub use quadrille_policy as policy;
pub use quadrille_topology as topology;
#[doc(inline)]
pub use runtime::{Handle, Runtime, spawn, spawn_blocking, worker_index};
pub use stragglers::Stragglers;
pub use task::{JoinHandle, Locality, TaskGroup};
pub use thread::Wait;

#[cfg(feature = "macros")]
pub use quadrille_macros::{main, test};
