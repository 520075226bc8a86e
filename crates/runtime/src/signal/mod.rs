//! Signals of the operating system: [`ctrl_c`], [`termination`], and every other by [`unix`].
//!
//! A listener sees the signals that arrive after it was made. The first listener of a kind takes the signal's default
//! effect away from the process, for good: a program that has listened to `SIGINT` once is no more ended by Ctrl-C,
//! also when nobody listens. So who listens should go on doing so, with one listener made early and kept.
//!
//! # Delivery
//!
//! 1. The handler raises a counter and writes to a pipe; that is all that happens in the context of a signal. There is
//!    one counter and one pipe for each runtime and kind of signal that has listeners; the handler serves all of them,
//!    and whatever else in the process has been registered with `signal-hook-registry`. A handler that was there before
//!    is called first. It runs on the thread's alternate stack, with all other signals blocked but faults: who waits in
//!    it for another signal waits for ever.
//! 2. The pipe becomes readable, and the reactor of the runtime wakes every listener that waits.
//! 3. A listener compares the counter with the one that it has seen last. So signals that arrive before it looks are
//!    *coalesced*: it is told once.
//!
//! No arrival is lost. Any listener that finds the pipe readable empties it, and so takes from the others what would
//! have told them: an edge that is over when the reactor looks is no event. So it tells them itself.
//!
//! ```text
//! handler                  listener that empties           listener that waits
//! ───────                  ─────────────────────           ───────────────────
//! (a) raises the counter   (a') empties the pipe           (c) enters the list of who waits
//! (b) writes to the pipe   (b') wakes who is in the list   (d) waits for the pipe to be readable
//!                                                          (e) reads the counter; sleeps if it is as before
//! ```
//!
//! Say that (e) does not see (a). The byte of (b), or an earlier one if the pipe was too full for it, is in the pipe
//! until some (a') takes it, and that one comes after (a).
//!
//! - It is never taken: the pipe stays readable, which the reactor tells who waits since (d), or (d) finds it. The
//!   readiness that (d) does not find was cleared by an earlier (a'), before (b): the edge of (b) is still to come.
//! - It is taken by (a'), and (b') finds the waiter in the list: it is woken, and looks again.
//! - (b') does not find it, because (c) comes later: by the lock of the list then (e) comes after (a'), so after (a),
//!   and sees it.
//!
//! The losing interleaving without (b'), in a thousand rounds of the test of that many listeners: one listener has seen
//! the counter of the last signal and left its byte; it finds the pipe readable, and empties it of that byte and the
//! next one's; the reactor looks at an empty pipe; the other listener sleeps.
//!
//! # The end of the process
//!
//! End it by returning from `main`. [`std::process::exit`] on another thread first frees the stack on which std has the
//! main thread handle signals: one that arrives there a moment later ends the process by `SIGSEGV` (seen with Rust 1.95
//! on Linux).

mod hub;
mod termination;
pub mod unix;

use std::io;

pub(crate) use self::hub::Hubs;
pub use self::termination::{Termination, termination};
use self::unix::{SignalKind, signal};
use crate::io::hide_error_if_doomed;
use crate::reactor::stopped;

/// Waits for Ctrl-C, which is `SIGINT`.
///
/// Listens from the first poll on; in a loop rather use [`unix::signal`], whose listener also sees what arrives between
/// two waits.
///
/// ```no_run
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// quadrille::signal::ctrl_c().await?;
/// println!("interrupted");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
///
/// # Errors
///
/// The process has no descriptors left, or the runtime shuts down.
///
/// # Panics
///
/// Outside of a runtime, when first polled.
///
/// # Cancel safety
///
/// Loses a signal that arrived since the first poll. A [`Signal`](unix::Signal) keeps it.
pub async fn ctrl_c() -> io::Result<()> {
    match hide_error_if_doomed(signal(SignalKind::interrupt()))
        .await?
        .recv()
        .await
    {
        Some(()) => Ok(()),
        None => Err(stopped()),
    }
}

#[cfg(test)]
mod tests;
