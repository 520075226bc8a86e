//! Machines as strings, `node:2 llc:4 core:8 pu:2`, for tests, simulations and bug reports.
//!
//! The grammar is described for users at [`Topology`]'s `FromStr`. A string has two halves: a *shape* (how many parts
//! of each level) and *attributes* (what the shape cannot say: CPU numbers, distances, cache sizes). `Display` writes
//! the shortest string that reads back as an equal machine, so a string is a complete copy of a machine.

mod display;
mod parse;

use alloc::{borrow::ToOwned, format, string::String, vec::Vec};
use core::str::FromStr;

use crate::{NodeId, PuSet, Topology, TopologyError, topology::Place};

/// The levels that a string may name, from the outside in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Node,
    Llc,
    L2,
    Core,
    Pu,
}

impl Level {
    const ALL: [Self; 5] = [Self::Node, Self::Llc, Self::L2, Self::Core, Self::Pu];

    const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Llc => "llc",
            Self::L2 => "l2",
            Self::Core => "core",
            Self::Pu => "pu",
        }
    }

    fn below(self) -> Option<Self> {
        Self::ALL.get(self as usize + 1).copied()
    }
}

/// What the shape cannot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attribute {
    Os,
    NodeOs,
    Distance,
    L2Size,
    LlcSize,
}

impl Attribute {
    const ALL: [Self; 5] = [Self::Os, Self::NodeOs, Self::Distance, Self::L2Size, Self::LlcSize];

    const fn name(self) -> &'static str {
        match self {
            Self::Os => "os",
            Self::NodeOs => "node-os",
            Self::Distance => "distance",
            Self::L2Size => "l2-size",
            Self::LlcSize => "llc-size",
        }
    }
}

/// The inside of a machine or of one of its parts.
#[derive(Debug, Default)]
struct Shape {
    /// Levels with equal members, from the outside in; a level that is not named counts 1.
    counts: Vec<(Level, u64)>,
    /// The level whose members differ, each with how often it is repeated.
    listed: Option<(Level, Vec<(u64, Shape)>)>,
}

impl Shape {
    fn count(&self, level: Level) -> u64 {
        self.counts.iter().find(|(l, _)| *l == level).map_or(1, |(_, n)| *n)
    }

    fn listed_at(&self, level: Level) -> Option<&[(u64, Self)]> {
        match &self.listed {
            Some((l, items)) if *l == level => Some(items),
            _ => None,
        }
    }

    /// How many hardware threads it has; saturates.
    fn pu_count(&self) -> u64 {
        let regular = self.counts.iter().fold(1_u64, |n, (_, count)| n.saturating_mul(*count));
        let Some((_, items)) = &self.listed else {
            return regular;
        };
        let listed = items.iter().fold(0_u64, |n, (repeat, item)| {
            n.saturating_add(repeat.saturating_mul(item.pu_count()))
        });
        regular.saturating_mul(listed)
    }

    /// Appends the hardware threads of everything from `level` down; `opened[l]` counts the parts of level `l` so far.
    fn expand(&self, level: Level, opened: &mut [u32; 5], places: &mut Vec<Place>) {
        let mut open = |inside: &Self| {
            opened[level as usize] += 1;
            match level.below() {
                Some(below) => inside.expand(below, opened, places),
                None => places.push(Place {
                    os_index: opened[Level::Pu as usize] - 1,
                    node: opened[Level::Node as usize] - 1,
                    llc: opened[Level::Llc as usize],
                    l2: opened[Level::L2 as usize],
                    core: opened[Level::Core as usize],
                }),
            }
        };
        if let Some(items) = self.listed_at(level) {
            for (repeat, item) in items {
                (0..*repeat).for_each(|_| open(item));
            }
        } else {
            (0..self.count(level)).for_each(|_| open(self));
        }
    }
}

impl FromStr for Topology {
    type Err = TopologyError;

    /// Reads a synthetic machine.
    ///
    /// # Shape
    /// Levels from the outside in, each with how many of it one member of the level above has: `node`, `llc`, `l2`,
    /// `core`, `pu`. A level that is not named counts 1, so `node:2 llc:4 core:8 pu:2` has 2 nodes, 8 LLCs, 8 L2s, 64
    /// cores and 128 hardware threads, and the 8 cores of an LLC share its one L2; `llc:4 l2:8 pu:2` gives each core an
    /// L2 of its own.
    ///
    /// Where members differ, brackets list what is inside each, separated by commas, in place of the count and of all
    /// levels below; `3*` repeats a member, brackets nest:
    ///
    /// ```
    /// use quadrille_topology::Topology;
    ///
    /// // One node of 2 LLCs with 4 cores each, one of 1 LLC with 8 cores of 2 hardware threads.
    /// let machine: Topology = "node:[llc:2 core:4, llc:1 core:8 pu:2]".parse()?;
    /// assert_eq!((machine.llcs().len(), machine.pus().len()), (3, 8 + 16));
    ///
    /// // Six fast cores with an L2 each, and two clusters of 4 that share theirs.
    /// let hybrid: Topology = "l2:[6*pu:2, 2*core:4]".parse()?;
    /// assert_eq!((hybrid.l2s().len(), hybrid.pus().len()), (8, 12 + 8));
    /// assert_eq!(hybrid.to_string(), "l2:[6*pu:2, 2*core:4]");
    ///
    /// let e = "node:2 socket:2".parse::<Topology>().unwrap_err();
    /// assert_eq!(
    ///     e.to_string(),
    ///     "`socket` at character 8: expected llc, l2, core, pu, os, node-os, distance, l2-size, llc-size or the end"
    /// );
    /// # Ok::<(), quadrille_topology::TopologyError>(())
    /// ```
    ///
    /// # Attributes
    /// After the shape, each optional, values in topological order and separated by commas:
    ///
    /// | attribute | values | default |
    /// |---|---|---|
    /// | `os` | the CPU number of each hardware thread; ascending runs as `0-3` | 0, 1, 2 … |
    /// | `node-os` | the operating system's number of each node, likewise | 0, 1, 2 … |
    /// | `distance` | the node distance matrix, row by row, from 1 to 65535 | 10 and 20 |
    /// | `l2-size`, `llc-size` | bytes of each cache, or one value for all; 0 is unknown | unknown |
    ///
    /// # Errors
    /// [`TopologyError::is_syntax`] names the token and what was expected; [`TopologyError::is_too_large`] above 65,535
    /// hardware threads, 1,024 nodes or 4,096 LLCs; [`TopologyError::is_invalid`] for attributes that do not fit the
    /// shape.
    fn from_str(text: &str) -> Result<Self, TopologyError> {
        let (shape, attributes) = parse::machine(text)?;
        let at_most = |count: u64, max: usize, parts: &str| match count {
            _ if count <= max as u64 => Ok(()),
            _ => Err(TopologyError::too_large(format!(
                "machine `{}` has {count} {parts}: expected at most {max}",
                excerpt(text)
            ))),
        };
        at_most(shape.pu_count(), Self::PU_COUNT_MAX, "hardware threads")?;
        let (mut places, mut opened) = (Vec::new(), [0; 5]);
        shape.expand(Level::Node, &mut opened, &mut places);
        // Before there are tables of all pairs.
        at_most(opened[Level::Node as usize].into(), Self::NODE_COUNT_MAX, "nodes")?;
        at_most(opened[Level::Llc as usize].into(), Self::LLC_COUNT_MAX, "LLCs")?;
        for (attribute, values) in &attributes {
            if *attribute == Attribute::Os {
                number_pus(&mut places, values)?;
            }
        }
        let mut machine = Self::build(places);
        for (attribute, values) in &attributes {
            machine.set_attribute(*attribute, values)?;
        }
        Ok(machine)
    }
}

impl Topology {
    fn set_attribute(&mut self, attribute: Attribute, values: &[u64]) -> Result<(), TopologyError> {
        let size = |values: &[u64], i: usize| match values[i % values.len()] {
            0 => None,
            bytes => Some(bytes),
        };
        match attribute {
            Attribute::Os => {}
            Attribute::NodeOs => {
                expect_len(attribute, values, self.nodes().len())?;
                if let Some(twice) = duplicate(values) {
                    return Err(TopologyError::invalid(format!(
                        "node-os {twice}: expected each node number once"
                    )));
                }
                for (id, value) in (0..u16::MAX).zip(values) {
                    self.set_node_os_index(NodeId(id), narrow(attribute, *value, u64::from(u32::MAX))?);
                }
            }
            Attribute::Distance => {
                let count = self.nodes().len();
                expect_len(attribute, values, count * count)?;
                for value in values {
                    narrow::<u16>(attribute, *value, u64::from(u16::MAX))?;
                }
                self.set_distances(|from, to| {
                    u16::try_from(values[from.index() * count + to.index()]).unwrap_or(u16::MAX)
                });
            }
            Attribute::L2Size => {
                expect_len_or_one(attribute, values, self.l2s().len())?;
                self.set_l2_sizes(|pu| size(values, pu.l2.index()));
            }
            Attribute::LlcSize => {
                expect_len_or_one(attribute, values, self.llcs().len())?;
                self.set_llc_sizes(|pu| size(values, pu.llc.index()));
            }
        }
        Ok(())
    }
}

fn number_pus(places: &mut [Place], values: &[u64]) -> Result<(), TopologyError> {
    expect_len(Attribute::Os, values, places.len())?;
    if let Some(twice) = duplicate(values) {
        return Err(TopologyError::invalid(format!(
            "os {twice}: expected each CPU number once"
        )));
    }
    for (place, value) in places.iter_mut().zip(values) {
        place.os_index = narrow(Attribute::Os, *value, u64::from(PuSet::LIMIT - 1))?;
    }
    Ok(())
}

fn expect_len(attribute: Attribute, values: &[u64], len: usize) -> Result<(), TopologyError> {
    if values.len() == len {
        return Ok(());
    }
    Err(TopologyError::invalid(format!(
        "{} has {} values: expected {len}",
        attribute.name(),
        values.len()
    )))
}

fn expect_len_or_one(attribute: Attribute, values: &[u64], len: usize) -> Result<(), TopologyError> {
    if values.len() == 1 {
        Ok(())
    } else {
        expect_len(attribute, values, len)
    }
}

fn narrow<T: TryFrom<u64>>(attribute: Attribute, value: u64, max: u64) -> Result<T, TopologyError> {
    let min = u64::from(attribute == Attribute::Distance);
    T::try_from(value)
        .ok()
        .filter(|_| (min..=max).contains(&value))
        .ok_or_else(|| {
            TopologyError::invalid(format!(
                "{} {value}: expected a number from {min} to {max}",
                attribute.name()
            ))
        })
}

fn duplicate(values: &[u64]) -> Option<u64> {
    let mut sorted = values.to_owned();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// The start of a text that may be long.
fn excerpt(text: &str) -> String {
    const LEN_MAX: usize = 60;
    match text.char_indices().nth(LEN_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
