//! The one error of this crate: which file, token or CPU, and what was expected there.

use alloc::{boxed::Box, string::String};
use core::{error::Error, fmt};

/// Why a machine could not be described, read or obeyed.
///
/// The message names the offending file, token or CPU and says what was expected. The kinds are asked for with the
/// `is_*` predicates; they may grow.
#[derive(Debug)]
pub struct TopologyError {
    kind: Kind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync + 'static>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Syntax,
    TooLarge,
    Invalid,
    #[cfg(feature = "std")]
    Io,
    #[cfg(feature = "std")]
    Unsupported,
    #[cfg(feature = "hwloc")]
    Hwloc,
}

impl TopologyError {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    pub(crate) fn syntax(message: impl Into<String>) -> Self {
        Self::new(Kind::Syntax, message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(Kind::TooLarge, message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    /// A string did not follow its grammar (synthetic machines, CPU lists, group sizes).
    #[must_use]
    pub fn is_syntax(&self) -> bool {
        self.kind == Kind::Syntax
    }

    /// A machine with more than 65,535 hardware threads, or a CPU number above 1,048,575.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.kind == Kind::TooLarge
    }

    /// Well-formed input that does not fit the machine, such as a group map that leaves a hardware thread out.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.kind == Kind::Invalid
    }
}

#[cfg(feature = "std")]
impl TopologyError {
    /// Of the unsupported kind if that is what `source` says.
    pub(crate) fn io(message: impl Into<String>, source: std::io::Error) -> Self {
        Self {
            kind: match source.kind() {
                std::io::ErrorKind::Unsupported => Kind::Unsupported,
                _ => Kind::Io,
            },
            message: message.into(),
            source: Some(source.into()),
        }
    }

    /// A file could not be read, or the operating system refused a call; [`Error::source`] is the [`std::io::Error`].
    #[must_use]
    pub fn is_io(&self) -> bool {
        self.kind == Kind::Io
    }

    /// This operating system has no such call.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        self.kind == Kind::Unsupported
    }
}

#[cfg(feature = "hwloc")]
impl TopologyError {
    pub(crate) fn hwloc(message: impl Into<String>, source: impl Error + Send + Sync + 'static) -> Self {
        Self {
            kind: Kind::Hwloc,
            message: message.into(),
            source: Some(Box::new(source)),
        }
    }

    /// The hwloc library refused; [`Error::source`] is its own error.
    #[must_use]
    pub fn is_hwloc(&self) -> bool {
        self.kind == Kind::Hwloc
    }
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for TopologyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn Error + 'static))
    }
}
