//! Who takes part in a comparison: a runtime by its name, and of quadrille's the policies that it has.
//!
//! Typed as `NAME`, or `NAME:POLICY` with the text that `QUADRILLE_POLICY` takes, and written into reports and run
//! descriptions the same way. Several of them are separated by commas, as settings are: an item with a `=` and no `:`
//! before it is a setting of the policy on its left, since no name of a runtime has a `=`. So
//! `quadrille,quadrille:groups=on,filter=on,tokio` are three.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use quadrille::policy::{Config, Plan};
use quadrille_topology::Topology;
use serde::{Deserialize, Serialize};

use super::{Family, Policy, RuntimeName};

/// The most workers of quadrille: it takes no more.
const WORKERS_MAX: usize = 4096;

/// A runtime and its policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Contender {
    /// The runtime.
    pub name: RuntimeName,
    /// Other policies than those of the name; quadrille's alone have some.
    policy: Option<Policy>,
}

impl Contender {
    /// A runtime with the policies of its name.
    #[must_use]
    pub const fn new(name: RuntimeName) -> Self {
        Self { name, policy: None }
    }

    /// The policies that it is built with; `None` leaves them to the runtime.
    #[must_use]
    pub fn config(&self) -> Option<Config> {
        match &self.policy {
            Some(policy) => Some(policy.config().clone()),
            None => self.name.config(),
        }
    }

    /// Whether it is quadrille and nothing says which policies it has.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.name.family() == Family::Quadrille && self.config().is_none()
    }

    /// The same, but with these policies if it is [open](Self::is_open).
    #[must_use]
    pub fn or_policy(self, policy: Option<&Policy>) -> Self {
        match policy {
            Some(policy) if self.is_open() => Self {
                policy: Some(policy.clone()),
                ..self
            },
            _ => self,
        }
    }

    /// Whether it can have so many workers.
    ///
    /// # Errors
    /// One line: the number, and what was expected.
    pub fn check_workers(&self, workers: usize) -> Result<(), String> {
        if self.name.family() == Family::Quadrille && !(1..=WORKERS_MAX).contains(&workers) {
            return Err(format!(
                "workers is {workers}, expected 1 to {WORKERS_MAX} for `{self}`"
            ));
        }
        Ok(())
    }

    /// Whether it can have so many workers, and they its policies on that machine: a list of groups has each once.
    ///
    /// # Errors
    /// One line: which cannot, and why.
    pub fn check(&self, machine: &Topology, workers: usize) -> Result<(), String> {
        self.check_workers(workers)?;
        let (Some(config), Ok(count)) = (self.config(), u16::try_from(workers)) else {
            return Ok(());
        };
        Plan::compile(machine, &config.plan_options(Some(count)))
            .map(drop)
            .map_err(|error| format!("`{self}`: {error}"))
    }
}

impl From<RuntimeName> for Contender {
    fn from(name: RuntimeName) -> Self {
        Self::new(name)
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.name())?;
        match &self.policy {
            Some(policy) => write!(f, ":{policy}"),
            None => Ok(()),
        }
    }
}

impl From<Contender> for String {
    fn from(contender: Contender) -> Self {
        contender.to_string()
    }
}

impl TryFrom<String> for Contender {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Contender {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, policy) = match text.split_once(':') {
            Some((name, policy)) => (name.trim(), Some(policy)),
            None => (text.trim(), None),
        };
        let found = RuntimeName::value_variants().iter().find(|known| known.name() == name);
        let Some(&name) = found else {
            return Err(format!(
                "`{name}` is no runtime; expected one of {}; or name=value, if it is a setting of the policy before it",
                names(|_| true)
            ));
        };
        let Some(policy) = policy else {
            return Ok(Self::new(name));
        };
        if name.family() != Family::Quadrille || name.config().is_some() {
            return Err(format!(
                "`{text}`: {} takes no policy; expected one of {} before the `:`",
                name.name(),
                names(|known| known.family() == Family::Quadrille && known.config().is_none())
            ));
        }
        let policy = policy.parse().map_err(|error| format!("`{text}`: {error}"))?;
        Ok(Self {
            name,
            policy: Some(policy),
        })
    }
}

/// The names that are typed, of those that `has` is true of.
fn names(has: impl Fn(RuntimeName) -> bool) -> String {
    let known = RuntimeName::value_variants().iter().filter(|name| has(**name));
    known.map(|name| name.name()).collect::<Vec<_>>().join(", ")
}

/// Contenders separated by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contenders(pub Vec<Contender>);

impl FromStr for Contenders {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut found: Vec<String> = Vec::new();
        for item in text.split(',').map(str::trim) {
            if !is_setting(item) {
                found.push(item.to_owned());
                continue;
            }
            match found.last_mut() {
                Some(last) if last.contains(':') => {
                    last.push(',');
                    last.push_str(item);
                }
                last => {
                    let before = last.map_or("quadrille", |last| last);
                    return Err(format!(
                        "`{item}` is a setting without a policy before it; expected {before}:{item}"
                    ));
                }
            }
        }
        let contenders: Result<_, String> = found.iter().map(|text| text.parse()).collect();
        contenders.map(Self)
    }
}

/// Whether this is `name=value`, and not the beginning of a contender: a value may have a `:`, a name may not.
fn is_setting(item: &str) -> bool {
    item.split_once('=').is_some_and(|(name, _)| !name.contains(':'))
}

#[cfg(test)]
mod tests {
    use quadrille_topology::Topology;

    use super::*;

    /// Reads `text` as contenders that are shown as `expected`, and each of them again from what is shown.
    fn check(text: &str, expected: &[&str]) -> Vec<Contender> {
        let Contenders(found) = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let shown: Vec<String> = found.iter().map(Contender::to_string).collect();
        assert_eq!(shown, expected, "{text}");
        for (contender, shown) in found.iter().zip(&shown) {
            assert_eq!(&shown.parse::<Contender>().unwrap(), contender, "{text}");
        }
        found
    }

    #[test]
    fn a_list_takes_names_and_policies() {
        check("quadrille", &["quadrille"]);
        check("quadrille,tokio-1w, smol", &["quadrille", "tokio-1w", "smol"]);
        check(
            "quadrille,quadrille:groups=off,quadrille-1w:groups=on, filter=on,tokio",
            &[
                "quadrille",
                "quadrille:groups=off",
                "quadrille-1w:groups=on,filter=on",
                "tokio",
            ],
        );
        check(
            "quadrille:baseline,sentinel=500ms,quadrille-baseline,quadrille:default",
            &[
                "quadrille:baseline,sentinel=500ms",
                "quadrille-baseline",
                "quadrille:default",
            ],
        );
        // Values with everything that they may have.
        check(
            "quadrille:cap=fixed:1:2ms,group-map=0+2/1+3-5,seed=0x5eed,go",
            &["quadrille:cap=fixed:1:2ms,group-map=0+2/1+3-5,seed=0x5eed", "go"],
        );
    }

    #[test]
    fn the_most_workers_are_as_many_as_the_runtime_takes() {
        let most = WORKERS_MAX;
        let refused = quadrille::Runtime::builder().worker_threads(most + 1).build();
        let expected = format!("the number of workers is {}, expected 1 to {most}", most + 1);
        assert_eq!(refused.unwrap_err().to_string(), expected);
    }

    #[test]
    fn a_policy_is_that_of_its_text_and_a_name_may_have_one() {
        let found = check(
            "quadrille,quadrille:groups=off,filter=on,quadrille-baseline,tokio",
            &[
                "quadrille",
                "quadrille:groups=off,filter=on",
                "quadrille-baseline",
                "tokio",
            ],
        );
        let configs: Vec<_> = found.iter().map(Contender::config).collect();
        let expected = "groups=off,filter=on".parse().unwrap();
        assert_eq!(configs, [None, Some(expected), Some(Config::baseline()), None]);
    }

    #[test]
    fn what_the_environment_says_is_for_who_has_no_policy() {
        let policy: Policy = "lazy=off".parse().unwrap();
        let found = check(
            "quadrille,quadrille-1w,quadrille:groups=off,quadrille-baseline,tokio",
            &[
                "quadrille",
                "quadrille-1w",
                "quadrille:groups=off",
                "quadrille-baseline",
                "tokio",
            ],
        );
        let shown = |policy: Option<&Policy>| -> Vec<String> {
            let settled = found.iter().cloned().map(|contender| contender.or_policy(policy));
            settled.map(|contender| contender.to_string()).collect()
        };
        let others = ["quadrille:groups=off", "quadrille-baseline", "tokio"];
        assert_eq!(shown(None), [&["quadrille", "quadrille-1w"], &others[..]].concat());
        let open = ["quadrille:lazy=off", "quadrille-1w:lazy=off"];
        assert_eq!(shown(Some(&policy)), [&open, &others[..]].concat());
    }

    #[test]
    fn what_cannot_be_is_one_line_with_the_value_and_what_was_expected() {
        for (text, expected) in [
            (
                "tokyo",
                "`tokyo` is no runtime; expected one of quadrille, quadrille-1w,",
            ),
            ("", "`` is no runtime"),
            ("quadrille,", "`` is no runtime"),
            ("quadrille:groups=on,filter", "`filter` is no runtime"),
            ("quadrille:", "`quadrille:`: no policy, expected default, baseline"),
            (
                "quadrille:grop=4,tokio",
                "`quadrille:grop=4`: `grop` is no name of a constant; expected",
            ),
            ("quadrille:groups=of", "`groups=of`: expected off, on or auto"),
            ("quadrille:groups=on,group=65", "`quadrille:groups=on,group=65`: "),
            ("quadrille:groups=on,,tokio", "`` is no runtime"),
            (
                "quadrille,filter=on",
                "`filter=on` is a setting without a policy before it; expected quadrille:filter=on",
            ),
            ("filter=on", "expected quadrille:filter=on"),
            (
                "tokio:groups=on",
                "`tokio:groups=on`: tokio takes no policy; expected one of quadrille, quadrille-1w, ",
            ),
            (
                "quadrille-baseline:groups=on",
                "quadrille-baseline takes no policy; expected one of quadrille, ",
            ),
        ] {
            let error = text.parse::<Contenders>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn more_workers_than_quadrille_takes_are_refused_with_their_number() {
        let machine: Topology = "core:4".parse().unwrap();
        let check = |name: &str, workers| name.parse::<Contender>().unwrap().check(&machine, workers);
        assert_eq!(check("quadrille", 4096), Ok(()));
        for name in ["quadrille", "quadrille:lazy=off", "quadrille-baseline"] {
            for workers in [4097, 70_000, usize::MAX] {
                let expected = format!("workers is {workers}, expected 1 to 4096 for `{name}`");
                assert_eq!(check(name, workers), Err(expected));
            }
        }
        assert_eq!(check("threads", 4097), Ok(()));
    }

    #[test]
    fn groups_must_be_of_the_workers_that_there_are() {
        let machine: Topology = "core:4".parse().unwrap();
        let contender: Contender = "quadrille:group-map=0+2/1+3".parse().unwrap();
        assert_eq!(contender.check(&machine, 4), Ok(()));
        let error = contender.check(&machine, 2).unwrap_err();
        assert!(error.starts_with("`quadrille:group-map=0+2/1+3`: "), "{error}");
        assert_eq!(Contender::new(RuntimeName::Tokio).check(&machine, 2), Ok(()));
    }
}
