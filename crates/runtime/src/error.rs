//! The errors of the crate.

use std::any::Any;
use std::fmt;
use std::io;

use crate::task::Id;

/// Why a task gave no result.
// In a box: every result of a task is as large as this at least, and a large one is handed on through memory.
pub struct JoinError(Box<Failure>);

const _: () = assert!(size_of::<std::task::Poll<Result<(), JoinError>>>() <= 2 * size_of::<usize>());

struct Failure {
    id: Id,
    /// `None`: cancelled.
    payload: Option<std::sync::Mutex<Box<dyn Any + Send>>>,
}

impl JoinError {
    #[cold]
    pub(crate) fn cancelled(id: Id) -> Self {
        Self(Box::new(Failure { id, payload: None }))
    }

    #[cold]
    pub(crate) fn panicked(id: Id, payload: Box<dyn Any + Send>) -> Self {
        Self(Box::new(Failure {
            id,
            payload: Some(std::sync::Mutex::new(payload)),
        }))
    }

    /// Whether the task was aborted, or dropped because its runtime shut down.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.payload.is_none()
    }

    /// Whether the task panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        self.0.payload.is_some()
    }

    /// The payload of the task's panic, to be passed to [`std::panic::resume_unwind`].
    ///
    /// # Panics
    /// If the task did not panic; see [`is_panic`](Self::is_panic) and [`try_into_panic`](Self::try_into_panic).
    #[must_use]
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send> {
        // Not by a closure, which would not be told of the caller.
        match self.try_into_panic() {
            Ok(payload) => payload,
            Err(error) => panic!("task {} was cancelled, it did not panic", error.id()),
        }
    }

    /// The payload of the task's panic.
    ///
    /// # Errors
    /// The error itself if the task did not panic.
    pub fn try_into_panic(mut self) -> Result<Box<dyn Any + Send>, Self> {
        match self.0.payload.take() {
            Some(payload) => Ok(payload.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)),
            None => Err(self),
        }
    }

    /// The task's id.
    #[must_use]
    pub fn id(&self) -> Id {
        self.0.id
    }

    fn message(&self) -> Option<String> {
        let payload = self.0.payload.as_ref()?.lock().ok()?;
        payload
            .downcast_ref::<&'static str>()
            .map(|message| (*message).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_panic(), self.message()) {
            (false, _) => write!(f, "JoinError::Cancelled({})", self.0.id),
            (true, Some(message)) => write!(f, "JoinError::Panic({}, {message:?})", self.0.id),
            (true, None) => write!(f, "JoinError::Panic({}, ..)", self.0.id),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_panic(), self.message()) {
            (false, _) => write!(f, "task {} was cancelled", self.0.id),
            (true, Some(message)) => write!(f, "task {} panicked with message {message:?}", self.0.id),
            (true, None) => write!(f, "task {} panicked", self.0.id),
        }
    }
}

impl std::error::Error for JoinError {}

/// So that `?` passes it on in a function that reads and writes: of the kind [`Other`](io::ErrorKind::Other), with this
/// error inside.
impl From<JoinError> for io::Error {
    fn from(error: JoinError) -> Self {
        io::Error::other(error)
    }
}

/// Why a runtime could not be built.
#[derive(Debug)]
pub struct BuildError {
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl BuildError {
    pub(crate) fn new(message: String) -> Self {
        Self { message, source: None }
    }

    pub(crate) fn with_source(message: String, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self {
            message,
            source: Some(Box::new(source)),
        }
    }
}

/// So that `?` passes it on in a function that reads and writes: of the kind of what the system said, if it did, else
/// [`Other`](io::ErrorKind::Other), with this error inside.
impl From<BuildError> for io::Error {
    fn from(error: BuildError) -> Self {
        let cause = error
            .source
            .as_ref()
            .and_then(|source| source.downcast_ref::<io::Error>());
        io::Error::new(cause.map_or(io::ErrorKind::Other, io::Error::kind), error)
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
