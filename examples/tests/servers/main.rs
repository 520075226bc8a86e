//! The examples that are servers, each a process, asked by clients that others have written (curl, wrk, socat, Redis'
//! own), or by sockets of std where there are none.
//!
//! `cargo test` builds the examples before it runs this; `cargo test --test servers` does not.

mod descriptors;
mod http;
mod quic;
mod resp;
mod server;
#[path = "../../../crates/runtime/src/skipped.rs"]
mod skipped;
mod socket;
mod tool;
mod websocket;

use std::process::Command;

#[test]
fn there_is_no_runtime_of_tokio_below_them() {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", env!("CARGO_PKG_NAME")])
        .args(["--edges", "normal,dev,features", "--invert", "tokio", "--depth", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let tree = String::from_utf8(tree.stdout).unwrap();
    // Each line that names one says which package asks for it.
    let features: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split_once("tokio feature "))
        .map(|(_, name)| name.trim())
        .collect();
    assert_eq!(features, ["\"default\"", "\"sync\""], "{tree}");
}
