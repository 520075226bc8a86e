//! smol: its reactor's sockets. For HTTP nobody takes it alone.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;

use async_io::Async;

use super::{BUFFER, Dialogue, Servers, refused};
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

    fn http(self, _: TcpListener) -> Result<(), Stop> {
        Err(Stop::unsupported(
            "smol has no HTTP server of its own, and hyper is not used with it here",
        ))
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
