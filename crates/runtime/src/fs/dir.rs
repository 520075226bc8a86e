//! Directories: making them, and what is in them.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, FileType, Metadata};
use std::future::{Future, poll_fn};
use std::io;
use std::os::unix::fs::{DirBuilderExt, DirEntryExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::job::run;
use super::stateful_job::StatefulJob;
use crate::blocking::{AtStop, Reason};
use crate::coop;

/// Makes a directory, whose parent is there.
///
/// # Errors
///
/// Those of [`std::fs::create_dir`].
///
/// # Cancel safety
///
/// As the [module](super) says.
pub async fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    DirBuilder::new().create(path).await
}

/// Makes a directory, and its parents if they aren't there. It may be there.
///
/// # Errors
///
/// Those of [`std::fs::create_dir_all`].
///
/// # Cancel safety
///
/// As the [module](super) says; a part of the parents may have been made.
pub async fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(path).await
}

/// How a directory is made.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// # let path = std::env::temp_dir().join(format!("quadrille-doc-dir-{}", std::process::id()));
/// use quadrille::fs::{self, DirBuilder};
///
/// DirBuilder::new().recursive(true).mode(0o700).create(path.join("a/b")).await?;
/// assert!(fs::metadata(path.join("a/b")).await?.is_dir());
/// # fs::remove_dir_all(&path).await?;
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until a directory is made"]
pub struct DirBuilder {
    recursive: bool,
    mode: Option<u32>,
}

impl DirBuilder {
    /// A builder with the default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether parents are made, too, and it may be there. Default: false.
    pub fn recursive(&mut self, recursive: bool) -> &mut Self {
        self.recursive = recursive;
        self
    }

    /// Who may do what in the directory, before the umask. Default: 0o777.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = Some(mode);
        self
    }

    /// Makes the directory.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::DirBuilder::create`].
    ///
    /// # Cancel safety
    ///
    /// As the [module](super) says.
    pub async fn create(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref().to_owned();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(self.recursive);
        if let Some(mode) = self.mode {
            builder.mode(mode);
        }
        run(move || builder.create(path)).await
    }
}

/// Opens a directory, to go through what is in it.
///
/// # Errors
///
/// Those of [`std::fs::read_dir`].
///
/// # Cancel safety
///
/// Strict.
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref().to_owned();
    let batch = run(move || {
        let mut batch = Batch {
            rest: Some(fs::read_dir(path)?),
            entries: VecDeque::new(),
        };
        batch.fill();
        Ok(batch)
    });
    Ok(ReadDir {
        state: State::Idle(batch.await?),
    })
}

/// Entries that a job reads at a time.
const BATCH_LENGTH: usize = 64;

/// The entries of a directory, in no order, without `.` and `..`; by [`next_entry`](Self::next_entry) or as a stream.
#[derive(Debug)]
pub struct ReadDir {
    state: State,
}

#[derive(Debug)]
enum State {
    Idle(Batch),
    Busy(StatefulJob<Batch, ()>),
}

/// Entries that were read and not taken, and where others come from; `None` at the end.
#[derive(Debug, Default)]
struct Batch {
    entries: VecDeque<io::Result<DirEntry>>,
    rest: Option<fs::ReadDir>,
}

impl Batch {
    /// Reads the next entries.
    fn fill(&mut self) {
        let Some(rest) = &mut self.rest else {
            return;
        };
        for _ in 0..BATCH_LENGTH {
            match rest.next() {
                Some(Ok(entry)) => self.entries.push_back(Ok(DirEntry(Arc::new(entry)))),
                Some(Err(error)) => self.entries.push_back(Err(error)),
                None => {
                    self.rest = None;
                    return;
                }
            }
        }
    }
}

impl ReadDir {
    /// The next entry; `None` at the end.
    ///
    /// # Errors
    ///
    /// Those of `readdir(3)`; others may follow. The system has no thread: the next call goes on where this one has
    /// not. The runtime shuts down: that is the last that is heard.
    ///
    /// # Cancel safety
    ///
    /// Strict: what was read for a future that was dropped is the next call's.
    pub async fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        poll_fn(|cx| self.poll_next_entry(cx)).await
    }

    /// Polls for the next entry; `None` at the end. The task of the last poll is woken.
    ///
    /// # Errors
    ///
    /// As [`next_entry`](Self::next_entry).
    pub fn poll_next_entry(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<DirEntry>>> {
        loop {
            match &mut self.state {
                State::Idle(batch) => {
                    if let Some(entry) = batch.entries.pop_front() {
                        return Poll::Ready(entry.map(Some));
                    }
                    if batch.rest.is_none() {
                        return Poll::Ready(Ok(None));
                    }
                    // Also if it is refused: who goes on after each error gives way.
                    ready!(coop::poll_spend(cx));
                    match StatefulJob::new(AtStop::Drop, std::mem::take(batch), Batch::fill) {
                        Ok(job) => self.state = State::Busy(job),
                        Err((left, reason)) => {
                            *batch = left;
                            if matches!(reason, Reason::Stopping) {
                                batch.rest = None;
                            }
                            return Poll::Ready(Err(reason.into()));
                        }
                    }
                }
                State::Busy(job) => {
                    let (mut batch, filled) = ready!(Pin::new(job).poll(cx));
                    if filled.is_err() {
                        batch.rest = None;
                    }
                    self.state = State::Idle(batch);
                    filled?;
                }
            }
        }
    }
}

impl Stream for ReadDir {
    type Item = io::Result<DirEntry>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_next_entry(cx).map(io::Result::transpose)
    }
}

/// Something in a directory.
#[derive(Clone)]
pub struct DirEntry(Arc<fs::DirEntry>);

impl DirEntry {
    /// Its path: that of the directory as it was opened, and its name.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.0.path()
    }

    /// Its name.
    #[must_use]
    pub fn file_name(&self) -> OsString {
        self.0.file_name()
    }

    /// The number of its inode.
    #[must_use]
    pub fn ino(&self) -> u64 {
        self.0.ino()
    }

    /// What the system knows of it; of a symbolic link itself.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::DirEntry::metadata`].
    ///
    /// # Cancel safety
    ///
    /// Strict.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let entry = Arc::clone(&self.0);
        run(move || entry.metadata()).await
    }

    /// Whether it is a file, a directory, or what else; of a symbolic link itself. Most file systems have told that
    /// with the name, but not all, so it may take a call of the system.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::DirEntry::file_type`].
    ///
    /// # Cancel safety
    ///
    /// Strict.
    pub async fn file_type(&self) -> io::Result<FileType> {
        let entry = Arc::clone(&self.0);
        run(move || entry.file_type()).await
    }
}

impl fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DirEntry").field(&self.path()).finish()
    }
}
