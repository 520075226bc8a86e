//! Child processes: [`Command`] starts one, [`Child`] waits for it and talks with it.
//!
//! As `std::process`, but who waits suspends the task or the user-level thread and not its worker. The end of a child
//! is told by a descriptor of the process (a pidfd) and the reactor. Where the kernel has none, or a filter of system
//! calls forbids them, by `SIGCHLD`, which then is listened to as by [`signal`](crate::signal): a handler that others
//! install by `sigaction` after that, and that doesn't call the one before it, makes [`Child::wait`] wait for ever. A
//! child is killed by that descriptor, too, so that nobody else is hit who has its id by then; without one it is looked
//! at first, and killed by its id. One that was gone before it had a descriptor, because the system or others had
//! waited for it, is neither.
//!
//! A child that nobody has waited for leaves a *zombie* when it ends: an entry in the system's table of processes. So a
//! [`Child`] that is dropped before the end is not forgotten:
//!
//! 1. It is killed, if [`Command::kill_on_drop`] asks for that; else it runs on.
//! 2. If it has ended, that is the end of it. Else a task of its runtime waits for it.
//! 3. Once the runtime has stopped, the child is in a list of the process. The list is looked through whenever a
//!    command starts or a [`Child`] is dropped, in any runtime.
//!
//! A [`Child`] that is kept can still be waited for then: its status if it has ended, and in another runtime its end.
//!
//! Children may run on every CPU that the runtime may use, and have the timer slack of an ordinary thread, also if a
//! worker starts them.
//!
//! ```
//! # quadrille::Runtime::new().unwrap().block_on(async {
//! use quadrille::process::Command;
//!
//! let output = Command::new("echo").arg("hello").output().await?;
//! assert!(output.status.success());
//! assert_eq!(output.stdout, b"hello\n");
//! # std::io::Result::Ok(())
//! # }).unwrap();
//! ```

mod child;
mod command;
mod orphan;
mod pipe;
mod running;

pub use std::process::{ExitStatus, Output, Stdio};

pub use self::child::Child;
pub use self::command::Command;
pub use self::pipe::{ChildStderr, ChildStdin, ChildStdout};

#[cfg(test)]
mod tests;
