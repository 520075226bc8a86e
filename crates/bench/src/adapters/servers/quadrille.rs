//! quadrille: an accept loop and a task a connection; hyper over its own stream.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use quadrille::net::TcpStream;

use super::{BUFFER, Servers, greet, refused, ring};
use crate::adapters::Runtime;
use crate::adapters::quadrille::Quadrille;
use crate::outcome::Stop;

impl Quadrille {
    /// quadrille's own listener, which needs to be inside its runtime to be made.
    pub(crate) fn listen(self, listener: TcpListener) -> Result<quadrille::net::TcpListener, Stop> {
        let _inside = self.inside();
        listener
            .set_nonblocking(true)
            .and_then(|()| quadrille::net::TcpListener::from_std(listener))
            .map_err(|error| refused(&error))
    }
}

impl Servers for Quadrille {
    fn echo_tcp(self, listener: TcpListener) -> Result<(), Stop> {
        if self.is_by_ring() {
            return ring::echo_tcp(self, listener);
        }
        let listener = self.listen(listener)?;
        self.spawn_outside(async move {
            while let Ok((stream, _)) = listener.accept().await {
                quadrille::spawn(echo(stream));
            }
        });
        Ok(())
    }

    fn echo_udp(self, socket: UdpSocket, tasks: usize) -> Result<(), Stop> {
        let socket = {
            let _inside = self.inside();
            quadrille::net::UdpSocket::from_std(socket).map_err(|error| refused(&error))?
        };
        let socket = Arc::new(socket);
        for _ in 0..tasks {
            let socket = Arc::clone(&socket);
            self.spawn_outside(async move {
                let mut buffer = [0; BUFFER];
                while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
                    if socket.send_to(&buffer[..length], peer).await.is_err() {
                        return;
                    }
                }
            });
        }
        Ok(())
    }

    fn http(self, listener: TcpListener) -> Result<(), Stop> {
        if self.is_by_ring() {
            return Err(Stop::unsupported("hyper has no streams that own their buffers"));
        }
        let listener = self.listen(listener)?;
        self.spawn_outside(async move {
            while let Ok((stream, _)) = listener.accept().await {
                quadrille::spawn(greet_over(stream));
            }
        });
        Ok(())
    }
}

/// Sends back what comes, until the other end is closed.
pub(crate) async fn echo(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; BUFFER];
    loop {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..length]).await?;
    }
}

/// Answers every request with a greeting, until the other end is closed.
pub(crate) async fn greet_over(stream: TcpStream) {
    // The same settings as on tokio.
    let _ = stream.set_nodelay(true);
    // An error is a connection that the client has closed, or broken off.
    let _ = http1::Builder::new().serve_connection(stream, service_fn(greet)).await;
}
