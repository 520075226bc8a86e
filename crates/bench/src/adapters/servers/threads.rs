//! Operating-system threads: one a connection, as servers were written before.

use std::net::{TcpListener, UdpSocket};
use std::thread;

use super::blocking::{ThreadServers, accept, by_names_of_std};
use super::{BUFFER, Dialogue, Servers, refused};
use crate::adapters::threads::Threads;
use crate::outcome::Stop;

impl Servers for Threads {
    fn serve_tcp<D: Dialogue>(self, listener: TcpListener) -> Result<(), Stop> {
        thread::spawn(move || accept::<Self, D>(self, &listener));
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

impl ThreadServers for Threads {
    by_names_of_std!(std::net);
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::super::Echo;
    use super::*;

    #[test]
    fn an_accept_that_fails_does_not_end_the_server() {
        let (listener, address) = Threads.listen().unwrap();
        // From now on each attempt without a client fails.
        listener.set_nonblocking(true).unwrap();
        Threads.serve_tcp::<Echo>(listener).unwrap();
        // The first may be there before the first attempt; then an attempt has failed before the second one is.
        for _ in 0..20 {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(b"hello").unwrap();
            let mut answer = [0; 5];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"hello");
        }
    }
}
