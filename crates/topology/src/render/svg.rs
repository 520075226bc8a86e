//! Nested boxes, in the manner of `lstopo`'s graphics.
//!
//! 1. The machine becomes a tree of boxes with titles.
//! 2. From the leaves up every box lays its children out in rows, as many a row as comes nearest to a wide screen, and
//!    is as large as that takes.
//! 3. From the root down the boxes are drawn.

use alloc::{format, string::String, vec::Vec};
use core::fmt::{self, Write as _};

use super::{Part, bytes_text, parts, summary};
use crate::{Groups, Pu, Topology};

/// Draws the machine as an SVG document with the title given: nested boxes for machine, nodes, LLCs, groups (dashed),
/// cores and hardware threads. The numbers in the innermost boxes are the operating system's.
///
/// `groups` are of this machine. Any characters may be in `title`.
///
/// ```
/// use quadrille_topology::{Grouping, Topology, render};
///
/// let machine: Topology = "node:2 llc:2 core:4 pu:2".parse()?;
/// let picture = render::svg(&machine, &machine.groups(Grouping::default()), "R&D");
/// assert!(picture.starts_with("<svg") && picture.contains("R&amp;D"));
/// # Ok::<(), quadrille_topology::TopologyError>(())
/// ```
///
/// # Panics
/// If the groups are of another, smaller machine.
#[must_use]
pub fn svg(topology: &Topology, groups: &Groups, title: &str) -> String {
    let picture = machine_box(topology, groups, title);
    let mut out = String::new();
    // A `String` takes whatever is written to it.
    let _ = write_document(&mut out, &picture, title);
    out
}

const MARGIN: u32 = 8;
const GAP: u32 = 6;
const TITLE_HEIGHT: u32 = 18;
const CHAR_WIDTH: u32 = 7;
const PU_HEIGHT: u32 = 22;
const STYLE: &str = "text{font:12px sans-serif;fill:#222}.pu text{text-anchor:middle}\
rect{stroke:#555;stroke-width:1}.machine rect{fill:#fff}.node rect{fill:#eef3fb}.llc rect{fill:#fdf3dc}\
.group rect{fill:#fff;stroke:#b03a2e;stroke-width:1.5;stroke-dasharray:5 3}.core rect{fill:#e4e7ea;stroke-dasharray:none;\
stroke:#777;stroke-width:1}.pu rect{fill:#fff}";

struct Frame {
    class: &'static str,
    title: String,
    rows: Vec<Vec<Frame>>,
    width: u32,
    height: u32,
}

impl Frame {
    /// A hardware thread.
    fn leaf(pu: &Pu) -> Self {
        let title = format!("{}", pu.os_index);
        Self {
            class: "pu",
            width: text_width(&title) + MARGIN,
            height: PU_HEIGHT,
            title,
            rows: Vec::new(),
        }
    }

    fn new(class: &'static str, title: String, mut children: Vec<Self>) -> Self {
        let per_row = best_row_len(&children);
        let mut rows = Vec::new();
        while children.len() > per_row {
            let rest = children.split_off(per_row);
            rows.push(children);
            children = rest;
        }
        rows.push(children);
        let (inner_width, inner_height) = size(rows.iter().map(Vec::as_slice));
        Self {
            class,
            width: inner_width.max(text_width(&title)) + 2 * MARGIN,
            height: TITLE_HEIGHT + inner_height + MARGIN,
            title,
            rows,
        }
    }
}

/// How many children a row takes for the picture to come nearest to the shape of a screen, 8 to 5.
fn best_row_len(children: &[Frame]) -> usize {
    const ROW_LEN_MAX: usize = 64;
    let side = |len: &usize| {
        let (width, height) = size(children.chunks(*len));
        (u64::from(width) * 5).max(u64::from(height) * 8)
    };
    (1..=children.len().min(ROW_LEN_MAX)).min_by_key(side).unwrap_or(1)
}

/// What rows of boxes need, gaps included.
fn size<'a>(rows: impl Iterator<Item = &'a [Frame]>) -> (u32, u32) {
    let mut size = (0, 0);
    for row in rows {
        let width: u32 = row.iter().map(|frame| frame.width + GAP).sum();
        let height = row.iter().map(|frame| frame.height + GAP).max().unwrap_or(0);
        size = (width.max(size.0), size.1 + height);
    }
    (size.0.saturating_sub(GAP), size.1.saturating_sub(GAP))
}

/// An estimate. Every number counts as three digits at least, so that equal parts are equally wide whatever their ids.
fn text_width(text: &str) -> u32 {
    const DIGITS_MIN: usize = 3;
    let is_digit = |c: &char| c.is_ascii_digit();
    let chars: Vec<char> = text.chars().collect();
    let runs = chars.chunk_by(|a, b| is_digit(a) == is_digit(b));
    let len: usize = runs
        .map(|run| {
            if is_digit(&run[0]) {
                run.len().max(DIGITS_MIN)
            } else {
                run.len()
            }
        })
        .sum();
    u32::try_from(len)
        .unwrap_or(u32::MAX / CHAR_WIDTH)
        .saturating_mul(CHAR_WIDTH)
}

fn machine_box(topology: &Topology, groups: &Groups, title: &str) -> Frame {
    let node_box = |node: &crate::Node| {
        let llcs = topology.llcs_of(node.id).iter();
        let title = format!("Node {} (P#{})", node.id.0, node.os_index);
        Frame::new("node", title, llcs.map(|llc| llc_box(topology, groups, llc)).collect())
    };
    let heading = if title.is_empty() {
        String::new()
    } else {
        format!("{title}: ")
    };
    let nodes = topology.nodes().iter().map(node_box).collect();
    Frame::new("machine", heading + &summary(topology, groups), nodes)
}

fn llc_box(topology: &Topology, groups: &Groups, llc: &crate::Llc) -> Frame {
    let size = llc
        .size_bytes
        .map_or_else(String::new, |bytes| format!(" ({})", bytes_text(bytes)));
    let parts = parts(topology, groups, llc);
    let title = format!("LLC {}{size}", llc.id.0);
    Frame::new(
        "llc",
        title,
        parts.iter().map(|part| group_box(topology, part)).collect(),
    )
}

fn group_box(topology: &Topology, part: &Part<'_>) -> Frame {
    let share = if part.pus.len() == part.group_len {
        String::new()
    } else {
        format!(" ({} of {})", part.pus.len(), part.group_len)
    };
    let cores = part.cores().into_iter().map(|(core, pus)| {
        let leaves = pus.iter().map(|pu| Frame::leaf(pu)).collect();
        Frame::new("core", format!("Core {}", core.0), leaves)
    });
    let title = format!("Group {}{share}, {}", part.group.0, part.l2_note(topology));
    Frame::new("group", title, cores.collect())
}

fn write_document(out: &mut String, picture: &Frame, title: &str) -> fmt::Result {
    let (width, height) = (picture.width + 2 * MARGIN, picture.height + 2 * MARGIN);
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">"#
    )?;
    writeln!(out, "<title>{}</title>", Escaped(title))?;
    writeln!(out, "<style>{STYLE}</style>")?;
    writeln!(out, r##"<path fill="#fff" d="M0 0h{width}v{height}H0z"/>"##)?;
    write_box(out, picture, MARGIN, MARGIN)?;
    writeln!(out, "</svg>")
}

fn write_box(out: &mut String, b: &Frame, x: u32, y: u32) -> fmt::Result {
    let is_leaf = b.rows.is_empty();
    let (text_x, text_y) = if is_leaf {
        (x + b.width / 2, y + 15)
    } else {
        (x + MARGIN, y + 14)
    };
    writeln!(
        out,
        r#"<g class="{}"><rect x="{x}" y="{y}" width="{}" height="{}" rx="3"/><text x="{text_x}" y="{text_y}">{}</text></g>"#,
        b.class,
        b.width,
        b.height,
        Escaped(&b.title)
    )?;
    let mut row_y = y + TITLE_HEIGHT;
    for row in &b.rows {
        let mut child_x = x + MARGIN;
        for child in row {
            write_box(out, child, child_x, row_y)?;
            child_x += child.width + GAP;
        }
        row_y += row.iter().map(|child| child.height + GAP).max().unwrap_or(0);
    }
    Ok(())
}

/// Text between tags: markup characters as entities, and a blank for what XML 1.0 cannot have at all.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => f.write_char(' ')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}
