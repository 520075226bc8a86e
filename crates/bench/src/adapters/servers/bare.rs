//! A server without a runtime: one thread, one epoll, a read and a write for each answer.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use rustix::event::epoll;
use rustix::fd::OwnedFd;

use super::blocking::PAUSE;
use super::{BUFFER, Dialogue};
use crate::outcome::Stop;

/// Events taken from the kernel at once.
const EVENTS: usize = 256;

/// Stands for the listener where others have the number of their connection.
const LISTENER: u64 = u64::MAX;

/// A response with [`GREETING`](crate::workloads::serve::GREETING), as long as hyper's.
const GREETING: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\nHello, world!";

/// Talks to every client that connects, until the process ends.
///
/// # Errors
/// [`Stop::Failed`] if the kernel has no epoll or no thread to give.
pub fn start<D: Dialogue>(listener: TcpListener) -> Result<(), Stop> {
    let failed = |error: io::Error| Stop::failed(format!("the server cannot start: {error}"));
    let server = Server::<D>::new(listener).map_err(failed)?;
    let spawned = thread::Builder::new().spawn(move || server.run());
    spawned.map(drop).map_err(failed)
}

struct Server<D> {
    epoll: OwnedFd,
    listener: TcpListener,
    /// By the number that their events carry.
    connections: Vec<Option<(TcpStream, Box<D>)>>,
}

impl<D: Dialogue> Server<D> {
    fn new(listener: TcpListener) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&epoll, &listener, data, epoll::EventFlags::IN)?;
        Ok(Self {
            epoll,
            listener,
            connections: Vec::new(),
        })
    }

    /// Level-triggered, so that one read an event is enough, and no read or accept waits. A write may, for a client
    /// that does not read; the generator always does.
    fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("epoll: {error}"),
            }
            for event in events.drain(..) {
                match event.data.u64() {
                    // Mostly no descriptor is left, and connections that end give some back.
                    LISTENER if self.accept().is_err() => thread::sleep(PAUSE),
                    LISTENER => {}
                    number => self.talk(usize::try_from(number).expect("it was a usize")),
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        let (stream, _) = self.listener.accept()?;
        stream.set_nodelay(true)?;
        let data = epoll::EventData::new_u64(self.connections.len() as u64);
        epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
        self.connections.push(Some((stream, Box::default())));
        Ok(())
    }

    /// Answers what has come; closes a connection that has ended or failed, which the generator reports.
    fn talk(&mut self, number: usize) {
        let place = &mut self.connections[number];
        let Some((stream, dialogue)) = place else { return };
        let mut answer = || -> io::Result<bool> {
            let length = stream.read(dialogue.room())?;
            if length > 0 {
                stream.write_all(dialogue.heard(length)?)?;
            }
            Ok(length > 0)
        };
        if !answer().unwrap_or(false) {
            *place = None;
        }
    }
}

/// Answers a request with a greeting, whatever it asks: no header is read. One request at a time, without a body, as
/// the generator sends them.
#[derive(Debug)]
pub struct Greeter {
    request: [u8; BUFFER],
    filled: usize,
}

impl Default for Greeter {
    fn default() -> Self {
        Self {
            request: [0; BUFFER],
            filled: 0,
        }
    }
}

impl Dialogue for Greeter {
    fn room(&mut self) -> &mut [u8] {
        &mut self.request[self.filled..]
    }

    fn heard(&mut self, length: usize) -> io::Result<&[u8]> {
        self.filled += length;
        if self.request[..self.filled].ends_with(b"\r\n\r\n") {
            self.filled = 0;
            return Ok(GREETING);
        }
        if self.filled == BUFFER {
            return Err(io::Error::other(format!("a request of more than {BUFFER} bytes")));
        }
        Ok(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{GET, is_greeting};

    #[test]
    fn a_greeter_answers_when_all_of_a_request_has_come() {
        let mut greeter = Greeter::default();
        for _ in 0..2 {
            let (first, rest) = GET.split_at(20);
            greeter.room()[..first.len()].copy_from_slice(first);
            assert!(greeter.heard(first.len()).unwrap().is_empty());
            greeter.room()[..rest.len()].copy_from_slice(rest);
            assert_eq!(is_greeting(greeter.heard(rest.len()).unwrap()), Ok(true));
        }
    }

    #[test]
    fn a_request_without_end_is_refused() {
        let mut greeter = Greeter::default();
        assert!(greeter.heard(BUFFER).is_err());
    }
}
