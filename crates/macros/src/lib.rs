//! The attribute macros of quadrille: `#[quadrille::main]` and `#[quadrille::test]`.
//!
//! Use them through the `quadrille` crate, which re-exports both under its feature `macros`; the expansion names
//! `::quadrille`, if it isn't told another path.
//!
//! Their arguments are those of [`macro@main`].
//!
//! # Expansion
//!
//! ```ignore
//! #[quadrille::main(worker_threads = 4)]
//! async fn main() -> Result<(), Error> { body }
//!
//! // becomes
//! fn main() -> Result<(), Error> {
//!     async fn main() -> Result<(), Error> { body }
//!     ::quadrille::Runtime::builder()
//!         .worker_threads(4usize)
//!         .build()
//!         .expect("...")
//!         .block_on(main())
//! }
//! ```
//!
//! With `thread`:
//!
//! ```ignore
//! #[quadrille::main(thread)]
//! fn main() -> Result<(), Error> { body }
//!
//! // becomes
//! fn main() -> ExitCode {
//!     fn main() -> Result<(), Error> { body }
//!     let runtime = ::quadrille::Runtime::builder().build().expect("...");
//!     ::quadrille::thread::Builder::new()
//!         .name("main".to_owned())
//!         .stack_size(8 << 20)
//!         .spawn_on(|| main().report(), runtime.handle())
//!         .expect("...")
//!         .join()
//!         .unwrap_or_else(|panic| resume_unwind(panic))
//! }
//! ```
//!
//! The body stays in a function with the signature that was written, so that types are inferred and errors are
//! reported as they would be without the attribute.

#![forbid(unsafe_code)]

mod arguments;
mod expand;

use proc_macro::TokenStream;

use expand::Entry;

/// Runs an `async fn main` on a runtime of its own.
///
/// The function may return anything that a plain `main` may return. It runs on the thread that calls it, as under
/// `Runtime::block_on`, not on a worker; what it spawns runs on workers.
///
/// # Arguments
///
/// | argument | meaning | default |
/// |---|---|---|
/// | `worker_threads = 4` | number of workers, an integer literal from 1 on | what the runtime chooses |
/// | `start_paused = true` | whether the clock is paused from the start; needs one worker, which it then has by default (more are an error) | `false` |
/// | `seed = 7` | what decides the choices that are made by chance, `select!`'s on a worker among them: an integer literal | that of the configuration |
/// | `thread` | a plain `fn` runs on a user-level thread, an `async fn` not: see below | an `async fn` |
/// | `topology = "node:1 llc:2 core:4"` | runs on this synthetic machine instead of the one that is there | the machine |
/// | `crate = framework::quadrille` | where the crate is found, for who renames it or exports it again; also in quotes, as tokio's | `::quadrille` |
///
/// ```ignore
/// #[quadrille::main(worker_threads = 2)]
/// async fn main() {
///     let answer = quadrille::spawn(async { 42 }).await.unwrap();
///     println!("{answer}");
/// }
/// ```
///
/// # Other functions
///
/// It need not be `main`: any free `async fn` becomes a function that runs it on a runtime that is made and
/// dropped by each call. It may have arguments and generic parameters then.
///
/// ```ignore
/// #[quadrille::main]
/// async fn run(options: Options) -> Result<(), Error> { body }
///
/// fn main() -> Result<(), Error> {
///     run(Options::from_arguments())
/// }
/// ```
///
/// # User-level threads
///
/// With `thread` it is a plain `fn` without arguments, which runs on a user-level thread, in blocking style: with
/// `.wait()` where an `async fn` has `.await`. What it returns is reported there, as std does for `main`. Its stack has
/// 8 MiB (a test's 2 MiB), as those of std.
///
/// ```ignore
/// #[quadrille::main(thread)]
/// fn main() -> std::io::Result<()> {
///     let listener = TcpListener::bind("127.0.0.1:7878").wait()?;
///     loop {
///         let (stream, _) = listener.accept().wait()?;
///         thread::spawn(move || serve(stream));
///     }
/// }
/// ```
///
/// # Panics
///
/// The function that it makes panics if the runtime can't be built: a topology string with a wrong token, or no
/// threads to be had. With `thread` also if there is no memory for its stack; and it passes on the thread's own panic.
#[proc_macro_attribute]
pub fn main(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::entry(Entry::Main, arguments.into(), item.into()).into()
}

/// Runs an `async fn` as a test on a runtime of its own. Its arguments are those of [`main`](macro@main).
///
/// With `start_paused = true` it has one worker and a clock that stands while something is ready, and takes the same
/// course each time, whatever tests run beside it: that of its `seed`, if it has one.
///
/// With `thread` it is a plain `fn`, as for [`main`](macro@main).
///
/// Other attributes such as `#[ignore]` and `#[should_panic]` work as on any test, and so does a `Result` as return
/// type. Don't add `#[test]`: the macro does.
///
/// ```ignore
/// #[quadrille::test(topology = "node:1 llc:2 core:4")]
/// async fn answers() {
///     assert_eq!(quadrille::spawn(async { 42 }).await.unwrap(), 42);
/// }
/// ```
///
/// # Panics
///
/// The test fails if the runtime can't be built: a topology string with a wrong token, or no threads to be had.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::entry(Entry::Test, arguments.into(), item.into()).into()
}
