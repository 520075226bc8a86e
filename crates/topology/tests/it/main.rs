//! The crate through its public API.

#[cfg(feature = "std")]
mod affinity;
#[cfg(feature = "std")]
mod allowed;
#[cfg(feature = "std")]
mod discover;
mod groups;
#[cfg(feature = "hwloc")]
mod hwloc;
mod machine;
mod render;
mod synthetic;
#[cfg(feature = "std")]
mod sysfs;
#[cfg(feature = "std")]
mod tree;
