//! What the compiler refuses; compiled by `cargo test --doc` alone. Each refusal differs in little from something that
//! compiles.
//!
//! The closure of a pinned task crosses over to another OS thread; what it makes need not.
//!
//! ```
//! # let runtime = quadrille::Runtime::new().unwrap();
//! let task = runtime.handle().spawn_pinned(|| async {
//!     let inside = std::rc::Rc::new(1);
//!     quadrille::task::yield_now().await;
//!     *inside
//! });
//! assert_eq!(runtime.block_on(task).unwrap(), 1);
//! ```
//!
//! A closure that is not `Send`:
//!
//! ```compile_fail,E0277
//! # let runtime = quadrille::Runtime::new().unwrap();
//! let outside = std::rc::Rc::new(1);
//! runtime.handle().spawn_pinned(move || async move { *outside });
//! ```
//!
//! A result that is not `Send`, which may be joined elsewhere:
//!
//! ```compile_fail,E0277
//! # let runtime = quadrille::Runtime::new().unwrap();
//! runtime.handle().spawn_pinned(|| async { std::rc::Rc::new(1) });
//! ```
//!
//! That of a local task may be so, and then its handle stays where it is:
//!
//! ```compile_fail,E0277
//! let handle = quadrille::task::spawn_local(async { std::rc::Rc::new(1) });
//! std::thread::spawn(move || drop(handle));
//! ```
//!
//! ```no_run
//! let handle = quadrille::task::spawn_local(async { std::sync::Arc::new(1) });
//! std::thread::spawn(move || drop(handle));
//! ```
//!
//! Nor may it be kept by a task that goes elsewhere:
//!
//! ```compile_fail
//! quadrille::spawn(async {
//!     let handle = quadrille::task::spawn_local(async { std::rc::Rc::new(1) });
//!     handle.await.unwrap();
//! });
//! ```
//!
//! A local task that borrows from its spawner, which may end first:
//!
//! ```compile_fail,E0373
//! let numbers = [1, 2, 3];
//! quadrille::task::spawn_local(async { numbers.len() });
//! ```
