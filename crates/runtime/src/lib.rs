//! Runtime.

mod coop;
mod primitives;
pub mod sync;
