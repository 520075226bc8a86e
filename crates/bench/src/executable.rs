//! A program that runs are started from, and whether it is still the one that it was.
//!
//! A build puts a new file in the place of the old one, while a comparison that began with the old one goes on: half of
//! its figures would be of another program, and its report names one commit.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::outcome::Stop;

/// A program, as it was when it was first looked at.
#[derive(Debug)]
pub(crate) struct Executable {
    path: PathBuf,
    /// `None` if there was none.
    identity: Option<Identity>,
}

/// What differs between two files, or two versions of one: device, number, and time of the last change in seconds and
/// nanoseconds. A file that cargo only puts in place again keeps all of it.
type Identity = (u64, u64, i64, i64);

impl Executable {
    /// Looks at what is there.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self {
            identity: identity(&path),
            path,
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is, if it is still the same.
    ///
    /// # Errors
    /// [`Stop::Failed`] if another one has taken its place.
    pub(crate) fn unchanged(&self) -> Result<&Path, Stop> {
        if identity(&self.path) == self.identity {
            Ok(&self.path)
        } else {
            Err(Stop::failed(format!(
                "{} was built, replaced or removed since this command began",
                self.path.display()
            )))
        }
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino(), metadata.mtime(), metadata.mtime_nsec()))
}
