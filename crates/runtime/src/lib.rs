//! Runtime.

mod blocking;
mod builder;
pub mod coop;
mod driver;
mod error;
pub mod io;
mod join_set;
pub mod metrics;
pub mod net;
mod pinning;
mod primitives;
mod runtime;
mod sched;
pub mod sync;
mod sys;
pub mod task;
pub mod time;
mod trace;

pub use builder::Builder;
pub use error::BuildError;
pub use pinning::{Pinning, PinningError};
pub use join_set::JoinSet;
pub use quadrille_policy as policy;
pub use quadrille_topology as topology;
pub use runtime::{EnterGuard, Handle, Runtime, spawn, spawn_blocking};
pub use task::JoinHandle;

#[cfg(feature = "macros")]
pub use quadrille_macros::{main, test};
