//! The crate through its public API.

mod groups;
mod machine;
mod synthetic;
