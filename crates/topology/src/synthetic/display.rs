//! From machine to text: the shortest string that reads back as an equal machine.

use alloc::{format, string::String, vec::Vec};
use core::fmt;

use super::{Attribute, Level};
use crate::{PuSpan, Topology};

impl fmt::Display for Topology {
    /// Writes what [`FromStr`](core::str::FromStr) reads: `machine.to_string().parse()` gives an equal machine. The
    /// exceptions are refused: a machine without hardware threads, which prints as `pu:0`, and those of more than
    /// [1,024 nodes](Topology::NODE_COUNT_MAX) or [4,096 LLCs](Topology::LLC_COUNT_MAX), which no string may describe.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pus().is_empty() {
            return f.write_str("pu:0");
        }
        f.write_str(&or_one_pu(self.inside(Level::Node, 0..self.pus().len())))?;
        for attribute in Attribute::ALL {
            if let Some(values) = self.attribute(attribute) {
                write!(f, " {}:{values}", attribute.name())?;
            }
        }
        Ok(())
    }
}

impl Topology {
    /// The shape of these hardware threads from `level` down; empty if all counts are 1.
    fn inside(&self, level: Level, pus: core::ops::Range<usize>) -> String {
        let Some(below) = level.below() else {
            return if pus.len() == 1 {
                String::new()
            } else {
                format!("pu:{}", pus.len())
            };
        };
        let mut items: Vec<(usize, String)> = Vec::new();
        let mut at = pus.start;
        while at < pus.end {
            let part = self.part(level, at).range();
            at = part.end;
            let text = self.inside(below, part);
            match items.last_mut() {
                Some((repeat, last)) if *last == text => *repeat += 1,
                _ => items.push((1, text)),
            }
        }
        match &mut items[..] {
            [(1, inside)] => core::mem::take(inside),
            [(count, inside)] if inside.is_empty() => format!("{}:{count}", level.name()),
            [(count, inside)] => format!("{}:{count} {inside}", level.name()),
            _ => format!("{}:[{}]", level.name(), list(items)),
        }
    }

    /// The part of a level that hardware thread `at` belongs to.
    fn part(&self, level: Level, at: usize) -> PuSpan {
        let pu = &self.pus()[at];
        match level {
            Level::Node => self.nodes()[pu.node.index()].pus,
            Level::Llc => self.llcs()[pu.llc.index()].pus,
            Level::L2 => self.l2s()[pu.l2.index()].pus,
            Level::Core | Level::Pu => self.cores()[pu.core.index()].pus,
        }
    }

    /// The values of an attribute; nothing if they are the default.
    fn attribute(&self, attribute: Attribute) -> Option<String> {
        match attribute {
            Attribute::Os => numbers(self.pus().iter().map(|pu| pu.os_index)),
            Attribute::NodeOs => numbers(self.nodes().iter().map(|node| node.os_index)),
            Attribute::Distance => {
                let pairs = || {
                    self.nodes()
                        .iter()
                        .flat_map(|from| self.nodes().iter().map(move |to| (from.id, to.id)))
                };
                let usual = pairs().all(|(from, to)| self.node_distance(from, to) == Self::default_distance(from, to));
                (!usual).then(|| join(pairs().map(|(from, to)| format!("{}", self.node_distance(from, to)))))
            }
            Attribute::L2Size => sizes(self.l2s().iter().map(|l2| l2.size_bytes)),
            Attribute::LlcSize => sizes(self.llcs().iter().map(|llc| llc.size_bytes)),
        }
    }
}

fn list(items: Vec<(usize, String)>) -> String {
    let texts = items.into_iter().map(|(repeat, text)| match (repeat, or_one_pu(text)) {
        (1, text) => text,
        (repeat, text) => format!("{repeat}*{text}"),
    });
    texts.collect::<Vec<_>>().join(", ")
}

fn or_one_pu(shape: String) -> String {
    if shape.is_empty() { "pu:1".into() } else { shape }
}

fn join(values: impl Iterator<Item = String>) -> String {
    values.collect::<Vec<_>>().join(",")
}

/// Numbers with ascending runs as ranges; nothing if they are 0, 1, 2 and so on.
fn numbers(values: impl Iterator<Item = u32>) -> Option<String> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some((_, end)) if end.checked_add(1) == Some(value) => *end = value,
            _ => runs.push((value, value)),
        }
    }
    if let [(0, _)] = runs[..] {
        return None;
    }
    Some(join(runs.into_iter().map(|(start, end)| {
        if start == end {
            format!("{start}")
        } else {
            format!("{start}-{end}")
        }
    })))
}

/// Bytes, 0 where unknown; one value if they are all the same, nothing if all are unknown.
fn sizes(values: impl Iterator<Item = Option<u64>>) -> Option<String> {
    let values: Vec<u64> = values.map(Option::unwrap_or_default).collect();
    let first = values[0];
    if values.iter().any(|value| *value != first) {
        return Some(join(values.iter().map(|value| format!("{value}"))));
    }
    (first != 0).then(|| format!("{first}"))
}
