//! tokio: the echo of its documentation; hyper with hyper-util, as hyper's guide shows.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{BUFFER, Dialogue, Servers, greet, refused};
use crate::adapters::Runtime;
use crate::adapters::tokio::Tokio;
use crate::outcome::Stop;

impl Tokio {
    /// tokio's own listener, which needs to be inside its runtime to be made.
    fn listen(self, listener: TcpListener) -> Result<tokio::net::TcpListener, Stop> {
        let _inside = self.inside();
        listener
            .set_nonblocking(true)
            .and_then(|()| tokio::net::TcpListener::from_std(listener))
            .map_err(|error| refused(&error))
    }
}

impl Servers for Tokio {
    fn serve_tcp<D: Dialogue>(self, listener: TcpListener) -> Result<(), Stop> {
        let listener = self.listen(listener)?;
        self.spawn_outside(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(talk::<D>(stream));
            }
        });
        Ok(())
    }

    fn echo_udp(self, socket: UdpSocket, tasks: usize) -> Result<(), Stop> {
        let socket = {
            let _inside = self.inside();
            socket
                .set_nonblocking(true)
                .and_then(|()| tokio::net::UdpSocket::from_std(socket))
                .map_err(|error| refused(&error))?
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
        let listener = self.listen(listener)?;
        self.spawn_outside(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    // As in hyper's guide, and as every HTTP server does.
                    let _ = stream.set_nodelay(true);
                    // An error is a connection that the generator has closed.
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service_fn(greet))
                        .await;
                });
            }
        });
        Ok(())
    }
}

async fn talk<D: Dialogue>(mut stream: TcpStream) -> io::Result<()> {
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
