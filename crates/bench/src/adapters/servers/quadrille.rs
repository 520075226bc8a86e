//! quadrille: an accept loop and a task a connection, or a thread; hyper over its own stream.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use quadrille::Wait as _;
use quadrille::net::TcpStream;

use super::blocking::ThreadServers;
use super::{BUFFER, Dialogue, Echo, Servers, greet, refused, ring};
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
    fn serve_tcp<D: Dialogue>(self, listener: TcpListener) -> Result<(), Stop> {
        if self.is_by_ring() {
            return Err(Stop::unsupported(
                "by io_uring there is an echo; this server keeps its buffers to itself",
            ));
        }
        let listener = self.listen(listener)?;
        self.spawn_outside(async move {
            while let Ok((stream, _)) = listener.accept().await {
                quadrille::spawn(talk::<D>(stream));
            }
        });
        Ok(())
    }

    fn echo_tcp(self, listener: TcpListener) -> Result<(), Stop> {
        if self.is_by_ring() {
            return ring::echo_tcp(self, listener);
        }
        self.serve_tcp::<Echo>(listener)
    }

    fn echo_udp(self, socket: UdpSocket, tasks: usize) -> Result<(), Stop> {
        if self.is_by_ring() {
            return Err(Stop::unsupported(
                "by io_uring there is an echo of streams, none of datagrams",
            ));
        }
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

impl ThreadServers for Quadrille {
    type Listener = quadrille::net::TcpListener;
    type Stream = TcpStream;

    fn listen(self) -> Result<(Self::Listener, SocketAddr), Stop> {
        if self.is_by_ring() {
            return Err(Stop::unsupported(
                "by io_uring there are servers of tasks, none of threads",
            ));
        }
        quadrille::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .wait()
            .and_then(|listener| listener.local_addr().map(|address| (listener, address)))
            .map_err(|error| refused(&error))
    }

    fn accept(listener: &Self::Listener) -> io::Result<TcpStream> {
        let (stream, _) = listener.accept().wait()?;
        // Where that fails the client is gone already, as the first read will say.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    fn read(stream: &mut TcpStream, room: &mut [u8]) -> io::Result<usize> {
        stream.read(room).wait()
    }

    fn write_all(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
        stream.write_all(bytes).wait()
    }
}

/// Talks to a client until it closes the other end.
pub(crate) async fn talk<D: Dialogue>(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut dialogue = D::default();
    loop {
        let length = stream.read(dialogue.room()).await?;
        if length == 0 {
            return Ok(());
        }
        let answer = dialogue.heard(length)?;
        if !answer.is_empty() {
            stream.write_all(answer).await?;
        }
    }
}

/// Answers every request with a greeting, until the other end is closed.
pub(crate) async fn greet_over(stream: TcpStream) {
    // The same settings as on tokio.
    let _ = stream.set_nodelay(true);
    // An error is a connection that the client has closed, or broken off.
    let _ = http1::Builder::new().serve_connection(stream, service_fn(greet)).await;
}
