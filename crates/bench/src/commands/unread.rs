//! For tests: what is printed, and nobody reads.

use std::io::{self, Write};

/// A reader that has gone after the first line, as `head -1`.
pub(super) struct FirstLine(pub(super) Vec<u8>);

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
