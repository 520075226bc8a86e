//! Buffers that the kernel may have for a while.

use std::io;
use std::sync::Arc;

/// The result of an operation, and the buffer that it had.
pub type BufResult<T, B> = (io::Result<T>, B);

/// A buffer that can be written from: it is given away with an operation, and comes back with its result.
///
/// Implemented by what owns bytes on the heap, or borrows them for ever. To read takes a `Vec<u8>`.
///
/// # Safety
///
/// [`bytes`](Self::bytes) answers the same slice each time, as long as the value lives and is used by nothing but
/// `bytes`: the memory stays where it is when the value is moved or its thread changes, and nobody writes to it.
pub unsafe trait IoBuf: Send + 'static {
    /// What is to be written.
    fn bytes(&self) -> &[u8];
}

// SAFETY: its bytes are on the heap, and a vector that nobody uses doesn't change them.
unsafe impl IoBuf for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: as a vector's.
unsafe impl IoBuf for String {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

// SAFETY: its bytes are on the heap, and nobody else reaches them.
unsafe impl IoBuf for Box<[u8]> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: its bytes are on the heap as long as there is a reference, and can't be written while there are several;
// there is no way to write by one that nobody uses.
unsafe impl IoBuf for Arc<[u8]> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: they are there for ever, and nobody writes what is borrowed.
unsafe impl IoBuf for &'static [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: as for a slice.
unsafe impl IoBuf for &'static str {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}
