//! Files and directories.
//!
//! The system has no way to wait for a regular file: its calls return when they are done. So each operation here is a
//! job for the threads on which code may block
//! ([`Builder::max_blocking_threads`](crate::Builder::max_blocking_threads)), and costs a change of threads there and
//! back. Many small operations in a row are cheaper as one closure of std's calls in
//! [`spawn_blocking`](crate::spawn_blocking); whole files are best read and written by [`read`] and [`write()`].
//!
//! Names, arguments and errors are those of `std::fs`. All work in tasks, and by [`.wait()`](crate::Wait) on user-level
//! threads and plain ones. All panic outside of a runtime, when first polled.
//!
//! ```
//! # quadrille::Runtime::new().unwrap().block_on(async {
//! # let directory = std::env::temp_dir().join(format!("quadrille-doc-fs-{}", std::process::id()));
//! use quadrille::fs;
//!
//! fs::create_dir_all(&directory).await?;
//! fs::write(directory.join("greeting"), "hello").await?;
//! assert_eq!(fs::read_to_string(directory.join("greeting")).await?, "hello");
//! let mut entries = fs::read_dir(&directory).await?;
//! while let Some(entry) = entries.next_entry().await? {
//!     assert_eq!(entry.file_name(), "greeting");
//! }
//! fs::remove_dir_all(&directory).await?;
//! # std::io::Result::Ok(())
//! # }).unwrap();
//! ```
//!
//! # Cancel safety
//!
//! A job whose future is dropped before a thread has taken it is not begun. One that has begun is done to its end, and
//! nobody hears how it ended. So after dropping, for example, the future of a [`rename`] the file has its old name or
//! its new one, and may yet change from the one to the other. Methods that say *strict* do better.
//!
//! # Shutdown
//!
//! Once the runtime shuts down, operations that have not begun fail with an error of kind
//! [`Other`](std::io::ErrorKind::Other). What [`File`] has accepted for writing is written all the same;
//! [`Runtime::shutdown_timeout`](crate::Runtime::shutdown_timeout) waits for it like for jobs that run.

pub(crate) mod attempt;
mod buffer;
mod dir;
mod file;
mod file_io;
pub(crate) mod job;
mod open_options;
mod path;
mod stateful_job;
mod stream;

pub use std::fs::{FileTimes, FileType, Metadata, Permissions};

pub use self::dir::{DirBuilder, DirEntry, ReadDir, create_dir, create_dir_all, read_dir};
pub use self::file::File;
pub use self::open_options::OpenOptions;
pub use self::path::{
    canonicalize, copy, hard_link, metadata, read, read_link, read_to_string, remove_dir, remove_dir_all, remove_file,
    rename, set_permissions, symlink, symlink_metadata, try_exists, write,
};
