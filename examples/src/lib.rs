//! The examples are the files beside the manifest: `cargo run --example hello`.
