//! A machine as a value: which hardware threads there are, and what they share.
//!
//! ```text
//! machine
//! └─ node               hardware threads with memory of their own; a matrix of distances between nodes
//!    └─ LLC             share a last-level cache (usually L3)
//!       └─ group        at most 4 that share an L2, or a small LLC: a choice of ours, see Grouping
//!          └─ core      share everything: SMT siblings
//!             └─ hardware thread    what the operating system calls a CPU ("pu" in names)
//! ```
//!
//! | to | see |
//! |---|---|
//! | describe the machine that the process runs on, as far as it may use it | [`discover`] |
//! | read a copy of another machine's files | [`sysfs::read`], [`DiscoverOptions`] |
//! | write a machine down, `node:2 llc:4 core:8 pu:2` | [`Topology`]'s `FromStr` and `Display` |
//! | ask hwloc (feature `hwloc`) | `hwloc::this_machine`, `hwloc::from_xml_file`, `hwloc::from_synthetic` |
//! | look at the tables | [`Topology`], [`Pu`], [`Core`], [`L2`], [`Llc`], [`Node`] |
//! | cut the machine into groups | [`Topology::groups`], [`Groups::explicit`] |
//! | know how far two hardware threads are apart | [`Topology::distance`], [`Groups::distance`] |
//! | know what a container leaves of the machine | [`Allowed`], [`CpuQuota`] |
//! | pin a thread | [`pin_current_thread`], [`set_current_affinity`] |
//! | draw the machine | [`render::text`], [`render::svg`] |
//!
//! Ids ([`PuId`] and the others) are dense from zero and follow the tree, so that everything below a part is a
//! consecutive range. The operating system's CPU numbers are a property ([`Pu::os_index`]) and come in [`PuSet`]s: they
//! have holes, and they go beyond 1023.
//!
//! ```
//! use quadrille_topology::{Distance, Grouping, PuId, Topology};
//!
//! // Two sockets, 4 clusters of 4 cores that share an L2 each.
//! let machine: Topology = "node:2 l2:4 core:4".parse()?;
//! let groups = machine.groups(Grouping::default());
//! assert_eq!(groups.len(), 8);
//! assert_eq!(groups.distance(&machine, PuId(0), PuId(3)), Distance::Group);
//! assert_eq!(groups.distance(&machine, PuId(0), PuId(4)), Distance::Llc);
//! assert_eq!(groups.distance(&machine, PuId(0), PuId(16)), Distance::Remote);
//! # Ok::<(), quadrille_topology::TopologyError>(())
//! ```
//!
//! # Features
//! - `std` (default): reading machines and pinning. Without it the crate is `no_std` with `alloc`.
//! - `hwloc`: the hwloc library as a source; needs the C library.
//!
//! **Architecture Invariant:** a topology is a value, not a connection: once read it never looks at the machine again.
//! There are no threads, clocks or decisions here, and no unsafe code but two system calls in `sys`.

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
#[cfg(feature = "std")]
mod remembered;
pub mod render;
#[cfg(all(test, feature = "std"))]
mod scratch;
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
