//! may: the echo server among its examples.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};

use may::net::{TcpListener, TcpStream};

use super::blocking::ThreadServers;
use crate::adapters::may::May;

impl ThreadServers for May {
    type Listener = TcpListener;
    type Stream = TcpStream;

    fn listen(self) -> io::Result<(TcpListener, SocketAddr)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    }

    fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
        let (stream, _) = listener.accept()?;
        // Where that fails the client is gone already, as the first read will say.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    fn read(stream: &mut TcpStream, room: &mut [u8]) -> io::Result<usize> {
        stream.read(room)
    }

    fn write_all(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
        stream.write_all(bytes)
    }
}
