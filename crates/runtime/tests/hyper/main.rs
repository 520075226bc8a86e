//! HTTP by hyper, server and client, on this runtime alone.
//!
//! Nothing here waits by sleeping for a while, and every test runs under a watchdog.

mod http1;
mod http2;
mod peers;
mod rude;
mod shutdown;
#[expect(dead_code, reason = "no test here starts a program")]
#[path = "../net/watched.rs"]
mod watched;
