//! Pictures of a machine with its groups drawn, as text ([`text`]) and as SVG ([`svg`]).
//!
//! Both walk the same tree: machine, node, LLC, group, core, hardware thread. L2 caches appear as a note on the groups.
//! A group that lies in several LLCs ([`Groups::explicit`] allows that) is drawn in each, with the members it has
//! there. `L#` is a dense index of this crate and `P#` the operating system's number, as in hwloc's `lstopo`.

mod svg;
mod text;

use alloc::{format, string::String, vec::Vec};

pub use self::{svg::svg, text::text};
use crate::{CoreId, GroupId, Groups, L2Id, Llc, Pu, Topology};

/// What a group has in one LLC.
struct Part<'a> {
    group: GroupId,
    /// How many members the group has elsewhere too.
    group_len: usize,
    pus: Vec<&'a Pu>,
}

/// The groups that have members in an LLC, in the order of their first member there.
fn parts<'a>(topology: &'a Topology, groups: &Groups, llc: &Llc) -> Vec<Part<'a>> {
    let mut parts: Vec<Part<'a>> = Vec::new();
    let mut part_of = alloc::collections::BTreeMap::new();
    for pu in topology.pus_of(llc.pus) {
        let group = groups.group_of(pu.id);
        let i = *part_of.entry(group).or_insert(parts.len());
        if i == parts.len() {
            let group_len = groups.members()[group.index()].len();
            parts.push(Part {
                group,
                group_len,
                pus: Vec::new(),
            });
        }
        parts[i].pus.push(pu);
    }
    parts
}

impl<'a> Part<'a> {
    /// The members core by core; a core may show up in several groups.
    fn cores(&self) -> Vec<(CoreId, &[&'a Pu])> {
        self.pus
            .chunk_by(|a, b| a.core == b.core)
            .map(|pus| (pus[0].core, pus))
            .collect()
    }

    /// Which L2s the members have: `L2 L#0 (1 MiB)`, `L2 L#0-1 (1 MiB each)`, `part of L2 L#0`.
    fn l2_note(&self, topology: &Topology) -> String {
        let mut l2s: Vec<L2Id> = self.pus.iter().map(|pu| pu.l2).collect();
        l2s.dedup();
        let whole: usize = l2s.iter().map(|l2| topology.l2s()[l2.index()].pus.len()).sum();
        let (first, last) = (l2s[0], l2s[l2s.len() - 1]);
        let mut note = String::from(if whole > self.pus.len() { "part of " } else { "" });
        note += &format!("L2 L#{}", first.0);
        if last != first {
            // Ascending, because hardware threads are in topological order.
            let dense = usize::from(last.0 - first.0) + 1 == l2s.len();
            note += &format!("{}{}", if dense { "-" } else { " to " }, last.0);
        }
        let size_bytes = topology.l2s()[first.index()].size_bytes;
        match size_bytes {
            Some(bytes) if last == first => note += &format!(" ({})", bytes_text(bytes)),
            Some(bytes) if l2s.iter().all(|l2| topology.l2s()[l2.index()].size_bytes == size_bytes) => {
                note += &format!(" ({} each)", bytes_text(bytes));
            }
            _ => {}
        }
        note
    }
}

/// The largest unit that needs no fraction: `32 MiB`, `1536 KiB`.
fn bytes_text(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB"];
    let mut count = bytes;
    let mut unit = 0;
    while unit + 1 < units.len() && count >= 1024 && count.is_multiple_of(1024) {
        count /= 1024;
        unit += 1;
    }
    format!("{count} {}", units[unit])
}

/// `1 group`, `2 groups`.
fn counted(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// One line about the whole: `16 hardware threads, 8 cores, 4 groups, 2 LLCs, 1 node`.
fn summary(topology: &Topology, groups: &Groups) -> String {
    [
        counted(topology.pus().len(), "hardware thread"),
        counted(topology.cores().len(), "core"),
        counted(groups.len(), "group"),
        counted(topology.llcs().len(), "LLC"),
        counted(topology.nodes().len(), "node"),
    ]
    .join(", ")
}
