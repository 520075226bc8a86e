//! Runtime.

#![allow(dead_code, reason = "the services stand before the scheduler that calls them")]

mod blocking;
pub mod coop;
mod primitives;
pub mod sync;
mod sys;
mod trace;
