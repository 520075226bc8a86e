//! An indented tree, in the manner of `lstopo`'s console output.

use alloc::{format, string::String};
use core::fmt::{self, Write as _};

use super::{Part, bytes_text, counted, parts, summary};
use crate::{Groups, Topology};

/// Draws the machine as an indented tree, a line each; the last line ends with a newline too.
///
/// `groups` are of this machine. The matrix of node distances follows if there are several nodes.
///
/// ```
/// use quadrille_topology::{Grouping, Topology, render};
///
/// let machine: Topology = "llc:2 core:2 pu:2 os:0,4,1,5,2,6,3,7 llc-size:33554432".parse()?;
/// let groups = machine.groups(Grouping::default());
/// assert_eq!(
///     render::text(&machine, &groups),
///     "\
/// Machine (8 hardware threads, 4 cores, 2 groups, 2 LLCs, 1 node)
///   Node L#0 (P#0)
///     LLC L#0 (32 MiB)
///       Group L#0 (4 hardware threads, L2 L#0)
///         Core L#0
///           PU L#0 (P#0)
///           PU L#1 (P#4)
///         Core L#1
///           PU L#2 (P#1)
///           PU L#3 (P#5)
///     LLC L#1 (32 MiB)
///       Group L#1 (4 hardware threads, L2 L#1)
///         Core L#2
///           PU L#4 (P#2)
///           PU L#5 (P#6)
///         Core L#3
///           PU L#6 (P#3)
///           PU L#7 (P#7)
/// "
/// );
/// # Ok::<(), quadrille_topology::TopologyError>(())
/// ```
///
/// # Panics
/// If the groups are of another, smaller machine.
#[must_use]
pub fn text(topology: &Topology, groups: &Groups) -> String {
    let mut out = String::new();
    // A `String` takes whatever is written to it.
    let _ = write_machine(&mut out, topology, groups);
    out
}

fn write_machine(out: &mut String, topology: &Topology, groups: &Groups) -> fmt::Result {
    writeln!(out, "Machine ({})", summary(topology, groups))?;
    for node in topology.nodes() {
        writeln!(out, "  Node L#{} (P#{})", node.id.0, node.os_index)?;
        for llc in topology.llcs_of(node.id) {
            let size = llc
                .size_bytes
                .map_or_else(String::new, |bytes| format!(" ({})", bytes_text(bytes)));
            writeln!(out, "    LLC L#{}{size}", llc.id.0)?;
            for part in parts(topology, groups, llc) {
                write_part(out, topology, &part)?;
            }
        }
    }
    if topology.nodes().len() > 1 {
        write_distances(out, topology)?;
    }
    Ok(())
}

fn write_part(out: &mut String, topology: &Topology, part: &Part<'_>) -> fmt::Result {
    let members = if part.pus.len() == part.group_len {
        counted(part.group_len, "hardware thread")
    } else {
        format!(
            "{} of its {}",
            part.pus.len(),
            counted(part.group_len, "hardware thread")
        )
    };
    let note = part.l2_note(topology);
    writeln!(out, "      Group L#{} ({members}, {note})", part.group.0)?;
    let has_several = part.pus.iter().any(|pu| pu.l2 != part.pus[0].l2);
    for (core, pus) in part.cores() {
        // Of a group with several, which one each core has.
        let l2 = if has_several {
            format!(", L2 L#{}", pus[0].l2.0)
        } else {
            String::new()
        };
        if let [pu] = pus {
            writeln!(
                out,
                "        Core L#{}{l2} + PU L#{} (P#{})",
                core.0, pu.id.0, pu.os_index
            )?;
            continue;
        }
        writeln!(out, "        Core L#{}{l2}", core.0)?;
        for pu in pus {
            writeln!(out, "          PU L#{} (P#{})", pu.id.0, pu.os_index)?;
        }
    }
    Ok(())
}

fn write_distances(out: &mut String, topology: &Topology) -> fmt::Result {
    const WIDTH: usize = 6;
    write!(out, "Distances{:>1$}", "L#", WIDTH - 1)?;
    for to in topology.nodes() {
        write!(out, "{:>WIDTH$}", to.id.0)?;
    }
    writeln!(out)?;
    for from in topology.nodes() {
        write!(out, "{:>1$}", from.id.0, "Distances".len() + WIDTH - 1)?;
        for to in topology.nodes() {
            write!(out, "{:>WIDTH$}", topology.node_distance(from.id, to.id))?;
        }
        writeln!(out)?;
    }
    Ok(())
}
