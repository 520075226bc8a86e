//! A machine as a value.
//!
//! **Architecture Invariant:** a topology is a value, not a connection: once read it never looks at the machine again.

#![forbid(unsafe_code)]

extern crate alloc;

mod id;
mod topology;

pub use id::{CoreId, L2Id, LlcId, NodeId, PuId};
pub use topology::{Pu, Topology};
