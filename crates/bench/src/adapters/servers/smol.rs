//! smol: its reactor's sockets; hyper on them, as in smol's examples, by the dozen lines that the crate smol-hyper has
//! for it.

use std::io::{self, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_io::Async;
use futures_lite::io::{AsyncRead, AsyncWrite};
use hyper::rt::ReadBufCursor;
use hyper::server::conn::http1;
use hyper::service::service_fn;

use super::{BUFFER, Dialogue, Servers, greet, refused};
use crate::adapters::Runtime;
use crate::adapters::smol::Smol;
use crate::outcome::Stop;

impl Servers for Smol {
    fn serve_tcp<D: Dialogue>(self, listener: TcpListener) -> Result<(), Stop> {
        let listener = Async::new(listener).map_err(|error| refused(&error))?;
        self.spawn_outside(async move {
            while let Ok((stream, _)) = listener.accept().await {
                self.spawn_detached(async move {
                    // An error is a connection that the generator has closed.
                    let _ = talk::<D>(stream).await;
                });
            }
        });
        Ok(())
    }

    fn echo_udp(self, socket: UdpSocket, tasks: usize) -> Result<(), Stop> {
        let socket = Arc::new(Async::new(socket).map_err(|error| refused(&error))?);
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
        let listener = Async::new(listener).map_err(|error| refused(&error))?;
        self.spawn_outside(async move {
            while let Ok((stream, _)) = listener.accept().await {
                self.spawn_detached(async move {
                    // The same settings as on tokio.
                    let _ = stream.get_ref().set_nodelay(true);
                    // An error is a connection that the generator has closed.
                    let _ = http1::Builder::new()
                        .serve_connection(Io(stream), service_fn(greet))
                        .await;
                });
            }
        });
        Ok(())
    }
}

/// A stream as hyper wants it. Its reads fill what is initialized, so hyper's buffer is zeroed before each, as by
/// smol-hyper.
#[derive(Debug)]
struct Io(Async<TcpStream>);

impl hyper::rt::Read for Io {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, mut room: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let buffer = room.initialize_unfilled();
        let length = ready!(Pin::new(&mut self.0).poll_read(cx, buffer))?;
        // That a stream has read no more than it had room for is checked here.
        let length = buffer[..length].len();
        // SAFETY: `initialize_unfilled` has initialized all bytes that are unfilled, `length` is at most their number,
        // and the stream has got them as `&mut [u8]`, through which nothing becomes uninitialized.
        unsafe { room.advance(length) };
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }

    /// Headers and body in one system call, as on the others.
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, slices)
    }
}

async fn talk<D: Dialogue>(stream: Async<TcpStream>) -> io::Result<()> {
    stream.get_ref().set_nodelay(true)?;
    let mut dialogue = D::default();
    loop {
        let length = stream.read_with(|mut stream| stream.read(dialogue.room())).await?;
        if length == 0 {
            return Ok(());
        }
        let mut rest = dialogue.heard(length)?;
        while !rest.is_empty() {
            let written = stream.write_with(|mut stream| stream.write(rest)).await?;
            rest = &rest[written..];
        }
    }
}
