//! The policies of a contender, as they were typed.

use std::env::{self, VarError};
use std::fmt;
use std::str::FromStr;

use quadrille::policy::Config;

/// The variable that the library reads where the program sets no policies.
const VARIABLE: &str = "QUADRILLE_POLICY";

/// Policies in their text form, `default`, `baseline` or `name=value,...`, which is also how they are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    text: String,
    config: Config,
}

impl Policy {
    /// Those in `QUADRILLE_POLICY`; `None` if it is not set, or empty.
    ///
    /// # Errors
    /// One line: the variable's value is no policy.
    pub fn of_environment() -> Result<Option<Self>, String> {
        match env::var(VARIABLE) {
            Ok(text) if text.trim().is_empty() => Ok(None),
            Ok(text) => text
                .parse()
                .map(Some)
                .map_err(|error| format!("{VARIABLE} is `{text}`: {error}")),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(text)) => Err(format!("{VARIABLE} is {text:?}, expected name=value,...")),
        }
    }

    /// What a runtime is built with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let items: Vec<&str> = text.split(',').map(str::trim).collect();
        let text = items.join(",");
        if text.is_empty() {
            return Err("no policy, expected default, baseline or name=value,...".to_owned());
        }
        let config = text.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { text, config })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_shown_as_it_was_typed_but_for_blanks() {
        let policy: Policy = "baseline, groups=auto,cap=fixed:1:2ms".parse().unwrap();
        assert_eq!(policy.to_string(), "baseline,groups=auto,cap=fixed:1:2ms");
        let expected: Config = "baseline,groups=auto,cap=fixed:1:2ms".parse().unwrap();
        assert_eq!(policy.config(), &expected);
    }

    #[test]
    fn what_is_no_policy_is_named() {
        for (text, expected) in [
            ("", "no policy, expected default, baseline or name=value"),
            ("grop=4", "`grop` is no name of a constant; expected one of spin,"),
            ("groups=perhaps", "`groups=perhaps`: expected off, on or auto"),
            ("groups=on,", "an empty item between commas"),
        ] {
            let error = text.parse::<Policy>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
