//! Servers on each runtime, written as its own documentation does: an accept loop, a task a connection.

use std::convert::Infallible;
use std::net::{TcpListener, UdpSocket};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};

use super::Runtime;
use crate::outcome::Stop;
use crate::workloads::serve::GREETING;

pub(crate) mod quadrille;
#[cfg(feature = "io-uring")]
mod ring;
#[cfg(not(feature = "io-uring"))]
#[path = "ring/absent.rs"]
mod ring;
mod smol;
mod threads;
mod tokio;

/// Bytes that an echo reads at once; requests are smaller.
const BUFFER: usize = 4096;

/// A runtime that servers can be written on. Each starts and goes on until the process ends.
pub trait Servers: Runtime {
    /// Sends back what comes, on every connection.
    ///
    /// # Errors
    /// [`Stop::Failed`] if the runtime refuses the listener.
    fn echo_tcp(self, listener: TcpListener) -> Result<(), Stop>;

    /// Sends back every datagram; `tasks` of them share the socket.
    ///
    /// # Errors
    /// [`Stop::Failed`] if the runtime refuses the socket; [`Stop::Unsupported`] if it has none.
    fn echo_udp(self, socket: UdpSocket, tasks: usize) -> Result<(), Stop>;

    /// Answers every request with [`GREETING`].
    ///
    /// # Errors
    /// [`Stop::Failed`] if the runtime refuses the listener; [`Stop::Unsupported`] if nobody uses it for HTTP.
    fn http(self, listener: TcpListener) -> Result<(), Stop>;
}

/// The failure of taking over a socket.
fn refused(error: &std::io::Error) -> Stop {
    Stop::failed(format!("the runtime refuses the socket: {error}"))
}

/// The service of hyper's servers, the same for each.
async fn greet(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(GREETING.as_bytes()))))
}
