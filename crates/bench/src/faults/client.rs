//! One connection of the load: plays its script, and compares what comes back as it comes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, sockopt};

use super::PATIENCE;
use super::script::{Manner, Script};
use crate::generate::{GET, is_echo, is_greeting};
use crate::workloads::random::Random;
use crate::workloads::serve::GREETING;

/// Room for what a slow reader has not read, in bytes; the kernel doubles it. Set before the connection is made: room
/// that shrinks below the window that was offered makes the kernel drop data and wait, doubling, for a minute and more.
const LITTLE_ROOM: usize = 16_384;

/// How long a port that is not free again is waited for at a time.
const PORT_PAUSE: Duration = Duration::from_millis(10);

/// Connects to `address` and plays `script` to its end.
///
/// # Errors
/// One line: what the server did not do that it owed, or did that it may not.
pub fn play(address: SocketAddr, script: &Script, random: &mut Random) -> Result<(), String> {
    let mut talk = Talk {
        stream: connect(address, script).map_err(|error| format!("cannot connect: {error}"))?,
        expected: Expected::of(script, random),
        sent: 0,
        is_closed: false,
        moved: 0,
        script,
    };
    talk.prepare()
        .map_err(|error| format!("cannot set the socket up: {error}"))?;
    while talk.step(random)? {}
    Ok(())
}

/// Connects, and waits for a port if need be: those of connections that were closed a moment ago are not free yet.
fn connect(address: SocketAddr, script: &Script) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() {
        net::AddressFamily::INET
    } else {
        net::AddressFamily::INET6
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let socket = net::socket_with(family, net::SocketType::STREAM, net::SocketFlags::CLOEXEC, None)?;
        if script.part.manner == Manner::ReadsSlowly {
            sockopt::set_socket_recv_buffer_size(&socket, LITTLE_ROOM)?;
        }
        match net::connect(&socket, &address) {
            Err(Errno::ADDRNOTAVAIL) if Instant::now() < deadline => thread::sleep(PORT_PAUSE),
            result => return result.map(|()| socket.into()).map_err(Into::into),
        }
    }
}

/// A connection that is going on.
struct Talk<'a> {
    script: &'a Script,
    stream: TcpStream,
    expected: Expected,
    /// Bytes of what is to be sent that are.
    sent: usize,
    /// Whether the own half is closed.
    is_closed: bool,
    /// Bytes there and back.
    moved: usize,
}

impl Talk<'_> {
    fn prepare(&self) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        self.stream.set_nonblocking(true)
    }

    /// Goes on by a write, a read, or both; false at the end.
    fn step(&mut self, random: &mut Random) -> Result<bool, String> {
        if self.script.leave_after.is_some_and(|bytes| self.moved >= bytes) {
            if self.script.resets {
                // The close that follows is a reset; if the server was faster there is nothing to reset.
                let _ = sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
            }
            return Ok(false);
        }
        self.close_half()?;
        let to_send = self.expected.to_send().len() - self.sent;
        let mut wanted = PollFlags::IN;
        if to_send > 0 {
            wanted |= PollFlags::OUT;
        }
        let ready = self.wait(wanted)?;
        if self.script.pause_us_max > 0 {
            thread::sleep(Duration::from_micros(random.between(0, self.script.pause_us_max)));
        }
        if to_send > 0 && ready.intersects(PollFlags::OUT | PollFlags::ERR | PollFlags::HUP) && !self.write(random)? {
            return Ok(false);
        }
        if ready.intersects(PollFlags::IN | PollFlags::ERR | PollFlags::HUP) {
            return self.read(random);
        }
        Ok(true)
    }

    /// Closes the own half when its time has come: at once after all is sent, or when all has come.
    fn close_half(&mut self) -> Result<(), String> {
        let is_sent = self.sent == self.expected.to_send().len();
        let at_once = matches!(self.script.part.manner, Manner::HalfCloses | Manner::SendsGarbage);
        if self.is_closed || !is_sent || !(at_once || self.expected.is_complete()) {
            return Ok(());
        }
        self.is_closed = true;
        match self.stream.shutdown(Shutdown::Write) {
            Err(error) if error.kind() == ErrorKind::NotConnected && !self.script.part.is_owed_all() => Ok(()),
            other => other.map_err(|error| self.complaint(&format!("cannot close its half: {error}"))),
        }
    }

    fn wait(&self, wanted: PollFlags) -> Result<PollFlags, String> {
        let patience = Timespec::try_from(PATIENCE).map_err(|error| error.to_string())?;
        let mut ready = [PollFd::new(&self.stream, wanted)];
        match poll(&mut ready, Some(&patience)) {
            Ok(0) => {
                let seconds = PATIENCE.as_secs();
                Err(self.complaint(&format!("nothing moved for {seconds} s")))
            }
            Ok(_) | Err(Errno::INTR) => Ok(ready[0].revents()),
            Err(error) => Err(format!("poll: {error}")),
        }
    }

    /// Writes some; false if the server is gone, and may be.
    fn write(&mut self, random: &mut Random) -> Result<bool, String> {
        let rest = &self.expected.to_send()[self.sent..];
        let length = rest.len().min(some(self.script.write_max, random));
        match self.stream.write(&rest[..length]) {
            Ok(count) => {
                self.sent += count;
                self.moved += count;
                Ok(true)
            }
            Err(error) => self.failed("write", &error),
        }
    }

    /// Reads some; false at the end.
    fn read(&mut self, random: &mut Random) -> Result<bool, String> {
        let mut buffer = vec![0; some(self.script.read_max, random)];
        match self.stream.read(&mut buffer) {
            Ok(0) if self.expected.is_complete() || !self.script.part.is_owed_all() => Ok(false),
            Ok(0) => Err(self.complaint("the server closed it before")),
            Ok(count) => {
                self.moved += count;
                self.expected
                    .take(&buffer[..count])
                    .map(|()| true)
                    .map_err(|reason| self.complaint(&reason))
            }
            Err(error) => self.failed("read", &error),
        }
    }

    /// After a write or read that failed: true to try again, false if the server is gone, and may be.
    fn failed(&self, what: &str, error: &io::Error) -> Result<bool, String> {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(true),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe if !self.script.part.is_owed_all() => Ok(false),
            _ => Err(self.complaint(&format!("{what}: {error}"))),
        }
    }

    fn complaint(&self, what: &str) -> String {
        format!(
            "{what}, with {} of {} bytes sent and {}",
            self.sent,
            self.expected.to_send().len(),
            self.expected.progress()
        )
    }
}

/// From 1 to `max`.
fn some(max: usize, random: &mut Random) -> usize {
    usize::try_from(random.between(1, max.max(1) as u64)).unwrap_or(max)
}

/// What is sent, and what must come back.
#[derive(Debug)]
enum Expected {
    /// The same bytes.
    Echo { bytes: Vec<u8>, received: usize },
    /// As many greetings as requests.
    Greetings {
        requests: Vec<u8>,
        count: usize,
        received: usize,
        /// What has come of the next one.
        part: Vec<u8>,
    },
    /// Nothing in particular: the request was none.
    Anything { garbage: Vec<u8>, received: usize },
}

impl Expected {
    fn of(script: &Script, random: &mut Random) -> Self {
        if script.part.manner == Manner::SendsGarbage {
            let garbage = noise(script.amount, random);
            return Self::Anything { garbage, received: 0 };
        }
        if script.part.http {
            return Self::Greetings {
                requests: GET.repeat(script.amount),
                count: script.amount,
                received: 0,
                part: Vec::new(),
            };
        }
        let bytes = noise(script.amount, random);
        Self::Echo { bytes, received: 0 }
    }

    fn to_send(&self) -> &[u8] {
        match self {
            Self::Echo { bytes, .. } => bytes,
            Self::Greetings { requests, .. } => requests,
            Self::Anything { garbage, .. } => garbage,
        }
    }

    fn is_complete(&self) -> bool {
        match self {
            Self::Echo { bytes, received } => *received == bytes.len(),
            Self::Greetings {
                count, received, part, ..
            } => received == count && part.is_empty(),
            Self::Anything { .. } => false,
        }
    }

    /// Compares what has come.
    fn take(&mut self, came: &[u8]) -> Result<(), String> {
        match self {
            Self::Echo { bytes, received } => {
                is_echo(came, &bytes[*received..])?;
                *received += came.len();
            }
            Self::Greetings {
                count, received, part, ..
            } => {
                part.extend_from_slice(came);
                while let Some(end) = part.windows(4).position(|window| window == b"\r\n\r\n") {
                    let length = end + 4 + GREETING.len();
                    if !is_greeting(&part[..length.min(part.len())])? {
                        break;
                    }
                    part.drain(..length);
                    *received += 1;
                }
                if *received > *count || *received == *count && !part.is_empty() {
                    return Err("more answers came than requests were sent".to_owned());
                }
            }
            Self::Anything { received, .. } => *received += came.len(),
        }
        Ok(())
    }

    fn progress(&self) -> String {
        match self {
            Self::Echo { received, .. } | Self::Anything { received, .. } => format!("{received} bytes received"),
            Self::Greetings { count, received, .. } => format!("{received} of {count} answers received"),
        }
    }
}

/// Random bytes.
fn noise(length: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length.div_ceil(8))
        .flat_map(|_| random.number().to_le_bytes())
        .collect();
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::faults::script::Part;

    /// A server that writes what `answer` makes of the bytes that it has read, until that is empty.
    fn server(answer: fn(&[u8]) -> Vec<u8>) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(count @ 1..) = stream.read(&mut buffer) {
                        let answer = answer(&buffer[..count]);
                        if answer.is_empty() || stream.write_all(&answer).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    /// What becomes of scripts of some length for this part.
    fn play_all(address: SocketAddr, http: bool, manner: Manner) -> Vec<Result<(), String>> {
        let mut random = Random::new(3);
        let part = Part { http, manner };
        (0..8)
            .map(|_| play(address, &Script::draw(part, &mut random), &mut random))
            .collect()
    }

    /// Greets so often for each request, of which each has one `G`.
    fn greet(requests: &[u8], times: usize) -> Vec<u8> {
        let ends = requests.iter().filter(|&&byte| byte == b'G').count();
        let length = GREETING.len();
        format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{GREETING}")
            .repeat(ends * times)
            .into_bytes()
    }

    #[test]
    fn a_server_that_echoes_satisfies_everybody() {
        let address = server(<[u8]>::to_vec);
        for part in Part::all().into_iter().filter(|part| !part.http) {
            for result in play_all(address, false, part.manner) {
                assert_eq!(result, Ok(()), "{part:?}");
            }
        }
    }

    #[test]
    fn a_server_that_greets_satisfies_who_behaves() {
        let address = server(|requests| greet(requests, 1));
        let random = &mut Random::new(1);
        for amount in [1, 2, 64] {
            let part = Part {
                http: true,
                manner: Manner::Behaves,
            };
            let script = Script {
                amount,
                ..Script::draw(part, random)
            };
            assert_eq!(play(address, &script, random), Ok(()));
        }
    }

    #[test]
    fn wrong_bytes_too_many_and_too_few_are_told() {
        let check = |answer, http, expected: &str| {
            for result in play_all(server(answer), http, Manner::Behaves) {
                let told = result.unwrap_err();
                assert!(told.contains(expected) && !told.contains('\n'), "{told}");
            }
        };
        check(|bytes| vec![!bytes[0]; bytes.len()], false, "not what was sent");
        check(|bytes| [bytes, b"more"].concat(), false, "not what was sent");
        check(|requests| greet(requests, 2), true, "more answers came");
        check(
            |_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            true,
            "400 Bad Request",
        );
        let told = play_all(server(|_| Vec::new()), false, Manner::Behaves);
        // A close with bytes on their way is a reset.
        let ends = ["the server closed it before", "reset", "Broken pipe"];
        let is_told = |told: &String| ends.iter().any(|end| told.contains(end));
        assert!(
            told.iter().all(|result| result.as_ref().is_err_and(is_told)),
            "{told:?}"
        );
    }

    #[test]
    fn who_leaves_does_not_mind_that_the_server_is_gone() {
        let address = server(|_| Vec::new());
        for manner in [Manner::Resets, Manner::GoesAway, Manner::Connects] {
            for result in play_all(address, false, manner) {
                assert_eq!(result, Ok(()), "{manner:?}");
            }
        }
    }
}
