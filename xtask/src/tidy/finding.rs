//! What a check reports.

use std::fmt;

/// A place and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    /// Counted from 1; 0 means the file as a whole.
    line: usize,
    message: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return write!(f, "{}: {}", self.path, self.message);
        }
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Asserts that a check reports exactly these lines; each expectation is a line number and a part of the message.
#[cfg(test)]
pub(crate) fn check_findings(found: &[Finding], expected: &[(usize, &str)]) {
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (finding, (line, part)) in found.iter().zip(expected) {
        assert_eq!(finding.line, *line, "{finding}");
        assert!(finding.message.contains(part), "`{part}` is not in `{finding}`");
    }
}
