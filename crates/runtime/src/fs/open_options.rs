//! How a file is opened.

use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::file::File;
use super::job::run;

/// How a file is opened, as `std::fs::OpenOptions`: none of the options is set at first.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// # let path = std::env::temp_dir().join(format!("quadrille-doc-options-{}", std::process::id()));
/// use quadrille::fs::{self, OpenOptions};
///
/// for line in ["one\n", "two\n"] {
///     let mut log = OpenOptions::new().append(true).create(true).mode(0o600).open(&path).await?;
///     log.write_all(line.as_bytes()).await?;
///     log.flush().await?;
/// }
/// assert_eq!(fs::read_to_string(&path).await?, "one\ntwo\n");
/// # fs::remove_file(&path).await?;
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a file is opened"]
pub struct OpenOptions(std::fs::OpenOptions);

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// No option set.
    pub fn new() -> Self {
        OpenOptions(std::fs::OpenOptions::new())
    }

    /// For reading.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.0.read(read);
        self
    }

    /// For writing.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.0.write(write);
        self
    }

    /// For writing, each time at the end.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.0.append(append);
        self
    }

    /// Empties the file; needs [`write`](Self::write).
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.0.truncate(truncate);
        self
    }

    /// Makes the file if it isn't there; needs [`write`](Self::write) or [`append`](Self::append).
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.0.create(create);
        self
    }

    /// Makes the file, which must not be there; [`create`](Self::create) and [`truncate`](Self::truncate) say nothing
    /// then.
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.0.create_new(create_new);
        self
    }

    /// Who may do what with a file that is made, before the umask. Default: 0o666.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.0.mode(mode);
        self
    }

    /// More flags of `open(2)`.
    pub fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.0.custom_flags(flags);
        self
    }

    /// Opens the file at `path`.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::OpenOptions::open`].
    ///
    /// # Cancel safety
    ///
    /// As the [module](super) says; a file that was opened for nobody is closed.
    pub async fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let (options, path) = (self.0.clone(), path.as_ref().to_owned());
        run(move || options.open(path)).await.map(File::from_std)
    }
}

impl From<std::fs::OpenOptions> for OpenOptions {
    fn from(options: std::fs::OpenOptions) -> Self {
        OpenOptions(options)
    }
}
