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
//! A function with arguments:
//!
//! ```compile_fail
//! #[quadrille::main(worker_threads = 1)]
//! async fn main(arguments: Vec<String>) {}
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
