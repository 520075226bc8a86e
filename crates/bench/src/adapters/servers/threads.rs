//! Operating-system threads: one a connection, as servers were written before.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;

use super::{BUFFER, Servers, refused};
use crate::adapters::threads::Threads;
use crate::outcome::Stop;

impl Servers for Threads {
    fn echo_tcp(self, listener: TcpListener) -> Result<(), Stop> {
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                thread::spawn(move || echo(stream));
            }
        });
        Ok(())
    }

    fn echo_udp(self, socket: UdpSocket, tasks: usize) -> Result<(), Stop> {
        for _ in 0..tasks {
            let socket = socket.try_clone().map_err(|error| refused(&error))?;
            thread::spawn(move || {
                let mut buffer = [0; BUFFER];
                while let Ok((length, peer)) = socket.recv_from(&mut buffer) {
                    if socket.send_to(&buffer[..length], peer).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(())
    }

    fn http(self, _: TcpListener) -> Result<(), Stop> {
        Err(Stop::unsupported("the standard library has no HTTP server"))
    }
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; BUFFER];
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..length])?;
    }
}
