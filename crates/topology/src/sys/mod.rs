//! The system calls of this crate, and its only unsafe code: the CPU mask of the calling thread.

#[cfg(any(target_os = "linux", target_os = "android"))]
#[path = "linux.rs"]
mod imp;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[path = "other.rs"]
mod imp;

pub(crate) use imp::{affinity, set_affinity};
