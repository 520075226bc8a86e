//! Pipes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::stream;
use crate::io::AsyncFd;

/// Makes a pipe: what is written to the one end is read from the other. Its buffer is the system's (64 KiB on Linux).
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::net::pipe;
///
/// let (reader, writer) = pipe()?;
/// writer.write_all(b"hello").await?;
/// let mut buffer = [0; 5];
/// reader.read_exact(&mut buffer).await?;
/// assert_eq!(&buffer, b"hello");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
///
/// # Errors
///
/// The process has no descriptors left, or the runtime shuts down.
///
/// # Panics
///
/// Outside of a runtime (reported at the caller).
#[track_caller]
pub fn pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    Ok((
        PipeReader {
            fd: AsyncFd::reader(reader)?,
        },
        PipeWriter {
            fd: AsyncFd::writer(writer)?,
        },
    ))
}

/// The end of a [`pipe`] that is read from.
#[derive(Debug)]
pub struct PipeReader {
    fd: AsyncFd<io::PipeReader>,
}

impl PipeReader {
    /// Reads what is there, at least one byte, into `buffer`; returns how many. Zero means that the other end is closed, or
    /// that `buffer` is empty.
    ///
    /// # Errors
    ///
    /// Those of `read(2)`; the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: a read that was dropped has read nothing.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        stream::read(&self.fd, buffer).await
    }

    /// Fills `buffer`.
    ///
    /// # Errors
    ///
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the other end is closed before; those of [`read`](Self::read).
    ///
    /// # Cancel safety
    ///
    /// Loses what was read so far: it is in `buffer`, but how much isn't known. [`read`](Self::read) in a loop keeps count.
    pub async fn read_exact(&self, buffer: &mut [u8]) -> io::Result<()> {
        stream::read_exact(&self.fd, buffer).await
    }
}

impl AsFd for PipeReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The end of a [`pipe`] that is written to.
#[derive(Debug)]
pub struct PipeWriter {
    fd: AsyncFd<io::PipeWriter>,
}

impl PipeWriter {
    /// Writes what fits, at least one byte, of `buffer`; returns how many.
    ///
    /// # Errors
    ///
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) if the other end is closed; others of `write(2)`; the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: a write that was dropped has written nothing.
    pub async fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        stream::write(&self.fd, buffer).await
    }

    /// Writes all of `buffer`.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// Loses the count: a part may have been written. [`write`](Self::write) in a loop keeps it.
    pub async fn write_all(&self, buffer: &[u8]) -> io::Result<()> {
        stream::write_all(&self.fd, buffer).await
    }
}

impl AsFd for PipeWriter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::{block_on, poll_once, zip};

    use super::*;
    use crate::driver::tests::with_driver;

    #[test]
    fn more_than_the_buffer_goes_through() {
        with_driver(|| {
            let (reader, writer) = pipe().unwrap();
            let sent: Vec<u8> = (0..1_000_000_u32).map(|number| number.to_le_bytes()[0]).collect();
            let mut received = vec![0; sent.len()];
            let (wrote, read) = block_on(zip(writer.write_all(&sent), reader.read_exact(&mut received)));
            wrote.unwrap();
            read.unwrap();
            assert!(sent == received);
        });
    }

    #[test]
    fn a_full_pipe_waits_for_the_reader() {
        with_driver(|| {
            let (reader, writer) = pipe().unwrap();
            let chunk = [7; 4096];
            let mut written = 0;
            while let Some(outcome) = block_on(poll_once(writer.write(&chunk))) {
                written += outcome.unwrap();
            }
            let mut buffer = vec![0; written];
            block_on(reader.read_exact(&mut buffer)).unwrap();
            assert!(block_on(writer.write(&chunk)).unwrap() > 0);
        });
    }

    #[test]
    fn a_closed_end_is_seen_by_the_other() {
        with_driver(|| {
            let (reader, writer) = pipe().unwrap();
            block_on(writer.write_all(b"ab")).unwrap();
            drop(writer);
            let mut buffer = [0; 3];
            let error = block_on(reader.read_exact(&mut buffer)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            assert_eq!(&buffer[..2], b"ab");
            assert_eq!(block_on(reader.read(&mut buffer)).unwrap(), 0);

            let (reader, writer) = pipe().unwrap();
            drop(reader);
            assert_eq!(
                block_on(writer.write(b"a")).unwrap_err().kind(),
                io::ErrorKind::BrokenPipe
            );
        });
    }

    #[test]
    fn nothing_to_read_or_write_needs_no_wait() {
        with_driver(|| {
            let (reader, writer) = pipe().unwrap();
            block_on(reader.read_exact(&mut [])).unwrap();
            block_on(writer.write_all(&[])).unwrap();
        });
    }
}
