//! For tests: what is printed, and nobody reads.

use std::io::{self, Write};

use super::Error;

/// A reader that has gone after the first line, as `head -1`.
pub(super) struct FirstLine(Vec<u8>);

impl Write for FirstLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.contains(&b'\n') {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.0.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl FirstLine {
    /// One that has read its line.
    pub(super) fn read() -> Self {
        Self(b"the first line\n".to_vec())
    }
}

/// It is told that nobody reads.
pub(super) fn assert_unread(printed: &Result<(), Error>) {
    assert!(
        matches!(printed, Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe),
        "{printed:?}"
    );
}
