//! A machine as a value.
//!
//! **Architecture Invariant:** a topology is a value, not a connection: once read it never looks at the machine again.

#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]

extern crate alloc;

mod distance;
mod error;
mod groups;
mod id;
mod pu_set;
mod synthetic;
mod topology;

pub use distance::Distance;
pub use error::TopologyError;
pub use groups::{GroupSize, Grouping, Groups};
pub use id::{CoreId, GroupId, L2Id, LlcId, NodeId, PuId};
pub use pu_set::PuSet;
pub use topology::{Core, L2, Llc, Node, Pu, PuSpan, Topology};
