//! What a connection of the load generator asks, and what it must be answered.

use crate::spec::{Serve, Service};
use crate::workloads::serve::GREETING;
use crate::workloads::tbench::{self, Replay};

/// A request for the greeting.
pub(crate) const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The longest answer of an echo, and of HTTP: headers and greeting of the wordiest server.
const ANSWER_MAX: usize = 4096;

/// One connection's requests.
#[derive(Debug)]
pub(super) enum Script {
    /// The same bytes again and again, to come back as they are.
    Echo(Vec<u8>),
    /// A file server's operations.
    Files(Box<Replay>),
    /// HTTP, to be greeted.
    Greeting,
}

impl Script {
    /// The script of connection `index`.
    pub(super) fn new(serve: Serve, index: usize) -> Self {
        match serve.service {
            Service::TcpEcho | Service::UdpEcho => {
                let letter = b'a' + u8::try_from(index % 26).unwrap_or(0);
                Self::Echo(vec![letter; serve.size])
            }
            Service::Tbench => Self::Files(Box::new(Replay::new(index))),
            Service::Http => Self::Greeting,
        }
    }

    /// The next request.
    pub(super) fn request(&mut self) -> &[u8] {
        match self {
            Self::Echo(bytes) => bytes,
            Self::Files(replay) => replay.request(),
            Self::Greeting => GET,
        }
    }

    /// The longest answer, and the longest request.
    pub(super) fn message_max(&self) -> usize {
        match self {
            Self::Echo(bytes) => ANSWER_MAX.max(bytes.len()),
            Self::Files(_) => tbench::MESSAGE_MAX,
            Self::Greeting => ANSWER_MAX,
        }
    }

    /// Whether `bytes` are all of the answer to the last request.
    ///
    /// # Errors
    /// They are not even its beginning: one line.
    pub(super) fn is_answer(&self, bytes: &[u8]) -> Result<bool, String> {
        match self {
            Self::Echo(request) => is_echo(bytes, request),
            Self::Files(replay) => is_file_answer(bytes, replay.expected()),
            Self::Greeting => is_greeting(bytes),
        }
    }
}

/// Whether all of a file server's answer has come. What follows its length is compared when all is there: long ones
/// come in many pieces.
fn is_file_answer(bytes: &[u8], expected: &[u8]) -> Result<bool, String> {
    let begin = bytes.len().min(tbench::NUMBER);
    if bytes.len() < expected.len() && bytes[..begin] == expected[..begin] {
        return Ok(false);
    }
    if bytes == expected {
        return Ok(true);
    }
    Err(format!(
        "{} bytes are not the answer of {} that was asked for",
        bytes.len(),
        expected.len()
    ))
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
    fn a_file_server_is_taken_by_its_length_and_then_by_every_byte() {
        let expected = [0, 0, 0, 3, 1, 2, 3];
        for end in 0..expected.len() {
            assert_eq!(is_file_answer(&expected[..end], &expected), Ok(false), "{end}");
        }
        assert_eq!(is_file_answer(&expected, &expected), Ok(true));
        for wrong in [&[0, 0, 0, 4][..], &[0, 0, 0, 3, 1, 2, 4], &[0, 0, 0, 3, 1, 2, 3, 4]] {
            let message = is_file_answer(wrong, &expected).unwrap_err();
            assert!(message.contains("not the answer of 7"), "{message}");
        }
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
