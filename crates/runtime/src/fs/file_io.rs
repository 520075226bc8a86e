//! Reading, writing and seeking in a file, by its own methods and by the traits of `futures-io`.

use std::future::poll_fn;
use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncSeek, AsyncWrite};

use super::file::{File, ends_before};
use crate::coop;

/// How much `read_to_end` asks for first, and at most, bytes.
const FIRST: usize = 32 * 1024;
const MOST: usize = 1024 * 1024;

impl File {
    /// Reads what is there, at most [2 MiB](Self::set_max_buf_size), into `buffer`; returns how many bytes. Zero means
    /// that the file ends here, or that `buffer` is empty.
    ///
    /// # Errors
    ///
    /// Those of `read(2)`.
    ///
    /// # Cancel safety
    ///
    /// Strict: what was read for a future that was dropped is the next read's.
    pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (stream, length_max) = (self.stream.get_mut(), self.length_max);
        // So that the end of the file is one that this call has met.
        poll_fn(|cx| stream.poll_left_for_read(cx)).await?;
        poll_fn(|cx| stream.poll_read(cx, buffer, length_max)).await
    }

    /// Fills `buffer`.
    ///
    /// # Errors
    ///
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the file ends before; those of [`read`](Self::read).
    ///
    /// # Cancel safety
    ///
    /// Loses what was read so far: it is in `buffer`, but how much isn't known. [`read`](Self::read) in a loop keeps
    /// count.
    pub async fn read_exact(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        if buffer.is_empty() {
            coop::consume_budget().await;
        }
        while !buffer.is_empty() {
            match self.read(buffer).await? {
                0 => return Err(ends_before("buffer was full")),
                length => buffer = &mut buffer[length..],
            }
        }
        Ok(())
    }

    /// Reads to the end of the file; appends to `buffer`, returns how many bytes. For a whole file
    /// [`fs::read`](super::read) is faster.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read); what was read before is in `buffer`.
    ///
    /// # Cancel safety
    ///
    /// Strict: what was read is in `buffer`.
    pub async fn read_to_end(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let mut chunk = vec![0; FIRST];
        let mut total = 0;
        loop {
            match self.read(&mut chunk).await? {
                0 => return Ok(total),
                length => {
                    buffer.extend_from_slice(&chunk[..length]);
                    total += length;
                    // It was full: there may be much more.
                    if length == chunk.len() && length < MOST {
                        chunk.resize(2 * length, 0);
                    }
                }
            }
        }
    }

    /// Reads to the end of the file; appends to `text`, returns how many bytes.
    ///
    /// # Errors
    ///
    /// [`InvalidData`](io::ErrorKind::InvalidData) if that isn't UTF-8; those of [`read`](Self::read). `text` is as
    /// before then.
    ///
    /// # Cancel safety
    ///
    /// Loses what was read so far. [`read_to_end`](Self::read_to_end) keeps it.
    pub async fn read_to_string(&mut self, text: &mut String) -> io::Result<usize> {
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes).await?;
        let more = String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        text.push_str(&more);
        Ok(more.len())
    }

    /// Takes over a copy of the beginning of `buffer`, at most [2 MiB](Self::set_max_buf_size), to be written; returns
    /// how many bytes. That they are accepted does not say that they are written: [`flush`](Self::flush) does.
    ///
    /// # Errors
    ///
    /// That of an earlier write; the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: a write that was dropped has accepted nothing.
    pub async fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buffer)]).await
    }

    /// [`write`](Self::write) of several buffers, one after the other, which makes them one operation for the system.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// Strict: a write that was dropped has accepted nothing.
    pub async fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let (stream, length_max) = (self.stream.get_mut(), self.length_max);
        poll_fn(|cx| stream.poll_write(cx, buffers, length_max)).await
    }

    /// Takes over a copy of all of `buffer`, to be written.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// Loses the count: a part may have been accepted. [`write`](Self::write) in a loop keeps it.
    pub async fn write_all(&mut self, mut buffer: &[u8]) -> io::Result<()> {
        if buffer.is_empty() {
            coop::consume_budget().await;
        }
        while !buffer.is_empty() {
            let length = self.write(buffer).await?;
            buffer = &buffer[length..];
        }
        Ok(())
    }

    /// Waits until the system has all that was written.
    ///
    /// # Errors
    ///
    /// Those of `write(2)`, for writes since the last error that was told.
    ///
    /// # Cancel safety
    ///
    /// Strict.
    pub async fn flush(&mut self) -> io::Result<()> {
        let stream = self.stream.get_mut();
        poll_fn(|cx| stream.poll_flush(cx)).await
    }

    /// Goes to another position, after all that was written; returns it, in bytes from the start.
    ///
    /// # Errors
    ///
    /// Those of `lseek(2)`, for example for a position before the start.
    ///
    /// # Cancel safety
    ///
    /// Loses whether it went there. Calling it again with the same [`SeekFrom::Current`] goes there once, if nothing
    /// was called in between; [`SeekFrom::Start`] and [`SeekFrom::End`] go there again, which does no harm.
    pub async fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let stream = self.stream.get_mut();
        if matches!(to, SeekFrom::Start(_) | SeekFrom::End(_) | SeekFrom::Current(0)) {
            // So that the position is one that this call has gone to. A relative one it may have gone to before.
            poll_fn(|cx| stream.poll_settled(cx)).await;
        }
        poll_fn(|cx| stream.poll_seek(cx, to)).await
    }

    /// Goes to the start.
    ///
    /// # Errors
    ///
    /// Those of [`seek`](Self::seek).
    ///
    /// # Cancel safety
    ///
    /// Loses whether it went there; calling it again does no harm.
    pub async fn rewind(&mut self) -> io::Result<()> {
        self.seek(SeekFrom::Start(0)).await.map(drop)
    }

    /// The position, in bytes from the start, after all that was written.
    ///
    /// # Errors
    ///
    /// Those of [`seek`](Self::seek).
    ///
    /// # Cancel safety
    ///
    /// Strict.
    pub async fn stream_position(&mut self) -> io::Result<u64> {
        self.seek(SeekFrom::Current(0)).await
    }
}

impl AsyncRead for File {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let length_max = self.length_max;
        self.stream.get_mut().poll_read(cx, buffer, length_max)
    }
}

/// Closing is flushing; the file is closed when it is dropped.
impl AsyncWrite for File {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buffer)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length_max = self.length_max;
        self.stream.get_mut().poll_write(cx, buffers, length_max)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.get_mut().poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl AsyncSeek for File {
    fn poll_seek(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: SeekFrom) -> Poll<io::Result<u64>> {
        self.stream.get_mut().poll_seek(cx, to)
    }
}
