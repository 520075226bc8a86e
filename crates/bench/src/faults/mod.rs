//! Servers under faults: connections that break off, in every way that a client has, beside some that behave.
//!
//! The command's process runs an echo server and an HTTP server on quadrille ([`server`]). Another process ([`load`])
//! has a number of connections at any time; what each of them does ([`script`]) comes from a seed: it behaves, resets,
//! half-closes, reads slowly, writes a few bytes at a time, goes away with bytes on their way, goes away at once, or
//! sends what is no HTTP ([`client`]).
//!
//! What is asked ([`verdict`]): whenever all connections are gone, no task of the server lives that did not before the
//! first of them, no descriptor is open that was not; memory does not grow from the first fifth of the time to its end;
//! no task panicked; and who behaved got every byte that it was owed, and no other.
//!
//! ```text
//!  server's process                           the load, `quadrille fault-load`
//!  start servers, start the load      ◄── ready ──  nothing is connected
//!  look: before the first             ──── go ───►  a fifth of the time
//!  wait for what ends, look           ◄── tally ──  nothing is connected any more
//!                                     ──── go ───►  the rest of the time
//!  wait, look, judge                  ◄── tally ──
//! ```

pub mod client;
pub mod load;
pub mod script;
pub mod server;
pub mod verdict;

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A connection over which nothing moves for so long, though something should, hangs; so does a task that lives on for
/// so long. What hangs does so for ever, but beside work of a higher priority a server may have hundredths of a
/// processor for a minute.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The share of the time after which memory is looked at for the first time.
pub const FIRST_PART: u32 = 5;

/// What the load does: the argument of `quadrille fault-load`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Where the echo server is.
    pub echo: SocketAddr,
    /// Where the HTTP server is.
    pub http: SocketAddr,
    /// Connections at a time.
    pub connections: usize,
    /// For how long, in milliseconds, both parts together.
    pub millis: u64,
    /// Decides what each connection does.
    pub seed: u64,
}

impl Order {
    /// How long the two parts are.
    #[must_use]
    pub fn parts(&self) -> [Duration; 2] {
        let all = Duration::from_millis(self.millis);
        [all / FIRST_PART, all - all / FIRST_PART]
    }
}
