//! Built without io_uring.

use std::net::TcpListener;

use crate::adapters::quadrille::Quadrille;
use crate::outcome::Stop;

/// Says how to build it.
pub(super) fn echo_tcp(_runtime: Quadrille, _listener: TcpListener) -> Result<(), Stop> {
    Err(Stop::unsupported(
        "built without io_uring; build quadrille-bench with `--features io-uring`",
    ))
}
