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
        let opened = File::options().write(true).create(true).truncate(false).open(path);
        opened
            .and_then(|file| {
                Ok(Self {
                    path: path.to_owned(),
                    metadata: file.metadata()?,
                    file,
                })
            })
            .map_err(|error| Error::Usage(format!("cannot write {}: {error}", path.display())))
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

/// Opens the files of two flags, each where its flag was given.
///
/// # Errors
/// [`Error::Usage`] if one cannot be written, or if both are the same.
pub(super) fn open_both(flags: [&str; 2], paths: [Option<&Path>; 2]) -> Result<[Option<OutFile>; 2], Error> {
    let [one, other] = paths.map(|path| path.map(OutFile::open).transpose());
    let files = [one?, other?];
    if let [Some(one), Some(other)] = &files
        && one.is(other)
    {
        let [one, other] = flags;
        return Err(Error::Usage(format!(
            "{one} and {other} name the same file, expected two"
        )));
    }
    Ok(files)
}
