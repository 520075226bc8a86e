//! An open file.

use std::fmt;
use std::fs::{FileTimes, Metadata, Permissions};
use std::future::poll_fn;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use super::attempt::patiently;
use super::job::run;
use super::open_options::OpenOptions;
use super::stream::Stream;
use crate::coop;
use crate::io::impl_as_fd;
use crate::reactor::Side;
use crate::sync::Mutex;

/// An open file.
///
/// Reading, writing and seeking use and move the file's position. They take `&mut self`: one at a time.
/// [`read_at`](Self::read_at) and [`write_at`](Self::write_at) use no position, and any number may be under way.
///
/// What is no regular file, such as a pipe, is waited for by the thread that does the operation, also where the
/// descriptor is non-blocking: use [`AsyncFd`](crate::io::AsyncFd), or the types of [`net`](crate::net), for what may
/// take long. As with a pipe that blocks the end of the runtime waits for it, and no read or write has
/// [`WouldBlock`](io::ErrorKind::WouldBlock) for an error: a driver's, where there is nothing to wait for, is of the
/// kind [`Other`](io::ErrorKind::Other).
///
/// # Writing and flushing
///
/// A write is accepted once its bytes are copied (at most [2 MiB](Self::set_max_buf_size)), and is carried out behind
/// the caller's back, also if the file is dropped or the runtime shuts down. Its error is told by the next write, or by
/// [`flush`](Self::flush), [`sync_all`](Self::sync_all) or [`sync_data`](Self::sync_data): who must know flushes before
/// dropping. That the system has the bytes does not mean that the disk has them; `sync_all` means that.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// # let path = std::env::temp_dir().join(format!("quadrille-doc-file-{}", std::process::id()));
/// use quadrille::fs::File;
///
/// let mut file = File::create(&path).await?;
/// file.write_all(b"hello").await?;
/// file.flush().await?;
/// drop(file);
///
/// let mut text = String::new();
/// File::open(&path).await?.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # quadrille::fs::remove_file(&path).await?;
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
pub struct File {
    pub(super) std: Arc<std::fs::File>,
    /// Locked by methods that take `&self`; the others have it by `get_mut`.
    pub(super) stream: Mutex<Stream>,
    /// Most bytes of one read or write.
    pub(super) length_max: usize,
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::open`].
    ///
    /// # Cancel safety
    ///
    /// Strict: a file that was opened for nobody is closed.
    pub async fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::options().read(true).open(path).await
    }

    /// Opens a file for writing; makes it if it isn't there, empties it if it is.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::create`].
    ///
    /// # Cancel safety
    ///
    /// As the [module](super) says.
    pub async fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::options().write(true).create(true).truncate(true).open(path).await
    }

    /// Makes a file and opens it for reading and writing.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::create_new`]: among them that it is there.
    ///
    /// # Cancel safety
    ///
    /// As the [module](super) says.
    pub async fn create_new(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::options().read(true).write(true).create_new(true).open(path).await
    }

    /// Settings for opening a file.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Takes over a file of std's.
    #[must_use]
    pub fn from_std(file: std::fs::File) -> Self {
        File::new(Arc::new(file), LENGTH_MAX)
    }

    fn new(std: Arc<std::fs::File>, length_max: usize) -> Self {
        let stream = Mutex::new(Stream::new(Arc::clone(&std)));
        File {
            std,
            stream,
            length_max,
        }
    }

    /// Gives the file to std, after all that was written, at the position that the methods of this file go by.
    ///
    /// # Errors
    ///
    /// A write has failed; something was read ahead of what can't seek, and would be lost; the runtime shuts down; the
    /// process has no descriptors left, if an operation is still under way whose future was dropped.
    ///
    /// # Cancel safety
    ///
    /// Not safe: it closes the file. [`try_into_std`](Self::try_into_std) gives it back.
    pub async fn into_std(mut self) -> io::Result<std::fs::File> {
        self.flush().await?;
        let stream = self.stream.get_mut();
        poll_fn(|cx| stream.poll_synced(cx)).await?;
        if !stream.is_synced() {
            return Err(io::Error::new(
                io::ErrorKind::NotSeekable,
                "what was read ahead of what can't seek would be lost",
            ));
        }
        let File { std, stream, .. } = self;
        drop(stream);
        Arc::try_unwrap(std).or_else(|shared| shared.try_clone())
    }

    /// Gives the file to std.
    ///
    /// # Errors
    ///
    /// Gives the file back if an operation is under way, if something was read and not taken, or if the error of a
    /// write was not told yet.
    pub fn try_into_std(mut self) -> Result<std::fs::File, Self> {
        if !self.stream.get_mut().is_synced() {
            return Err(self);
        }
        let File {
            std,
            stream,
            length_max,
        } = self;
        drop(stream);
        Arc::try_unwrap(std).map_err(|std| File::new(std, length_max))
    }

    /// Another handle of the same open file, after all that was written. The two share one position; the bound on
    /// [one read or write](Self::set_max_buf_size) is copied.
    ///
    /// # Errors
    ///
    /// The process has no descriptors left; the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict.
    pub async fn try_clone(&self) -> io::Result<Self> {
        self.synced().await?;
        let std = Arc::clone(&self.std);
        let clone = run(move || std.try_clone()).await?;
        Ok(File::new(Arc::new(clone), self.length_max))
    }

    /// Waits until the disk has all that was written, and the metadata.
    ///
    /// # Errors
    ///
    /// A write has failed; those of `fsync(2)`.
    ///
    /// # Cancel safety
    ///
    /// As the [module](super) says; an error of a write that was not told is told by the next call.
    pub async fn sync_all(&self) -> io::Result<()> {
        self.flushed().await?;
        let std = Arc::clone(&self.std);
        run(move || std.sync_all()).await
    }

    /// Waits until the disk has all that was written, and as much of the metadata as it takes to read it.
    ///
    /// # Errors
    ///
    /// A write has failed; those of `fdatasync(2)`.
    ///
    /// # Cancel safety
    ///
    /// As the [module](super) says; an error of a write that was not told is told by the next call.
    pub async fn sync_data(&self) -> io::Result<()> {
        self.flushed().await?;
        let std = Arc::clone(&self.std);
        run(move || std.sync_data()).await
    }

    /// Cuts the file to `size` bytes, or extends it by zeros, after all that was written. The position stays.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::set_len`].
    ///
    /// # Cancel safety
    ///
    /// As the [module](super) says.
    pub async fn set_len(&self, size: u64) -> io::Result<()> {
        self.synced().await?;
        let std = Arc::clone(&self.std);
        run(move || std.set_len(size)).await
    }

    /// What the system knows of the file, after all that was written.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::metadata`].
    ///
    /// # Cancel safety
    ///
    /// Strict.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        self.settled().await;
        let std = Arc::clone(&self.std);
        run(move || std.metadata()).await
    }

    /// Sets who may do what with the file.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::set_permissions`].
    ///
    /// # Cancel safety
    ///
    /// As the [module](super) says.
    pub async fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        let std = Arc::clone(&self.std);
        run(move || std.set_permissions(permissions)).await
    }

    /// Sets the times of the file, after all that was written.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::set_times`].
    ///
    /// # Cancel safety
    ///
    /// As the [module](super) says.
    pub async fn set_times(&self, times: FileTimes) -> io::Result<()> {
        self.settled().await;
        let std = Arc::clone(&self.std);
        run(move || std.set_times(times)).await
    }

    /// Sets when the file was changed last.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::set_modified`].
    ///
    /// # Cancel safety
    ///
    /// As the [module](super) says.
    pub async fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.set_times(FileTimes::new().set_modified(time)).await
    }

    /// Reads what is there at `offset`, at most 2 MiB, into `buffer`; returns how many bytes. Zero means that the file
    /// ends there, or that `buffer` is empty. Neither uses nor moves the position, and does not wait for writes that
    /// do.
    ///
    /// # Errors
    ///
    /// Those of `pread(2)`.
    ///
    /// # Cancel safety
    ///
    /// Strict.
    pub async fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if buffer.is_empty() {
            coop::consume_budget().await;
            return Ok(0);
        }
        let std = Arc::clone(&self.std);
        let mut bytes = vec![0; buffer.len().min(LENGTH_MAX)];
        let bytes = run(move || {
            let length = patiently(&mut &*std, Side::Read, |std| std.read_at(&mut bytes, offset))?;
            bytes.truncate(length);
            Ok(bytes)
        })
        .await?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    ///
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the file ends before; those of [`read_at`](Self::read_at).
    ///
    /// # Cancel safety
    ///
    /// Strict: `buffer` is filled in part.
    pub async fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        if buffer.is_empty() {
            coop::consume_budget().await;
        }
        while !buffer.is_empty() {
            match self.read_at(buffer, offset).await? {
                0 => return Err(ends_before("buffer was full")),
                length => {
                    buffer = &mut buffer[length..];
                    offset += length as u64;
                }
            }
        }
        Ok(())
    }

    /// Writes the beginning of `buffer`, at most 2 MiB, at `offset`; returns how many bytes. Neither uses nor moves the
    /// position. Unlike [`write`](Self::write) it ends when the system has the bytes.
    ///
    /// # Errors
    ///
    /// Those of `pwrite(2)`.
    ///
    /// # Cancel safety
    ///
    /// As the [module](super) says; calling it again with the same arguments does no harm.
    pub async fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        if buffer.is_empty() {
            coop::consume_budget().await;
            return Ok(0);
        }
        let std = Arc::clone(&self.std);
        let bytes = buffer[..buffer.len().min(LENGTH_MAX)].to_vec();
        run(move || patiently(&mut &*std, Side::Write, |std| std.write_at(&bytes, offset))).await
    }

    /// Writes all of `buffer` from `offset` on.
    ///
    /// # Errors
    ///
    /// Those of [`write_at`](Self::write_at).
    ///
    /// # Cancel safety
    ///
    /// As [`write_at`](Self::write_at).
    pub async fn write_all_at(&self, mut buffer: &[u8], mut offset: u64) -> io::Result<()> {
        if buffer.is_empty() {
            coop::consume_budget().await;
        }
        while !buffer.is_empty() {
            match self.write_at(buffer, offset).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                length => {
                    buffer = &buffer[length..];
                    offset += length as u64;
                }
            }
        }
        Ok(())
    }

    /// Most bytes that one read or write takes to another thread, at least 1. Default: 2 MiB.
    pub fn set_max_buf_size(&mut self, length: usize) {
        self.length_max = length.max(1);
    }

    /// What [`set_max_buf_size`](Self::set_max_buf_size) has set, bytes.
    #[must_use]
    pub fn max_buf_size(&self) -> usize {
        self.length_max
    }

    /// Waits for a write under way, and leaves its error.
    async fn settled(&self) {
        let mut stream = self.stream.lock().await;
        poll_fn(|cx| stream.poll_settled(cx)).await;
    }

    /// The same, and brings the file to the position that the user knows.
    async fn synced(&self) -> io::Result<()> {
        let mut stream = self.stream.lock().await;
        poll_fn(|cx| stream.poll_synced(cx)).await
    }

    /// Waits for a write under way, and tells of its error.
    async fn flushed(&self) -> io::Result<()> {
        let mut stream = self.stream.lock().await;
        poll_fn(|cx| stream.poll_flush(cx)).await
    }
}

/// Most bytes that one operation takes to another thread: more is neither faster nor kind to memory.
const LENGTH_MAX: usize = 2 * 1024 * 1024;

/// The error of reads that want more than there is.
pub(super) fn ends_before(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!("the file ended before the {what}"),
    )
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> Self {
        File::from_std(file)
    }
}

impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> Self {
        File::from_std(fd.into())
    }
}

impl FromRawFd for File {
    unsafe fn from_raw_fd(fd: RawFd) -> Self {
        // SAFETY: the caller's promise is std's, passed on.
        let file = unsafe { std::fs::File::from_raw_fd(fd) };
        File::from_std(file)
    }
}

impl_as_fd!(std: File);

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("std", &self.std).finish_non_exhaustive()
    }
}
