//! A machine as a value.
//!
//! **Architecture Invariant:** a topology is a value, not a connection: once read it never looks at the machine again.

#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]

extern crate alloc;

#[cfg(feature = "std")]
mod affinity;
#[cfg(feature = "std")]
mod allowed;
#[cfg(feature = "std")]
mod cgroup;
#[cfg(feature = "std")]
mod discover;
mod distance;
mod error;
mod groups;
#[cfg(feature = "hwloc")]
pub mod hwloc;
mod id;
mod pu_set;
mod synthetic;
#[cfg(feature = "std")]
mod sys;
#[cfg(feature = "std")]
pub mod sysfs;
mod topology;
#[cfg(feature = "std")]
mod warning;

#[cfg(feature = "std")]
pub use affinity::{current_affinity, pin_current_thread, set_current_affinity};
#[cfg(feature = "std")]
pub use allowed::{Allowed, CpuQuota, Roots};
#[cfg(feature = "std")]
pub use discover::{DiscoverOptions, Discovery, Source, discover, discover_with};
pub use distance::Distance;
pub use error::TopologyError;
pub use groups::{GroupSize, Grouping, Groups};
pub use id::{CoreId, GroupId, L2Id, LlcId, NodeId, PuId};
pub use pu_set::PuSet;
pub use topology::{Core, L2, Llc, Node, Pu, PuSpan, Topology};
#[cfg(feature = "std")]
pub use warning::Warning;
