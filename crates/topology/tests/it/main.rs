//! The crate through its public API.

mod groups;
mod machine;
mod synthetic;
#[cfg(feature = "std")]
mod sysfs;
#[cfg(feature = "std")]
mod tree;
