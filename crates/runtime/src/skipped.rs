//! Tests that test less on this machine than on others, and say so.

use std::io::Write as _;

/// Says what is not tested, and why, on the standard error itself: what `eprintln!` writes is kept by the test harness,
/// and dropped if the test passes.
pub(crate) fn skipped(why: &str) {
    // In one piece, because other tests write meanwhile. Where nobody reads it, nobody misses it.
    let _ = std::io::stderr().write_all(format!("skipped: {why}\n").as_bytes());
}
