//! The smallest program.
fn main() {}
