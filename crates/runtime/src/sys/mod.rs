//! What the crate asks of the operating system: clocks, threads, sleeping, readiness, memory, faults.
//!
//! **Architecture Invariant:** no other module calls the system or reads a clock.

mod advice;
pub(crate) mod clock;
pub(crate) mod fault;
pub(crate) mod fd;
pub(crate) mod futex;
pub(crate) mod memory;
pub(crate) mod poller;
pub(crate) mod prefetch;
pub(crate) mod process;
#[cfg(all(feature = "io-uring", target_os = "linux", not(quadrille_loom)))]
pub(crate) mod ring;
pub(crate) mod signal;
pub(crate) mod socket;
pub(crate) mod thread;
