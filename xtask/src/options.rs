//! Command-line options: `--flag`, `--name value`, `--name=value`, plain words, and what follows `--`.
//!
//! The commands are few and take numbers and names only, so this is all the parsing they need. A command takes out what
//! it knows and then calls [`Options::finish`], which rejects the rest.

use std::cell::RefCell;
use std::str::FromStr;

use crate::failure::{Failure, Outcome};

/// Arguments that no command has taken yet.
#[derive(Debug)]
pub(crate) struct Options {
    rest: RefCell<Vec<String>>,
    /// What follows `--`, word for word.
    trailing: RefCell<Vec<String>>,
}

impl Options {
    /// Splits `--name=value` into two words; everything else is kept as it is, and all of it after `--`.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Outcome<Self> {
        let mut rest = Vec::new();
        for arg in args.by_ref().take_while(|arg| arg != "--") {
            match arg.split_once('=') {
                Some((name, value)) if name.starts_with("--") => rest.extend([name.to_owned(), value.to_owned()]),
                _ => rest.push(arg),
            }
        }
        Ok(Self {
            rest: RefCell::new(rest),
            trailing: RefCell::new(args.collect()),
        })
    }

    /// Whether `--name` is there.
    pub(crate) fn flag(&self, name: &str) -> bool {
        let mut rest = self.rest.borrow_mut();
        let position = rest.iter().position(|arg| arg == name);
        position.map(|index| rest.remove(index)).is_some()
    }

    /// The value after `--name`, if the option is there.
    pub(crate) fn value<T: FromStr>(&self, name: &str) -> Outcome<Option<T>> {
        let mut rest = self.rest.borrow_mut();
        let Some(index) = rest.iter().position(|arg| arg == name) else {
            return Ok(None);
        };
        rest.remove(index);
        if index == rest.len() {
            return Err(Failure::usage(format!("{name} needs a value")));
        }
        let text = rest.remove(index);
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(Failure::usage(format!("{name}: cannot use `{text}`"))),
        }
    }

    /// The next word that is not an option.
    pub(crate) fn word(&self) -> Option<String> {
        let mut rest = self.rest.borrow_mut();
        let position = rest.iter().position(|arg| !arg.starts_with('-'));
        position.map(|index| rest.remove(index))
    }

    /// Every value after a `--name`, of which there may be several.
    pub(crate) fn values<T: FromStr>(&self, name: &str) -> Outcome<Vec<T>> {
        let mut all = Vec::new();
        while let Some(value) = self.value(name)? {
            all.push(value);
        }
        Ok(all)
    }

    /// The words after `--`.
    pub(crate) fn trailing(&self) -> Vec<String> {
        self.trailing.take()
    }

    /// Rejects whatever is left.
    pub(crate) fn finish(&self) -> Outcome {
        match self.rest.borrow().iter().chain(self.trailing.borrow().iter()).next() {
            None => Ok(()),
            Some(arg) => Err(Failure::usage(format!(
                "unexpected argument `{arg}`; `cargo xtask` lists the options"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(args: &[&str]) -> Options {
        Options::parse(args.iter().map(|&arg| arg.to_owned())).expect("plain words always parse")
    }

    #[test]
    fn takes_flags_values_and_words_in_any_order() {
        let options = options(&["word", "--seconds=5", "--list", "--only", "name"]);
        assert!(options.flag("--list"));
        assert!(!options.flag("--list"), "taken once");
        assert_eq!(options.value::<u64>("--seconds").expect("a number"), Some(5));
        assert_eq!(
            options.value::<String>("--only").expect("a name").as_deref(),
            Some("name")
        );
        assert_eq!(options.word().as_deref(), Some("word"));
        assert!(options.finish().is_ok());
    }

    #[test]
    fn keeps_what_follows_two_dashes() {
        let options = options(&["--machine", "a", "--machine=b", "--", "run", "--size=4", "--"]);
        assert_eq!(options.values::<String>("--machine").expect("two names"), ["a", "b"]);
        assert!(options.finish().is_err(), "nobody has taken the command");
        assert_eq!(options.trailing(), ["run", "--size=4", "--"]);
        assert!(options.finish().is_ok());
    }

    #[test]
    fn names_what_is_wrong() {
        let missing = options(&["--seconds"]).value::<u64>("--seconds").expect_err("no value");
        assert_eq!(missing.to_string(), "--seconds needs a value");
        let wrong = options(&["--seconds", "soon"])
            .value::<u64>("--seconds")
            .expect_err("not a number");
        assert_eq!(wrong.to_string(), "--seconds: cannot use `soon`");
        assert!(options(&["--nope"]).finish().is_err());
    }
}
