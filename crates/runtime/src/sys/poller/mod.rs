//! Waiting for readiness of many descriptors.
//!
//! Linux: an epoll set with an eventfd. Elsewhere, and with `--cfg quadrille_portable`: the crate `polling`. Under the
//! model checker: a list of events beside a condition variable. All in edge mode: an event tells that something has
//! changed, once.

#[cfg(all(target_os = "linux", not(quadrille_loom)))]
#[cfg_attr(
    all(quadrille_portable, not(test)),
    expect(dead_code, reason = "the other one is used")
)]
mod epoll;
#[cfg(quadrille_loom)]
mod modelled;
#[cfg(all(not(quadrille_loom), any(test, quadrille_portable, not(target_os = "linux"))))]
mod portable;

#[cfg(all(target_os = "linux", not(quadrille_portable), not(quadrille_loom)))]
pub(crate) use epoll::{Events, Poller};
#[cfg(quadrille_loom)]
pub(crate) use modelled::{Events, Poller};
#[cfg(all(not(quadrille_loom), any(quadrille_portable, not(target_os = "linux"))))]
pub(crate) use portable::{Events, Poller};

/// Most events that one wait returns; more come with the next.
#[cfg(not(quadrille_loom))]
const EVENTS_MAX: usize = 256;

/// The key of notifications; no source has it.
pub(crate) const NOTIFICATION: u64 = u64::MAX;

/// What a registration wants to hear about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

/// What has become of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// What it was added with.
    pub(crate) key: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The other end is closed, or there is an error to be fetched, or urgent data: an operation that has moved less
    /// than it could have may not be the last one to succeed.
    pub(crate) ended: bool,
}

#[cfg(all(test, not(quadrille_loom)))]
pub(crate) mod tests;
