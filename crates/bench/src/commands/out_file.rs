//! A file that a command writes: opened before its work, and written when there is something to put there.

use std::fs::{self, File, Metadata};
use std::io::{self, Seek, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Error;

/// A file that can be written, and has not been touched. An hour of runs is a high price for a path that cannot be
/// written, so it is opened before the first one; what an earlier command has left in it stays until there is something
/// to put in its place.
#[derive(Debug)]
pub(super) struct OutFile {
    path: PathBuf,
    file: File,
    metadata: Metadata,
    /// Whether it was not there before.
    is_new: bool,
}

impl OutFile {
    /// Opens it, and makes it if it is not there.
    ///
    /// # Errors
    /// [`Error::Usage`] if it cannot be written, or is the file that the command's own output goes to
    /// (`--json /dev/stdout > FILE`), which would be cut off.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let file = Self::open_any(path)?;
        let own = fs::metadata("/dev/stdout")
            .is_ok_and(|stdout| (stdout.dev(), stdout.ino()) == (file.metadata.dev(), file.metadata.ino()));
        if own && file.is_rewritable() {
            let path = path.display();
            return Err(Error::Usage(format!(
                "{path} is where the output of this command goes, expected another file"
            )));
        }
        Ok(file)
    }

    fn open_any(path: &Path) -> Result<Self, Error> {
        Self::try_open(path).map_err(|error| Error::Usage(format!("cannot write {}: {error}", path.display())))
    }

    fn try_open(path: &Path) -> io::Result<Self> {
        let (file, is_new) = match File::options().write(true).create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Made all the same where a link leads to nothing.
                let opened = File::options().write(true).create(true).truncate(false).open(path);
                (opened?, false)
            }
            opened => (opened?, true),
        };
        Ok(Self {
            path: path.to_owned(),
            metadata: file.metadata()?,
            file,
            is_new,
        })
    }

    /// Gives it up before anything was written: an empty file would be left of a command that has done nothing.
    fn give_up(self) {
        if self.is_new {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Whether it can be written again and again: what went into a pipe or a device stays there.
    pub(super) fn is_rewritable(&self) -> bool {
        self.metadata.is_file()
    }

    /// Puts `text` in the place of what is there, or behind what a pipe or a device has got.
    ///
    /// # Errors
    /// [`Error::Output`], which names the file.
    pub(super) fn write(&mut self, text: &str) -> Result<(), Error> {
        let written = self.try_write(text.as_bytes());
        // Not of its own kind: a broken pipe is no fault of who reads stdout, but of who reads this.
        written.map_err(|error| {
            Error::Output(io::Error::other(format!(
                "cannot write {}: {error}",
                self.path.display()
            )))
        })
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_rewritable() {
            self.file.rewind()?;
            self.file.set_len(0)?;
        }
        self.file.write_all(bytes)
    }

    /// Whether two paths have led to one file, by whatever links. A pipe or a device takes both.
    fn is(&self, other: &Self) -> bool {
        let identity = |of: &Self| (of.metadata.dev(), of.metadata.ino());
        self.is_rewritable() && identity(self) == identity(other)
    }
}

/// Opens the files of two flags, each where its flag was given. If one cannot be, the other is as it was.
///
/// # Errors
/// [`Error::Usage`] if one cannot be written, or if both are the same.
pub(super) fn open_both(flags: [&str; 2], paths: [Option<&Path>; 2]) -> Result<[Option<OutFile>; 2], Error> {
    let [first, second] = paths.map(|path| path.map(OutFile::open));
    let refused = match [&first, &second] {
        [Some(Ok(one)), Some(Ok(other))] if one.is(other) => {
            let [one, other] = flags;
            Some(Error::Usage(format!(
                "{one} and {other} name the same file, expected two"
            )))
        }
        _ => None,
    };
    match (first.transpose(), second.transpose(), refused) {
        (Ok(first), Ok(second), None) => Ok([first, second]),
        (first, second, refused) => {
            let mut errors: Vec<Error> = refused.into_iter().collect();
            for opened in [first, second] {
                match opened {
                    Ok(file) => file.into_iter().for_each(OutFile::give_up),
                    Err(error) => errors.push(error),
                }
            }
            Err(errors.swap_remove(0))
        }
    }
}

/// Writes files around what `print` writes to stdout: those that can be written again before it, since nobody may read
/// stdout any more; pipes and devices after it, so that what goes to the same place comes behind it. Each is written
/// even if another cannot be.
///
/// # Errors
/// The first of those of [`OutFile::write`] and `print`.
pub(super) fn write_around<'a>(
    texts: impl IntoIterator<Item = (&'a mut OutFile, String)>,
    print: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let write_all = |texts: Vec<(&mut OutFile, String)>| {
        let written = texts.into_iter().map(|(file, text)| file.write(&text));
        written.fold(Ok(()), Result::and)
    };
    let (files, others) = texts.into_iter().partition(|(file, _)| file.is_rewritable());
    let written = write_all(files);
    written.and(print()).and(write_all(others))
}
