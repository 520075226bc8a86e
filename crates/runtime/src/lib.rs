//! Runtime.

#![allow(dead_code, reason = "the services stand before the scheduler that calls them")]

pub mod coop;
