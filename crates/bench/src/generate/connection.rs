//! One connection of the load generator, with at most one request on its way.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use super::request;
use crate::spec::{Serve, Service};
use crate::workloads::serve::GREETING;

/// The longest answer: headers and greeting of the wordiest server.
const ANSWER_MAX: usize = 4096;

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Less than an answer.
    Partial,
    /// The answer to the request that was due then.
    Complete {
        /// When the request was due.
        due: Instant,
    },
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Socket,
    service: Service,
    request: Vec<u8>,
    due: Instant,
    /// The answer as far as it has come: the first `filled` bytes.
    buffer: Vec<u8>,
    filled: usize,
}

impl Connection {
    /// Connects to `address`.
    pub(super) fn open(address: SocketAddr, serve: Serve, index: usize) -> io::Result<Self> {
        let socket = if serve.service == Service::UdpEcho {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.connect(address)?;
            socket.set_nonblocking(true)?;
            Socket::Udp(socket)
        } else {
            let socket = TcpStream::connect(address)?;
            socket.set_nodelay(true)?;
            socket.set_nonblocking(true)?;
            Socket::Tcp(socket)
        };
        Ok(Self {
            socket,
            service: serve.service,
            request: request(serve, index),
            due: Instant::now(),
            buffer: vec![0; ANSWER_MAX.max(serve.size)],
            filled: 0,
        })
    }

    /// The descriptor to wait for.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Udp(socket) => socket.as_fd(),
        }
    }

    /// Sends the request that is due since `due`. There is room: nothing else is on its way.
    pub(super) fn send(&mut self, due: Instant) -> io::Result<()> {
        self.due = due;
        self.filled = 0;
        let sent = match &mut self.socket {
            Socket::Tcp(socket) => socket.write(&self.request)?,
            Socket::Udp(socket) => socket.send(&self.request)?,
        };
        if sent == self.request.len() {
            Ok(())
        } else {
            Err(io::Error::other(format!(
                "{sent} bytes of {} went out",
                self.request.len()
            )))
        }
    }

    /// Takes what has come.
    pub(super) fn receive(&mut self) -> io::Result<Answer> {
        let room = &mut self.buffer[self.filled..];
        let received = match &mut self.socket {
            Socket::Tcp(socket) => socket.read(room),
            Socket::Udp(socket) => socket.recv(room),
        };
        match received {
            Ok(0) => return Err(io::Error::other("closed by the server")),
            Ok(received) => self.filled += received,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(Answer::Partial);
            }
            Err(error) => return Err(error),
        }
        let bytes = &self.buffer[..self.filled];
        let is_complete = match self.service {
            Service::TcpEcho | Service::UdpEcho => is_echo(bytes, &self.request),
            Service::Http => is_greeting(bytes),
        }
        .map_err(io::Error::other)?;
        Ok(if is_complete {
            Answer::Complete { due: self.due }
        } else {
            Answer::Partial
        })
    }
}

/// Whether all of the request has come back.
pub(crate) fn is_echo(bytes: &[u8], request: &[u8]) -> Result<bool, String> {
    if request.starts_with(bytes) {
        Ok(bytes.len() == request.len())
    } else {
        Err(format!("an echo of {} bytes is not what was sent", bytes.len()))
    }
}

/// Whether this is all of a response with the greeting.
pub(crate) fn is_greeting(bytes: &[u8]) -> Result<bool, String> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(false);
    };
    let (head, body) = (&bytes[..end], &bytes[end + 4..]);
    if !head.starts_with(b"HTTP/1.1 200 ") {
        let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
        return Err(format!("answered `{}`", String::from_utf8_lossy(line)));
    }
    is_echo(body, GREETING.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_is_compared_as_it_comes() {
        assert_eq!(is_echo(b"aa", b"aaa"), Ok(false));
        assert_eq!(is_echo(b"aaa", b"aaa"), Ok(true));
        assert!(is_echo(b"ab", b"aaa").is_err());
        assert!(is_echo(b"aaaa", b"aaa").is_err(), "more than was sent");
    }

    #[test]
    fn a_response_is_complete_with_its_last_byte() {
        let response = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{GREETING}",
            GREETING.len()
        );
        let bytes = response.as_bytes();
        for end in 0..bytes.len() {
            assert_eq!(is_greeting(&bytes[..end]), Ok(false), "{end}");
        }
        assert_eq!(is_greeting(bytes), Ok(true));
        assert!(
            is_greeting(b"HTTP/1.1 404 Not Found\r\n\r\n")
                .unwrap_err()
                .contains("404")
        );
        assert!(is_greeting(b"HTTP/1.1 200 OK\r\n\r\nGoodbye, world!").is_err());
    }
}
