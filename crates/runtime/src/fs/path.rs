//! Operations on what a path names.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::path::{Path, PathBuf};

use super::job::run;

/// Reads a whole file.
///
/// # Errors
///
/// Those of [`std::fs::read`].
///
/// # Cancel safety
///
/// Strict.
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = path.as_ref().to_owned();
    run(move || fs::read(path)).await
}

/// Reads a whole file of text.
///
/// # Errors
///
/// Those of [`std::fs::read_to_string`]: among them that it isn't UTF-8.
///
/// # Cancel safety
///
/// Strict.
pub async fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let path = path.as_ref().to_owned();
    run(move || fs::read_to_string(path)).await
}

/// Writes a whole file: makes it, or replaces what is in it. Copies `contents`.
///
/// # Errors
///
/// Those of [`std::fs::write`].
///
/// # Cancel safety
///
/// As the [module](super) says.
pub async fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let (path, contents) = (path.as_ref().to_owned(), contents.as_ref().to_vec());
    run(move || fs::write(path, contents)).await
}

/// Copies a file with its permissions, and replaces what is in `to`; returns how many bytes.
///
/// # Errors
///
/// Those of [`std::fs::copy`].
///
/// # Cancel safety
///
/// As the [module](super) says.
pub async fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let (from, to) = (from.as_ref().to_owned(), to.as_ref().to_owned());
    run(move || fs::copy(from, to)).await
}

/// Gives a file another name, and replaces what has that.
///
/// # Errors
///
/// Those of [`std::fs::rename`]: among them that the two are on different file systems.
///
/// # Cancel safety
///
/// As the [module](super) says.
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (from.as_ref().to_owned(), to.as_ref().to_owned());
    run(move || fs::rename(from, to)).await
}

/// Gives a file one more name.
///
/// # Errors
///
/// Those of [`std::fs::hard_link`].
///
/// # Cancel safety
///
/// As the [module](super) says.
pub async fn hard_link(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let (original, link) = (original.as_ref().to_owned(), link.as_ref().to_owned());
    run(move || fs::hard_link(original, link)).await
}

/// Makes a symbolic link to `original`, which need not be there.
///
/// # Errors
///
/// Those of [`std::os::unix::fs::symlink`].
///
/// # Cancel safety
///
/// As the [module](super) says.
pub async fn symlink(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let (original, link) = (original.as_ref().to_owned(), link.as_ref().to_owned());
    run(move || std::os::unix::fs::symlink(original, link)).await
}

/// What a symbolic link points to.
///
/// # Errors
///
/// Those of [`std::fs::read_link`].
///
/// # Cancel safety
///
/// Strict.
pub async fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref().to_owned();
    run(move || fs::read_link(path)).await
}

/// The path without links, `.` and `..`, from the root.
///
/// # Errors
///
/// Those of [`std::fs::canonicalize`].
///
/// # Cancel safety
///
/// Strict.
pub async fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref().to_owned();
    run(move || fs::canonicalize(path)).await
}

/// What the system knows of a file; of a symbolic link's target.
///
/// # Errors
///
/// Those of [`std::fs::metadata`].
///
/// # Cancel safety
///
/// Strict.
pub async fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref().to_owned();
    run(move || fs::metadata(path)).await
}

/// What the system knows of a file; of a symbolic link itself.
///
/// # Errors
///
/// Those of [`std::fs::symlink_metadata`].
///
/// # Cancel safety
///
/// Strict.
pub async fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref().to_owned();
    run(move || fs::symlink_metadata(path)).await
}

/// Whether there is something at `path`; a symbolic link to nothing isn't.
///
/// # Errors
///
/// Those of [`std::fs::exists`]: it can't be found out.
///
/// # Cancel safety
///
/// Strict.
pub async fn try_exists(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = path.as_ref().to_owned();
    run(move || path.try_exists()).await
}

/// Sets who may do what with a file.
///
/// # Errors
///
/// Those of [`std::fs::set_permissions`].
///
/// # Cancel safety
///
/// As the [module](super) says.
pub async fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    run(move || fs::set_permissions(path, permissions)).await
}

/// Removes a file's name, and the file with its last name when nobody has it open.
///
/// # Errors
///
/// Those of [`std::fs::remove_file`].
///
/// # Cancel safety
///
/// As the [module](super) says.
pub async fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    run(move || fs::remove_file(path)).await
}

/// Removes an empty directory.
///
/// # Errors
///
/// Those of [`std::fs::remove_dir`].
///
/// # Cancel safety
///
/// As the [module](super) says.
pub async fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    run(move || fs::remove_dir(path)).await
}

/// Removes a directory with all that is in it; does not follow symbolic links.
///
/// # Errors
///
/// Those of [`std::fs::remove_dir_all`].
///
/// # Cancel safety
///
/// As the [module](super) says.
pub async fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    run(move || fs::remove_dir_all(path)).await
}
