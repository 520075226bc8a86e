//! Servers on each runtime, written as its own documentation does: an accept loop, a task a connection, or a thread
//! ([`blocking`]).

use std::convert::Infallible;
use std::io;
use std::net::{TcpListener, UdpSocket};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};

use super::Runtime;
use crate::outcome::Stop;
use crate::workloads::serve::GREETING;

pub mod bare;
pub mod blocking;
mod may;
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

/// What a server says to one client, whatever carries it.
pub trait Dialogue: Default + Send + 'static {
    /// Where what comes next is to be put; never empty.
    fn room(&mut self) -> &mut [u8];

    /// Takes the `length` bytes that have come there, and returns what is to be sent now: nothing, if more must come
    /// first.
    ///
    /// # Errors
    /// What came is no request: the connection is to be closed.
    fn heard(&mut self, length: usize) -> io::Result<&[u8]>;
}

/// Sends back what comes.
#[derive(Debug)]
pub struct Echo([u8; BUFFER]);

impl Default for Echo {
    fn default() -> Self {
        Self([0; BUFFER])
    }
}

impl Dialogue for Echo {
    fn room(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn heard(&mut self, length: usize) -> io::Result<&[u8]> {
        Ok(&self.0[..length])
    }
}

/// A runtime that servers can be written on. Each starts and goes on until the process ends.
pub trait Servers: Runtime {
    /// Talks to every client that connects, a task each.
    ///
    /// # Errors
    /// [`Stop::Failed`] if the runtime refuses the listener; [`Stop::Unsupported`] if it has no such streams.
    fn serve_tcp<D: Dialogue>(self, listener: TcpListener) -> Result<(), Stop>;

    /// Sends back what comes, on every connection.
    ///
    /// # Errors
    /// As [`Servers::serve_tcp`].
    fn echo_tcp(self, listener: TcpListener) -> Result<(), Stop> {
        self.serve_tcp::<Echo>(listener)
    }

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
fn refused(error: &io::Error) -> Stop {
    Stop::failed(format!("the runtime refuses the socket: {error}"))
}

/// The service of hyper's servers, the same for each.
async fn greet(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(GREETING.as_bytes()))))
}
