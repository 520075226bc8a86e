//! tbench: what the clients of a file server ask and are answered, over TCP, without the files.
//!
//! tbench of the dbench suite replays the operations of a recorded load, each client with a server of its own, of which
//! nothing is left but a request of the right length and an answer of the right length. So here: a request begins with
//! two numbers of 4 bytes (big-endian), its own length and that of the answer it wants, both without the first number;
//! the answer begins with its length. A client sends the next request when it has been answered. The lengths are those
//! of tbench; in place of its load file of megabytes stands a table of 100 operations, in the proportions of the one
//! that dbench comes with, which every client goes through again and again, each from another place.
//!
//! Server and clients keep one buffer a connection, in which byte `i` is `i % 251` behind the numbers. A request brings
//! those bytes, and the answer takes them from the same buffer, so that a byte of a request that went wrong comes back
//! wrong with the next answer that is long enough, unless another request has come over it before. Verified by the
//! clients: every answer to the last byte.

use std::io;

use crate::adapters::servers::Dialogue;
use crate::workloads::random::Random;

/// The longest message: a write of 64 KiB, and some more, as in tbench.
pub(crate) const MESSAGE_MAX: usize = 70_000;

/// Bytes of one of the numbers that a message begins with.
pub(crate) const NUMBER: usize = 4;

/// Bytes before the pattern of a request: both numbers.
const HEADER: usize = 2 * NUMBER;

/// Operations in the table.
const OPERATIONS: usize = 100;

/// Decides in which order the operations come; the same for all.
const SEED: u64 = 42;

/// How far apart two clients begin in the table; it has no divisor in common with the table's length.
const APART: usize = 37;

/// One kind of operation, and how many of a hundred are of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operation {
    share: usize,
    /// Bytes of the request.
    request: usize,
    /// Bytes of the answer.
    answer: usize,
}

const fn operation(share: usize, request: usize, answer: usize) -> Operation {
    Operation { share, request, answer }
}

const fn read(share: usize, size: usize) -> Operation {
    operation(share, 55, size + 4)
}

const fn write(share: usize, size: usize) -> Operation {
    operation(share, 51 + size, 41)
}

/// What a hundred operations are.
const KINDS: [Operation; 16] = [
    // Open.
    operation(17, 111, 69),
    // Close.
    operation(13, 45, 39),
    // Ask for a file by its name, by its handle, and for the file system.
    operation(15, 71, 80),
    operation(4, 41, 80),
    operation(3, 41, 80),
    // List a directory.
    operation(6, 71, 200),
    // Delete, rename, flush.
    operation(4, 83, 39),
    operation(1, 101, 39),
    operation(1, 41, 39),
    read(12, 512),
    read(8, 4096),
    read(4, 16_384),
    read(3, 65_536),
    write(4, 4096),
    write(3, 16_384),
    write(2, 65_536),
];

/// The table: every kind as often as its share, mixed.
fn table() -> Vec<Operation> {
    let kinds = KINDS.iter().flat_map(|kind| std::iter::repeat_n(*kind, kind.share));
    let mut table: Vec<Operation> = kinds.collect();
    let mut random = Random::new(SEED);
    for last in (1..table.len()).rev() {
        let other = random.between(0, last as u64);
        table.swap(last, usize::try_from(other).unwrap_or(0));
    }
    table
}

/// A buffer of which byte `i` is `i % 251`.
fn pattern() -> Vec<u8> {
    (0..=250).cycle().take(MESSAGE_MAX).collect()
}

/// The length of a message whose rest is as long as the number at `offset` says.
fn length_at(bytes: &[u8], offset: usize) -> Option<usize> {
    let number = bytes.get(offset..)?.first_chunk::<NUMBER>()?;
    let rest = usize::try_from(u32::from_be_bytes(*number)).ok()?;
    rest.checked_add(NUMBER)
}

/// Writes the number that says how long a message of `length` bytes is.
fn put_length(bytes: &mut [u8], offset: usize, length: usize) {
    let rest = u32::try_from(length - NUMBER).unwrap_or(u32::MAX);
    bytes[offset..offset + NUMBER].copy_from_slice(&rest.to_be_bytes());
}

/// The server's side of a connection.
#[derive(Debug)]
pub struct Files {
    buffer: Vec<u8>,
    /// As much of a request has come.
    filled: usize,
}

impl Default for Files {
    fn default() -> Self {
        Self {
            buffer: pattern(),
            filled: 0,
        }
    }
}

impl Dialogue for Files {
    fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.filled..]
    }

    fn heard(&mut self, length: usize) -> io::Result<&[u8]> {
        self.filled += length;
        let heard = &self.buffer[..self.filled];
        let (Some(request), Some(answer)) = (length_at(heard, 0), length_at(heard, NUMBER)) else {
            return Ok(&[]);
        };
        if !(HEADER..=MESSAGE_MAX).contains(&request) || answer > MESSAGE_MAX || self.filled > request {
            return Err(io::Error::other(format!(
                "{} bytes of a request of {request} that wants {answer}; expected one of {HEADER} to {MESSAGE_MAX}",
                self.filled
            )));
        }
        if self.filled < request {
            return Ok(&[]);
        }
        self.filled = 0;
        put_length(&mut self.buffer, 0, answer);
        Ok(&self.buffer[..answer])
    }
}

/// The client's side of a connection: the operations of the table, one after the other.
#[derive(Debug)]
pub(crate) struct Replay {
    table: Vec<Operation>,
    next: usize,
    current: Operation,
    /// What the requests are, but for their numbers.
    request: Vec<u8>,
    /// What the answers are, but for theirs.
    answer: Vec<u8>,
}

impl Replay {
    /// The replay of client `index`.
    pub(crate) fn new(index: usize) -> Self {
        let table = table();
        Self {
            next: index * APART % OPERATIONS,
            current: table[0],
            table,
            request: pattern(),
            answer: pattern(),
        }
    }

    /// The next request.
    pub(crate) fn request(&mut self) -> &[u8] {
        self.current = self.table[self.next];
        self.next = (self.next + 1) % OPERATIONS;
        let Operation { request, answer, .. } = self.current;
        put_length(&mut self.request, 0, request);
        for offset in [0, NUMBER] {
            put_length(&mut self.answer, offset, answer);
        }
        put_length(&mut self.request, NUMBER, answer);
        &self.request[..request]
    }

    /// The whole answer to the last request.
    pub(crate) fn expected(&self) -> &[u8] {
        &self.answer[..self.current.answer]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_every_kind_as_often_as_its_share() {
        let table = table();
        assert_eq!(table.len(), OPERATIONS);
        for kind in KINDS {
            let found = table.iter().filter(|operation| **operation == kind).count();
            let same: usize = KINDS
                .iter()
                .filter(|other| **other == kind)
                .map(|other| other.share)
                .sum();
            assert_eq!(found, same, "{kind:?}");
            assert!((HEADER..=MESSAGE_MAX).contains(&kind.request), "{kind:?}");
            assert!((HEADER..=MESSAGE_MAX).contains(&kind.answer), "{kind:?}");
        }
        assert_ne!(table[0], table[1], "mixed");
    }

    /// Lets `files` hear `request` in pieces of `piece` bytes. Its answer.
    fn tell(files: &mut Files, request: &[u8], piece: usize) -> io::Result<Vec<u8>> {
        let mut answer = Vec::new();
        for bytes in request.chunks(piece) {
            assert!(answer.is_empty(), "answered before the last piece");
            files.room()[..bytes.len()].copy_from_slice(bytes);
            answer = files.heard(bytes.len())?.to_vec();
        }
        Ok(answer)
    }

    #[test]
    fn every_operation_is_answered_however_it_comes() {
        for piece in [1000, 7, MESSAGE_MAX] {
            let (mut replay, mut files) = (Replay::new(3), Files::default());
            for _ in 0..OPERATIONS {
                let answer = tell(&mut files, replay.request(), piece).unwrap();
                assert!(answer == replay.expected(), "{:?}", replay.current);
            }
        }
    }

    #[test]
    fn clients_begin_at_different_places() {
        let begins: std::collections::BTreeSet<usize> = (0..OPERATIONS).map(|index| Replay::new(index).next).collect();
        assert_eq!(begins.len(), OPERATIONS);
    }

    #[test]
    fn a_byte_that_goes_wrong_comes_back_wrong() {
        let (mut replay, mut files) = (Replay::new(0), Files::default());
        let mut was_wrong = false;
        for _ in 0..OPERATIONS {
            let mut request = replay.request().to_vec();
            // The last of a long request.
            if request.len() > 60_000 {
                request[60_000] ^= 1;
            }
            was_wrong |= tell(&mut files, &request, MESSAGE_MAX).unwrap() != replay.expected();
        }
        assert!(was_wrong);
    }

    #[test]
    fn a_request_that_cannot_be_is_refused_with_its_lengths() {
        for (request, answer) in [(7, 100), (MESSAGE_MAX + 1, 100), (100, MESSAGE_MAX + 1)] {
            let mut bytes = vec![0; HEADER];
            put_length(&mut bytes, 0, request);
            put_length(&mut bytes, NUMBER, answer);
            let message = tell(&mut Files::default(), &bytes, HEADER).unwrap_err().to_string();
            assert!(
                message.contains(&format!("of {request} that wants {answer}")),
                "{message}"
            );
        }
    }
}
