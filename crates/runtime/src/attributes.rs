//! What the compiler says to the attributes; compiled by `cargo test --doc` alone. The messages have their tests in
//! `quadrille-macros`; each refusal here differs in one word from something that compiles.
//!
//! ```
//! #[quadrille::main(worker_threads = 1)]
//! async fn main() {
//!     assert_eq!(quadrille::spawn(async { 42 }).await.unwrap(), 42);
//! }
//! ```
//!
//! The output may be a `Result`, and `?` finds its error type.
//!
//! ```
//! #[quadrille::main(worker_threads = 2, topology = "node:1 llc:2 core:1")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let number: u32 = "42".parse()?;
//!     assert_eq!(number, 42);
//!     Ok(())
//! }
//! ```
//!
//! An argument that isn't known:
//!
//! ```compile_fail
//! #[quadrille::main(flavor = 1)]
//! async fn main() {}
//! ```
//!
//! No workers:
//!
//! ```compile_fail
//! #[quadrille::main(worker_threads = 0)]
//! async fn main() {}
//! ```
//!
//! A function that isn't `async`:
//!
//! ```compile_fail
//! #[quadrille::main(worker_threads = 1)]
//! fn main() {}
//! ```
//!
//! Unless it is to run on a thread; then it must not be. What it returns need not be `Send`.
//!
//! ```
//! use quadrille::Wait as _;
//!
//! #[quadrille::main(thread, worker_threads = 1)]
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let number: u32 = quadrille::spawn(async { "42" }).wait()?.parse()?;
//!     assert_eq!(number, 42);
//!     assert_eq!(quadrille::thread::current().name(), Some("main"));
//!     Ok(())
//! }
//! ```
//!
//! ```compile_fail
//! #[quadrille::main(thread, worker_threads = 1)]
//! async fn main() {}
//! ```
//!
//! A crate that is renamed, or exported again by another one:
//!
//! ```
//! mod framework {
//!     pub use quadrille as runtime;
//! }
//! #[framework::runtime::main(worker_threads = 1, topology = "core:1", crate = framework::runtime)]
//! async fn main() {}
//! ```
//!
//! One that isn't there:
//!
//! ```compile_fail
//! mod framework {
//!     pub use quadrille as runtime;
//! }
//! #[framework::runtime::main(worker_threads = 1, topology = "core:1", crate = framework::runtimes)]
//! async fn main() {}
//! ```
//!
//! Arguments and generic parameters of a function that isn't `main`:
//!
//! ```
//! #[quadrille::main(worker_threads = 1)]
//! async fn total<'a, T: std::iter::Sum<&'a T>>((first, rest): (&'a T, &'a [T]), times: impl Fn(T) -> T + Send) -> T {
//!     let all = std::iter::once(first).chain(rest).sum();
//!     quadrille::task::yield_now().await;
//!     times(all)
//! }
//! assert_eq!(total((&1, &[2, 3]), |sum| 2 * sum), 12);
//! ```
//!
//! `main` itself has none:
//!
//! ```compile_fail
//! #[quadrille::main(worker_threads = 1)]
//! async fn main(arguments: Vec<String>) {}
//! ```
//!
//! Nor has a test:
//!
//! ```compile_fail
//! #[quadrille::test(worker_threads = 1)]
//! async fn test(arguments: Vec<String>) {}
//! ```
//!
//! A method:
//!
//! ```compile_fail
//! struct Program;
//! impl Program {
//!     #[quadrille::main(worker_threads = 1)]
//!     async fn main(&self) {}
//! }
//! fn main() {}
//! ```
