//! Groups as the caller lists them, for experiments such as groups scattered over caches and nodes.

use alloc::{format, vec::Vec};
use core::{fmt, str::FromStr};

use super::PlanError;
use crate::{GROUP_LEN_MAX, WorkerId};

/// Which workers make a group, for each group.
///
/// As text, groups are separated by `/`, and their workers or ranges of workers by `+`: `0+5+9/1-4/6-8`.
///
/// ```
/// use quadrille_policy::{GroupMap, WorkerId};
///
/// let map: GroupMap = "0+2/1+3-4".parse()?;
/// assert_eq!(map.groups()[1], [WorkerId(1), WorkerId(3), WorkerId(4)]);
/// assert_eq!(map.to_string(), "0+2/1+3-4");
/// assert!("0+2/2".parse::<GroupMap>().is_err());
/// # Ok::<(), quadrille_policy::PlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMap(Vec<Vec<WorkerId>>);

impl GroupMap {
    /// These groups, numbered in this order; the members of each are sorted.
    ///
    /// # Errors
    /// If there is no group, a group is empty or has more than [`GROUP_LEN_MAX`] members, or a worker is in two groups.
    pub fn new(mut groups: Vec<Vec<WorkerId>>) -> Result<Self, PlanError> {
        if groups.is_empty() {
            return Err(PlanError("no groups: expected at least one".into()));
        }
        for (index, group) in groups.iter_mut().enumerate() {
            group.sort_unstable();
            let len = group.len();
            if !(1..=usize::from(GROUP_LEN_MAX)).contains(&len) {
                return Err(PlanError(format!(
                    "group {index} has {len} workers: expected 1 to {GROUP_LEN_MAX}"
                )));
            }
        }
        let mut all: Vec<WorkerId> = groups.concat();
        all.sort_unstable();
        match all.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(PlanError(format!(
                "worker {} is in two groups, or twice in one: expected it once",
                pair[0].0
            ))),
            None => Ok(Self(groups)),
        }
    }

    /// The members of each group, ascending.
    #[must_use]
    pub fn groups(&self) -> &[Vec<WorkerId>] {
        &self.0
    }

    /// Whether these are groups of `workers` workers.
    pub(super) fn check(&self, workers: usize) -> Result<(), PlanError> {
        let mut all: Vec<WorkerId> = self.0.concat();
        all.sort_unstable();
        let expected = (0..workers).map(Some).chain([None]);
        let found = all.iter().map(|worker| Some(worker.index())).chain([None]);
        for (expected, found) in expected.zip(found) {
            match (expected, found) {
                (Some(missing), found) if found != Some(missing) => {
                    return Err(PlanError(format!(
                        "worker {missing} is in no group: expected all {workers}"
                    )));
                }
                (None, Some(extra)) => {
                    return Err(PlanError(format!(
                        "worker {extra} is in a group: expected workers below {workers}"
                    )));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl FromStr for GroupMap {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let wrong = |part: &str| PlanError(format!("`{part}` in `{text}`: expected workers such as 0+2/1+3-5"));
        let range = |part: &str| -> Result<Vec<WorkerId>, PlanError> {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (first.parse(), last.parse()) {
                (Ok(first), Ok(last)) if first <= last => Ok((first..=last).map(WorkerId).collect()),
                _ => Err(wrong(part)),
            }
        };
        let group = |group: &str| -> Result<Vec<WorkerId>, PlanError> {
            let parts: Result<Vec<_>, _> = group.split('+').map(range).collect();
            Ok(parts?.concat())
        };
        let groups: Result<Vec<_>, _> = text.split('/').map(group).collect();
        Self::new(groups?)
    }
}

impl fmt::Display for GroupMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, group) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "/" })?;
            let follows = |a: &WorkerId, b: &WorkerId| a.0 + 1 == b.0;
            for (index, run) in group.chunk_by(follows).enumerate() {
                f.write_str(if index == 0 { "" } else { "+" })?;
                match run {
                    [only] => write!(f, "{}", only.0)?,
                    [first, .., last] => write!(f, "{}-{}", first.0, last.0)?,
                    [] => {}
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{string::ToString, vec};

    #[test]
    fn texts_are_maps() {
        for text in ["0", "0-3", "0+2/1+3-4", "5+7/0-1/9"] {
            let map: GroupMap = text.parse().unwrap();
            assert_eq!(map.to_string(), text);
        }
        let unsorted: GroupMap = "4+1-2/0".parse().unwrap();
        assert_eq!(unsorted.to_string(), "1-2+4/0");
    }

    #[test]
    fn texts_that_are_none_say_why() {
        for (text, part) in [
            ("", "``"),
            ("0//1", "``"),
            ("a", "`a`"),
            ("3-1", "`3-1`"),
            ("0+0", "worker 0 is in two groups"),
            ("0-3/2", "worker 2 is in two groups"),
            ("0-64", "group 0 has 65 workers"),
        ] {
            let error = text.parse::<GroupMap>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(GroupMap::new(vec![]).is_err());
    }

    #[test]
    fn every_worker_is_in_a_group() {
        let check = |text: &str, workers| text.parse::<GroupMap>().unwrap().check(workers);
        assert_eq!(check("0+2/1", 3), Ok(()));
        let message = |text, workers| check(text, workers).expect_err(text).to_string();
        assert!(message("0+2/1", 4).starts_with("worker 3 is in no group"));
        assert!(message("0+2", 3).starts_with("worker 1 is in no group"));
        assert!(message("0+2/1", 2).starts_with("worker 2 is in a group"));
    }
}
