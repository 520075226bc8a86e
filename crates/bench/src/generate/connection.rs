//! One connection of the load generator, with at most one request on its way.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::net::sockopt::{set_socket_send_buffer_size, socket_send_buffer_size};

use super::script::Script;
use crate::spec::{Serve, Service};

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
    script: Script,
    due: Instant,
    /// The answer as far as it has come: the first `filled` bytes.
    buffer: Vec<u8>,
    filled: usize,
}

impl Connection {
    /// Connects to `address`.
    ///
    /// # Errors
    /// What the kernel says; [`ErrorKind::Unsupported`] if it gives less room than the longest request needs.
    pub(super) fn open(address: SocketAddr, serve: Serve, index: usize) -> io::Result<Self> {
        let script = Script::new(serve, index);
        let socket = if serve.service == Service::UdpEcho {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.connect(address)?;
            socket.set_nonblocking(true)?;
            Socket::Udp(socket)
        } else {
            let socket = TcpStream::connect(address)?;
            socket.set_nodelay(true)?;
            if serve.service == Service::Tbench {
                set_socket_send_buffer_size(&socket, 2 * script.message_max())?;
                check_room(socket_send_buffer_size(&socket)?, script.message_max())?;
            }
            socket.set_nonblocking(true)?;
            Socket::Tcp(socket)
        };
        Ok(Self {
            socket,
            due: Instant::now(),
            buffer: vec![0; script.message_max()],
            filled: 0,
            script,
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
        let request = self.script.request();
        let sent = match &mut self.socket {
            Socket::Tcp(socket) => socket.write(request)?,
            Socket::Udp(socket) => socket.send(request)?,
        };
        if sent == request.len() {
            Ok(())
        } else {
            Err(io::Error::other(format!("{sent} bytes of {} went out", request.len())))
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
        let is_complete = self.script.is_answer(bytes).map_err(io::Error::other)?;
        Ok(if is_complete {
            Answer::Complete { due: self.due }
        } else {
            Answer::Partial
        })
    }
}

/// Whether a send buffer of `room` bytes takes a message of up to `message_max` bytes at once, as each request has to
/// be.
///
/// Linux keeps its own records of a message in the same room and so makes it twice as large as was asked for, up to
/// `net.core.wmem_max`, which it does not say. Twice the longest message is enough: 65,587 bytes go into 68,000 but not
/// into 65,536.
fn check_room(room: usize, message_max: usize) -> io::Result<()> {
    if room >= 2 * message_max {
        return Ok(());
    }
    let limit = room / 2;
    Err(io::Error::new(
        ErrorKind::Unsupported,
        format!(
            "net.core.wmem_max is {limit}, expected at least {message_max}: requests of up to that many bytes are sent at once"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_below_the_longest_request_is_named_with_what_is_needed() {
        // What Linux answers to 140,000 with a limit of 212,992, of 70,000, and of less.
        for room in [280_000, 140_000] {
            assert!(check_room(room, 70_000).is_ok(), "{room}");
        }
        for (room, limit) in [(139_998, "69999"), (32_768, "16384"), (4608, "2304")] {
            let error = check_room(room, 70_000).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let expected = format!("net.core.wmem_max is {limit}, expected at least 70000");
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
    }
}
