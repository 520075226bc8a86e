//! Pipes.

use std::fs::OpenOptions;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::stream::{self, Sink, Source, impl_read, impl_write, read_methods, ready_methods, write_methods};
use crate::io::{AsyncFd, Interest, Progress, Ready, impl_as_fd};
use crate::reactor::Side;
use crate::sys;

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
    Ok((PipeReader::from_std(reader)?, PipeWriter::from_std(writer)?))
}

/// The end of a [`pipe`], or of a named one, that is read from. It is watched for that alone: whoever waits for
/// [`WRITABLE`](Interest::WRITABLE) waits for ever.
#[derive(Debug)]
pub struct PipeReader {
    fd: AsyncFd<io::PipeReader>,
}

impl PipeReader {
    /// Opens the named pipe (FIFO) at `path`, without waiting for a writer. A read answers zero while no writer has it
    /// open, and again when the last one has closed it: [`readable`](Self::readable) waits for the first.
    ///
    /// # Errors
    ///
    /// `path` is no named pipe ([`InvalidInput`](io::ErrorKind::InvalidInput)); those of `open(2)`; the runtime shuts
    /// down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn open<P: AsRef<Path>>(path: P) -> io::Result<PipeReader> {
        let pipe = sys::fd::open_fifo(path.as_ref(), OpenOptions::new().read(true))?;
        Self::from_std(pipe.into())
    }

    /// Takes over a pipe of `std`, and sets it to non-blocking mode. Any descriptor that is read like a pipe can be
    /// made one. Several tasks may read a terminal at a time, as any; with an [`AsyncFd`], or by
    /// `async_io`, one that is in the way of another waits for the next line.
    ///
    /// # Errors
    ///
    /// The system has no room for the watch; or the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn from_std(pipe: io::PipeReader) -> io::Result<PipeReader> {
        Ok(PipeReader {
            fd: AsyncFd::byte_reader(pipe)?,
        })
    }

    /// Gives the pipe to `std`, still in non-blocking mode.
    #[must_use]
    pub fn into_std(self) -> io::PipeReader {
        self.fd.into_inner()
    }

    read_methods!();
    ready_methods!();

    pub(crate) fn fd(&self) -> &AsyncFd<io::PipeReader> {
        &self.fd
    }
}

/// A writer may have put the pipe into packet mode (`O_DIRECT`), where a read ends with a packet. So to get less than
/// there was room for exhausts nothing.
impl Source for io::PipeReader {
    fn read(&self, buffer: &mut [u8]) -> io::Result<Progress<usize>> {
        sys::fd::read(self, buffer).map(Progress::only)
    }

    fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Progress<usize>> {
        stream::read_vectored(self, buffers).map(Progress::unknown)
    }

    fn read_uninit(&self, buffer: &mut [MaybeUninit<u8>]) -> io::Result<Progress<usize>> {
        sys::fd::read_uninit(self, buffer).map(Progress::only)
    }
}

impl_read!(PipeReader, &PipeReader);

impl_as_fd!(fd: PipeReader);

/// The end of a [`pipe`], or of a named one, that is written to. It is watched for that alone: whoever waits for
/// [`READABLE`](Interest::READABLE) waits for ever.
///
/// Its reader sees the end when it is dropped, and not before: to close it as an `AsyncWrite` does nothing.
#[derive(Debug)]
pub struct PipeWriter {
    fd: AsyncFd<io::PipeWriter>,
}

impl PipeWriter {
    /// Opens the named pipe (FIFO) at `path`, which a reader must have open.
    ///
    /// # Errors
    ///
    /// No reader has it open (`ENXIO`); `path` is no named pipe ([`InvalidInput`](io::ErrorKind::InvalidInput)); others
    /// of `open(2)`; the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn open<P: AsRef<Path>>(path: P) -> io::Result<PipeWriter> {
        let pipe = sys::fd::open_fifo(path.as_ref(), OpenOptions::new().write(true))?;
        Self::from_std(pipe.into())
    }

    /// Takes over a pipe of `std`, and sets it to non-blocking mode. Any descriptor that is written like a pipe can be
    /// made one.
    ///
    /// # Errors
    ///
    /// The system has no room for the watch; or the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn from_std(pipe: io::PipeWriter) -> io::Result<PipeWriter> {
        Ok(PipeWriter {
            fd: AsyncFd::writer(pipe)?,
        })
    }

    /// Gives the pipe to `std`, still in non-blocking mode.
    #[must_use]
    pub fn into_std(self) -> io::PipeWriter {
        self.fd.into_inner()
    }

    write_methods!();
    ready_methods!();

    pub(crate) fn fd(&self) -> &AsyncFd<io::PipeWriter> {
        &self.fd
    }

    /// A pipe ends when its writer is dropped.
    fn end(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for io::PipeWriter {
    fn write(&self, buffer: &[u8]) -> io::Result<Progress<usize>> {
        sys::fd::write(self, buffer).map(|count| Progress::of(count, buffer.len()))
    }

    fn write_several(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        sys::fd::write_vectored(self, buffers)
    }
}

impl_write!(PipeWriter, &PipeWriter);

impl_as_fd!(fd: PipeWriter);

#[cfg(test)]
mod tests {
    use futures_lite::future::{block_on, poll_once, zip};

    use super::*;
    use crate::runtime::tests::with_runtime;

    #[test]
    fn more_than_the_buffer_goes_through() {
        with_runtime(|| {
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
        with_runtime(|| {
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
        with_runtime(|| {
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
        with_runtime(|| {
            let (reader, writer) = pipe().unwrap();
            block_on(reader.read_exact(&mut [])).unwrap();
            block_on(writer.write_all(&[])).unwrap();
        });
    }
}
