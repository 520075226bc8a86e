//! Files.

use std::fs::FileType;
use std::io::{self, Seek};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::{BufResult, IoBuf, RingFd};
use crate::coop;
use crate::fs::attempt::patiently;
use crate::fs::job::run;
use crate::panics::quietly;
use crate::reactor::Side;
use crate::runtime::with_current;
use crate::sys::ring::{Fsync, ReadAt, WriteAt};

/// An open file that is read and written at offsets.
///
/// There is no position and no buffer in between, as there is in [`fs::File`](crate::fs::File): any number of
/// operations may be under way, and each ends when the system has done it.
///
/// By io_uring the kernel writes and syncs files on threads of its own. If it gets none, because a limit of threads is
/// reached, an operation fails with `ECANCELED` after 8 repeats, some 0.4 s, where the fall-back would tell that there
/// is no thread.
///
/// What has no offsets, a FIFO, a terminal, or a counter or timer of the system's (eventfd, timerfd), is neither read
/// nor written: [`NotSeekable`](io::ErrorKind::NotSeekable), as the system's calls have it.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// # let path = std::env::temp_dir().join(format!("quadrille-doc-uring-{}", std::process::id()));
/// use quadrille::uring::File;
///
/// let file = File::create(&path).await?;
/// let (written, _) = file.write_all_at("hello", 0).await;
/// written?;
/// file.sync_all().await?;
///
/// let file = File::open(&path).await?;
/// let (read, buffer) = file.read_at(Vec::with_capacity(16), 1).await;
/// assert_eq!(&buffer[..read?], b"ello");
/// # quadrille::fs::remove_file(&path).await?;
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct File(Kind);

#[derive(Debug)]
enum Kind {
    Ring(RingFd),
    Pool(Arc<std::fs::File>),
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::open`]; the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Strict: a file that was opened for nobody is closed.
    pub async fn open(path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref().to_owned();
        run(move || std::fs::File::open(path)).await.map(Self::from_std)
    }

    /// Opens a file for writing; makes it if it isn't there, empties it if it is.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::create`]; the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the file may be made, or emptied, afterwards.
    pub async fn create(path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref().to_owned();
        run(move || std::fs::File::create(path)).await.map(Self::from_std)
    }

    /// Takes over a file of std's, opened as one likes, for the current runtime.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[must_use]
    #[track_caller]
    pub fn from_std(file: std::fs::File) -> File {
        let ring = with_current(|shared| shared.watched_rings().ok().cloned());
        // A ring would pass over the offset, and wait. It is the calls of the other kind that refuse what has none.
        let ring = ring.filter(|_| has_offsets(&file));
        File(match ring {
            Some(rings) => Kind::Ring(RingFd::new(file.into(), &rings)),
            None => Kind::Pool(Arc::new(file)),
        })
    }

    /// Reads what is there at `offset` to the beginning of `buffer`, at most up to its capacity; returns how many
    /// bytes, which is its length then. Zero means that the file ends there, or that `buffer` has no capacity. What was
    /// in it is lost.
    ///
    /// # Errors
    ///
    /// Those of `pread(2)`; [`InvalidInput`](io::ErrorKind::InvalidInput) for an offset above [`i64::MAX`]; the runtime
    /// shuts down. `buffer` comes back empty.
    ///
    /// # Cancel safety
    ///
    /// Strict: what was read can be read again. The buffer is lost.
    pub async fn read_at(&self, mut buffer: Vec<u8>, offset: u64) -> BufResult<usize, Vec<u8>> {
        buffer.clear();
        if let Err(error) = check(offset).await {
            return (Err(error), buffer);
        }
        if buffer.capacity() == 0 {
            coop::consume_budget().await;
            return (Ok(0), buffer);
        }
        match &self.0 {
            Kind::Ring(ring) => {
                let fd = ring.fd();
                ring.run(ReadAt { fd, buffer, offset }).await
            }
            Kind::Pool(file) => {
                let file = Arc::clone(file);
                let read = move |buffer: &mut Vec<u8>| {
                    buffer.resize(buffer.capacity(), 0);
                    let outcome = patiently(&mut &*file, Side::Read, |file| file.read_at(buffer, offset));
                    buffer.truncate(*outcome.as_ref().unwrap_or(&0));
                    outcome
                };
                lend(buffer, read).await
            }
        }
    }

    /// Writes the beginning of `buffer` at `offset`; returns how many bytes.
    ///
    /// # Errors
    ///
    /// Those of `pwrite(2)`; [`InvalidInput`](io::ErrorKind::InvalidInput) for an offset above [`i64::MAX`]; the
    /// runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Loses the count: it may be written, or be written yet. To write the same again does no harm.
    pub async fn write_at<B: IoBuf>(&self, buffer: B, offset: u64) -> BufResult<usize, B> {
        self.write_from(buffer, 0, offset).await
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
    pub async fn write_all_at<B: IoBuf>(&self, mut buffer: B, offset: u64) -> BufResult<(), B> {
        let mut from = 0;
        if buffer.bytes().is_empty() {
            coop::consume_budget().await;
            return (check(offset).await, buffer);
        }
        while from < buffer.bytes().len() {
            let (written, again) = self.write_from(buffer, from, offset + from as u64).await;
            buffer = again;
            match written {
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), buffer),
                Ok(count) => from += count,
                Err(error) => return (Err(error), buffer),
            }
        }
        (Ok(()), buffer)
    }

    /// Writes what is in `buffer` from `from` on.
    async fn write_from<B: IoBuf>(&self, buffer: B, from: usize, offset: u64) -> BufResult<usize, B> {
        if let Err(error) = check(offset).await {
            return (Err(error), buffer);
        }
        match &self.0 {
            Kind::Ring(ring) => {
                let fd = ring.fd();
                let request = WriteAt {
                    fd,
                    buffer,
                    from,
                    offset,
                };
                ring.run(request).await
            }
            Kind::Pool(file) => {
                let file = Arc::clone(file);
                let write = move |buffer: &mut B| {
                    let bytes = &buffer.bytes()[from..];
                    patiently(&mut &*file, Side::Write, |file| file.write_at(bytes, offset))
                };
                lend(buffer, write).await
            }
        }
    }

    /// Waits until the disk has all that was written before, and the metadata.
    ///
    /// # Errors
    ///
    /// Those of `fsync(2)`; the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict.
    pub async fn sync_all(&self) -> io::Result<()> {
        self.sync(false).await
    }

    /// Waits until the disk has all that was written before, and as much of the metadata as it takes to read it.
    ///
    /// # Errors
    ///
    /// Those of `fdatasync(2)`; the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict.
    pub async fn sync_data(&self) -> io::Result<()> {
        self.sync(true).await
    }

    async fn sync(&self, only_data: bool) -> io::Result<()> {
        match &self.0 {
            Kind::Ring(ring) => {
                let fd = ring.fd();
                ring.run(Fsync { fd, only_data }).await
            }
            Kind::Pool(file) => {
                let file = Arc::clone(file);
                run(move || if only_data { file.sync_data() } else { file.sync_all() }).await
            }
        }
    }
}

/// Whether the calls at an offset take it. The questions ask no disk, but the first waits while another thread reads by
/// a duplicate of the descriptor, and the second may ask a server whose file it is.
fn has_offsets(mut file: &std::fs::File) -> bool {
    // What the system makes for its own descriptors (eventfd, timerfd, signalfd) has no type: it lets itself be sought
    // in, and goes nowhere.
    let has_type = |of: FileType| of.is_file() || of.is_dir() || of.is_block_device() || of.is_char_device();
    file.stream_position().is_ok() && file.metadata().is_ok_and(|found| has_type(found.file_type()))
}

/// Refuses what is no offset to the system. A ring would take the highest one for the position of the file.
async fn check(offset: u64) -> io::Result<()> {
    if i64::try_from(offset).is_ok() {
        return Ok(());
    }
    coop::consume_budget().await;
    let message = format!("the offset is {offset}, expected at most {}", i64::MAX);
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Lends `buffer` to an operation on a thread that may block. It comes back also if the operation is never begun. If it
/// panics, as it may in the user's buffer, that goes on here.
async fn lend<B: Send + 'static>(
    buffer: B,
    operation: impl FnOnce(&mut B) -> io::Result<usize> + Send + 'static,
) -> BufResult<usize, B> {
    let place = Arc::new(Mutex::new(Some(buffer)));
    let lent = Arc::clone(&place);
    let take = |place: &Mutex<Option<B>>| place.lock().unwrap_or_else(PoisonError::into_inner).take();
    let outcome = run(move || {
        let mut buffer = take(&lent).expect("the future waits for us to put it back");
        // The buffer goes back in any case.
        let outcome = catch_unwind(AssertUnwindSafe(|| operation(&mut buffer)));
        *lent.lock().unwrap_or_else(PoisonError::into_inner) = Some(buffer);
        Ok(outcome)
    });
    let outcome = outcome.await;
    let buffer = take(&place).expect("the operation has put it back, or was dropped before it took it");
    match outcome {
        Ok(Ok(outcome)) => (outcome, buffer),
        Ok(Err(panic)) => {
            quietly(|| drop(buffer));
            resume_unwind(panic)
        }
        Err(error) => (Err(error), buffer),
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Kind::Ring(ring) => ring.fd.as_fd(),
            Kind::Pool(file) => file.as_fd(),
        }
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
