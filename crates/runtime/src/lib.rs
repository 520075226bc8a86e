//! Runtime.

mod blocking;
mod builder;
pub mod coop;
mod error;
pub mod metrics;
mod primitives;
mod runtime;
mod sched;
pub mod sync;
mod sys;
pub mod task;
mod trace;

pub use builder::Builder;
pub use error::BuildError;
pub use quadrille_policy as policy;
pub use quadrille_topology as topology;
pub use runtime::{EnterGuard, Handle, Runtime, spawn, spawn_blocking};
pub use task::JoinHandle;
