//! Bytes on their way between a file and its user.

use std::io::IoSlice;

/// Bytes that were read from a file and not yet taken, or that are about to be written. Keeps its memory between uses.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    /// Initialised throughout, so that it is filled with zeros only where it grows.
    bytes: Vec<u8>,
    /// What is in use: `start..end` of `bytes`.
    start: usize,
    end: usize,
}

impl Buffer {
    /// The bytes in it.
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(super) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Moves as many bytes to `to` as fit; how many.
    pub(super) fn take(&mut self, to: &mut [u8]) -> usize {
        let length = self.len().min(to.len());
        to[..length].copy_from_slice(&self.as_slice()[..length]);
        self.start += length;
        if self.is_empty() {
            self.clear();
        }
        length
    }

    /// Replaces what is in it by the beginning of `from`, one after the other, at most `length_max` bytes; how many.
    pub(super) fn replace(&mut self, from: &[IoSlice<'_>], length_max: usize) -> usize {
        self.bytes.clear();
        for piece in from {
            let length = piece.len().min(length_max - self.bytes.len());
            self.bytes.extend_from_slice(&piece[..length]);
        }
        (self.start, self.end) = (0, self.bytes.len());
        self.end
    }

    /// Replaces what is in it by what `read` puts into `length` bytes.
    pub(super) fn fill<E>(
        &mut self,
        length: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        self.clear();
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
        self.end = read(&mut self.bytes[..length])?;
        Ok(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_comes_out_once_in_pieces_of_any_size() {
        let mut buffer = Buffer::default();
        for size in 1..12 {
            let read = buffer.fill(10, |to| {
                to.copy_from_slice(b"0123456789");
                Ok::<_, ()>(9)
            });
            assert_eq!(read, Ok(9));
            let mut out = Vec::new();
            let mut piece = vec![0; size];
            while !buffer.is_empty() {
                let length = buffer.take(&mut piece);
                out.extend_from_slice(&piece[..length]);
            }
            assert_eq!(out, b"012345678");
            assert_eq!(buffer.take(&mut piece), 0);
        }
    }

    #[test]
    fn a_replacement_is_bounded_and_forgets_what_was_there() {
        let mut buffer = Buffer::default();
        let mut replace = |pieces: &[&[u8]]| {
            let pieces: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
            let length = buffer.replace(&pieces, 4);
            (length, buffer.as_slice().to_vec())
        };
        assert_eq!(replace(&[b"abcdef"]), (4, b"abcd".to_vec()));
        assert_eq!(replace(&[b"ab", b"", b"cde", b"f"]), (4, b"abcd".to_vec()));
        assert_eq!(replace(&[b"", b"ab"]), (2, b"ab".to_vec()));
        assert_eq!(replace(&[b"x"]), (1, b"x".to_vec()));
        assert_eq!(buffer.as_slice(), b"x");
        assert_eq!(buffer.fill(3, |_| Err(())), Err(()));
        assert!(buffer.is_empty());
        assert_eq!(buffer.fill(3, |to| Ok::<_, ()>(to.len())), Ok(3));
        assert_eq!(buffer.len(), 3);
    }
}
