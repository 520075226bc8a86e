//! Waiting for several futures in one task: the macros `select!`, `join!` and `try_join!`, what they expand to, and
//! `pin!`.
//!
//! They are `macro_rules!` alone: the well-kept ones elsewhere need a procedural macro, or futures that are `Unpin` and
//! fused.

pub(crate) mod chance;
mod join;
mod pin;
mod select;

#[doc(hidden)]
pub use self::chance::any_below;
#[doc(hidden)]
pub use self::join::{Joined, NeverFails, turn_after};
#[doc(hidden)]
pub use self::select::{poll_budget, turns};
