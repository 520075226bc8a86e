//! The machines to simulate: named ones from the measurements that the policies come from, any synthetic string, and
//! this one.

use std::fmt;
use std::str::FromStr;

use quadrille_topology::{DiscoverOptions, Topology, discover_with};

/// A machine with the name that reports print.
///
/// ```
/// use quadrille_sim::Machine;
///
/// let machine: Machine = "epyc-9654-2s".parse()?;
/// assert_eq!(machine.topology().pus().len(), 384);
/// let machine: Machine = "node:2 llc:2 core:4".parse()?;
/// assert_eq!(machine.name(), "node:2 llc:2 core:4");
/// let error = "epyk".parse::<Machine>().unwrap_err();
/// assert!(error.to_string().contains("epyc-9654-2s"));
/// # Ok::<(), quadrille_sim::MachineError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    name: String,
    topology: Topology,
}

/// Name, shape, and what it stands for.
const PRESETS: &[(&str, &str, &str)] = &[
    (
        "epyc-9654-2s",
        "node:2 llc:12 l2:8 pu:2 llc-size:33554432 l2-size:1048576",
        "2 x EPYC 9654: 384 threads, 16 a LLC",
    ),
    (
        "spr-2s",
        "node:2 l2:56 pu:2 llc-size:110100480 l2-size:2097152",
        "2 x Xeon Platinum 8480: 224 threads, 112 a LLC",
    ),
    (
        "xeon-8260-2s",
        "node:2 l2:24 pu:2 llc-size:37486592 l2-size:1048576",
        "2 x Xeon Platinum 8260: 96 threads, 48 a LLC",
    ),
    (
        "milan-2s",
        "node:2 llc:8 l2:8 pu:2 llc-size:33554432 l2-size:524288",
        "2 x EPYC 7763: 256 threads, 16 a LLC",
    ),
    (
        "milan-ccx-4n",
        "node:4 llc:4 l2:8 llc-size:33554432 l2-size:524288",
        "4 nodes of 4 LLCs of 8 threads",
    ),
    (
        "kunpeng-4n",
        "node:4 l2:6 core:4 distance:10,12,20,22,12,10,22,24,20,22,10,12,22,24,12,10 llc-size:33554432",
        "4 nodes of 24 cores in clusters of 4",
    ),
    (
        "ecore",
        "l2:8 core:4 llc-size:31457280 l2-size:4194304",
        "32 small cores, 4 an L2",
    ),
];

/// The name for the machine that the program runs on.
const HOST: &str = "host";

impl Machine {
    /// A machine under a name of its own.
    #[must_use]
    pub fn new(name: impl Into<String>, topology: Topology) -> Self {
        Self {
            name: name.into(),
            topology,
        }
    }

    /// This machine, as far as this process may use it.
    #[must_use]
    pub fn host() -> Self {
        Self::new(HOST, discover_with(&DiscoverOptions::default()).topology)
    }

    /// Its name: that of a preset, `host`, or the string it was read from.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its shape.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The presets: name and description.
    pub fn presets() -> impl Iterator<Item = (&'static str, &'static str)> {
        PRESETS.iter().map(|(name, _, description)| (*name, *description))
    }
}

impl FromStr for Machine {
    type Err = MachineError;

    /// A preset's name, `host`, or a synthetic string as [`Topology`] reads it.
    fn from_str(text: &str) -> Result<Self, MachineError> {
        let text = text.trim();
        if text == HOST {
            return Ok(Self::host());
        }
        let preset = PRESETS.iter().find(|(name, ..)| *name == text);
        let shape = preset.map_or(text, |(_, shape, _)| shape);
        match shape.parse() {
            Ok(topology) => Ok(Self::new(text, topology)),
            Err(error) if text.contains(':') => Err(MachineError(error.to_string())),
            Err(_) => {
                let names: Vec<_> = Self::presets().map(|(name, _)| name).collect();
                Err(MachineError(format!(
                    "machine `{text}`: expected {}, {HOST}, or a string such as \"node:2 llc:4 core:8 pu:2\"",
                    names.join(", ")
                )))
            }
        }
    }
}

/// A text that names no machine; says what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineError(String);

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MachineError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, nodes: usize, llcs: usize, threads: usize, threads_a_llc: usize) {
        let machine: Machine = name.parse().unwrap();
        let topology = machine.topology();
        assert_eq!(topology.nodes().len(), nodes, "{name}");
        assert_eq!(topology.llcs().len(), llcs, "{name}");
        assert_eq!(topology.pus().len(), threads, "{name}");
        assert!(
            topology.llcs().iter().all(|llc| llc.pus.len() == threads_a_llc),
            "{name}"
        );
    }

    #[test]
    fn presets_have_the_published_shapes() {
        check("epyc-9654-2s", 2, 24, 384, 16);
        check("spr-2s", 2, 2, 224, 112);
        check("xeon-8260-2s", 2, 2, 96, 48);
        check("milan-2s", 2, 16, 256, 16);
        check("milan-ccx-4n", 4, 16, 128, 8);
        check("kunpeng-4n", 4, 4, 96, 24);
        check("ecore", 1, 1, 32, 32);
        assert_eq!(Machine::presets().count(), 7);
    }

    #[test]
    fn other_strings_are_synthetic_machines_or_errors_of_one_line() {
        check("node:2 llc:2 core:3", 2, 4, 12, 3);
        for (text, expected) in [
            ("", "expected epyc-9654-2s"),
            ("epyk", "milan-ccx-4n"),
            ("node:0", "character 6"),
        ] {
            let message = text.parse::<Machine>().unwrap_err().to_string();
            assert!(message.contains(expected) && !message.contains('\n'), "{message}");
        }
        assert!(!Machine::host().topology().pus().is_empty());
    }
}
