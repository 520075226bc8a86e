//! What was odd about a machine, and which file said so.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// A file that was missing or odd, and what was assumed instead. Prints as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The file or directory.
    pub file: PathBuf,
    /// What is wrong with it and what was assumed instead, in lower case.
    pub problem: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.problem)
    }
}

/// Collects warnings; of those that say the same about many files it keeps the first and counts the rest.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    found: Vec<(&'static str, Warning, usize)>,
}

impl Warnings {
    /// `found` is what is there, `expected` what should be and what is assumed now.
    pub(crate) fn push(&mut self, file: &Path, found: &str, expected: &'static str) {
        if let Some((_, _, more)) = self.found.iter_mut().find(|(key, ..)| *key == expected) {
            *more += 1;
            return;
        }
        let problem = format!("{found}: {expected}");
        let file = file.to_owned();
        self.found.push((expected, Warning { file, problem }, 0));
    }

    /// Takes over what others have found.
    pub(crate) fn extend(&mut self, others: Self) {
        for (expected, warning, more) in others.found {
            match self.found.iter_mut().find(|(key, ..)| *key == expected) {
                Some((_, _, count)) => *count += 1 + more,
                None => self.found.push((expected, warning, more)),
            }
        }
    }

    pub(crate) fn into_vec(self) -> Vec<Warning> {
        let finish = |(_, mut warning, more): (_, Warning, usize)| {
            if more > 0 {
                warning.problem += &format!(" (and {more} more like it)");
            }
            warning
        };
        self.found.into_iter().map(finish).collect()
    }
}
