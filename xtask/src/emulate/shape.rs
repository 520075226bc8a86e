//! Whether two programs see the same machine: which hardware threads there are, and which of them share what.
//!
//! A machine comes to sets of CPU numbers, one for each part, so that the order and the numbering of the parts do not
//! matter. Caches' sizes are left out: both read them from the same files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// CPUs, by the operating system's numbers.
type Cpus = BTreeSet<u32>;

/// A machine as sets of CPUs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// By the operating system's number.
    nodes: BTreeMap<u32, Cpus>,
    llcs: BTreeSet<Cpus>,
    l2s: BTreeSet<Cpus>,
    cores: BTreeSet<Cpus>,
    cpus: Cpus,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "nodes {}, LLCs {}, L2s {}, cores {}, CPUs {}",
            self.nodes.len(),
            self.llcs.len(),
            self.l2s.len(),
            self.cores.len(),
            self.cpus.len()
        )
    }
}

impl Shape {
    /// What `quadrille topology` prints: a tree, a part a line.
    pub(crate) fn from_quadrille(text: &str) -> Result<Self, String> {
        let mut shape = Self::default();
        let mut node = None;
        // The open part of each level: its CPUs go to the machine when the next one begins.
        let (mut llc, mut core) = (Cpus::new(), Cpus::new());
        let mut l2s: BTreeMap<u32, Cpus> = BTreeMap::new();
        for line in text.lines().map(str::trim) {
            let kind = line.split(' ').next().unwrap_or_default();
            match kind {
                "Node" => node = number_after(line, "(P#"),
                "LLC" => close(&mut shape.llcs, &mut llc),
                "Core" => close(&mut shape.cores, &mut core),
                _ => {}
            }
            let l2 = number_after(line, "L2 L#");
            if let Some(l2) = l2 {
                l2s.entry(l2).or_default();
            }
            let Some(cpu) = number_after(line, "(P#").filter(|_| line.contains("PU L#")) else {
                continue;
            };
            let (Some(node), Some(mut open)) = (node, l2s.last_entry()) else {
                return Err(format!("quadrille's CPU {cpu} comes before its node and its L2"));
            };
            shape.nodes.entry(node).or_default().insert(cpu);
            open.get_mut().insert(cpu);
            llc.insert(cpu);
            core.insert(cpu);
            shape.cpus.insert(cpu);
        }
        close(&mut shape.llcs, &mut llc);
        close(&mut shape.cores, &mut core);
        shape.l2s = l2s.into_values().collect();
        shape.with_cpus("quadrille")
    }

    /// What `lstopo-no-graphics --of xml` prints: an object a line. The LLC is the outermost cache.
    pub(crate) fn from_hwloc(xml: &str) -> Result<Self, String> {
        let mut shape = Self::default();
        let mut caches: BTreeMap<&str, BTreeSet<Cpus>> = BTreeMap::new();
        for line in xml.lines().filter(|line| line.contains("<object ")) {
            let Some(cpus) = attribute(line, "cpuset").map(mask).transpose()? else {
                continue;
            };
            let number = || {
                let text = attribute(line, "os_index").unwrap_or_default();
                text.parse::<u32>()
                    .map_err(|_| format!("hwloc's object has no number: {}", line.trim()))
            };
            match attribute(line, "type").unwrap_or_default() {
                "NUMANode" => drop(shape.nodes.insert(number()?, cpus)),
                "Core" => drop(shape.cores.insert(cpus)),
                "PU" => drop(shape.cpus.insert(number()?)),
                cache @ ("L2Cache" | "L3Cache" | "L4Cache" | "L5Cache") => {
                    caches.entry(cache).or_default().insert(cpus);
                }
                _ => {}
            }
        }
        shape.l2s = caches.get("L2Cache").cloned().unwrap_or_default();
        shape.llcs = caches.pop_last().map(|(_, parts)| parts).unwrap_or_default();
        shape.with_cpus("hwloc")
    }

    fn with_cpus(self, whose: &str) -> Result<Self, String> {
        if self.cpus.is_empty() {
            Err(format!("{whose} shows no CPU"))
        } else {
            Ok(self)
        }
    }

    /// The first thing in which two views of a machine differ.
    pub(crate) fn difference(&self, hwloc: &Self) -> Option<String> {
        let differs = |what: &str, ours: &dyn fmt::Debug, theirs: &dyn fmt::Debug| {
            Some(format!("{what}: quadrille sees {ours:?}, hwloc {theirs:?}"))
        };
        if self.cpus != hwloc.cpus {
            return differs("CPUs", &self.cpus, &hwloc.cpus);
        }
        if self.nodes != hwloc.nodes {
            return differs("nodes", &self.nodes, &hwloc.nodes);
        }
        let levels = [
            ("LLCs", &self.llcs, &hwloc.llcs),
            ("L2s", &self.l2s, &hwloc.l2s),
            ("cores", &self.cores, &hwloc.cores),
        ];
        let (what, ours, theirs) = levels.into_iter().find(|(_, ours, theirs)| ours != theirs)?;
        differs(what, ours, theirs)
    }
}

/// Ends a part, if one has begun.
fn close(parts: &mut BTreeSet<Cpus>, open: &mut Cpus) {
    let part = std::mem::take(open);
    if !part.is_empty() {
        parts.insert(part);
    }
}

/// The number that follows the last `mark`.
fn number_after(line: &str, mark: &str) -> Option<u32> {
    let (_, rest) = line.rsplit_once(mark)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The value of ` name="value"`.
fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()
}

/// CPUs as hwloc writes them: words of 32 bits in hexadecimal, the highest first.
fn mask(text: &str) -> Result<Cpus, String> {
    let mut cpus = Cpus::new();
    for (word, digits) in (0_u32..).zip(text.rsplit(',')) {
        let bits = u32::from_str_radix(digits.trim_start_matches("0x"), 16);
        let bits = bits.map_err(|_| format!("hwloc's mask `{text}` is none"))?;
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| 32 * word + bit));
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUADRILLE: &str = "\
machine: node:2 pu:2 os:1-2,33,40-41
allowed CPUs: 1-2,33,40-41

Machine (5 hardware threads, 4 cores, 3 groups, 2 LLCs, 2 nodes)
  Node L#0 (P#0)
    LLC L#0 (16 MiB)
      Group L#0 (2 hardware threads, L2 L#0 (4 MiB))
        Core L#0
          PU L#0 (P#1)
          PU L#1 (P#2)
  Node L#1 (P#3)
    LLC L#1
      Group L#1 (1 of its 2 hardware threads, L2 L#1)
        Core L#1 + PU L#2 (P#33)
      Group L#2 (2 hardware threads, L2 L#2-3 (1 MiB each))
        Core L#2, L2 L#2 + PU L#3 (P#40)
        Core L#3, L2 L#3 + PU L#4 (P#41)
Distances   L#     0     1
             0    10    20
";

    fn hwloc(l2: &str) -> String {
        let objects = [
            ("Machine", "0", "0x00000302,0x00000006"),
            ("NUMANode", "0", "0x00000006"),
            ("L3Cache", "0", "0x00000006"),
            ("L2Cache", "0", "0x00000006"),
            ("Core", "0", "0x00000006"),
            ("PU", "1", "0x00000002"),
            ("PU", "2", "0x00000004"),
            ("NUMANode", "3", "0x00000302,0x0"),
            ("L3Cache", "1", "0x00000302,0x0"),
            ("L2Cache", "1", "0x00000002,0x0"),
            ("Core", "1", "0x00000002,0x0"),
            ("PU", "33", "0x00000002,0x0"),
            ("L2Cache", "2", l2),
            ("Core", "2", "0x00000100,0x0"),
            ("PU", "40", "0x00000100,0x0"),
            ("L2Cache", "3", "0x00000200,0x0"),
            ("Core", "3", "0x00000200,0x0"),
            ("PU", "41", "0x00000200,0x0"),
        ];
        let lines = objects.map(|(kind, number, cpus)| {
            format!("  <object type=\"{kind}\" os_index=\"{number}\" cpuset=\"{cpus}\" complete_cpuset=\"0x1\">\n")
        });
        format!("<topology>\n{}  <info name=\"a\" value=\"b\"/>\n", lines.concat())
    }

    #[test]
    fn the_same_machine_in_two_languages() {
        let ours = Shape::from_quadrille(QUADRILLE).expect("a machine");
        let theirs = Shape::from_hwloc(&hwloc("0x00000100,0x0")).expect("a machine");
        assert_eq!(ours.difference(&theirs), None);
        assert_eq!(ours.to_string(), "nodes 2, LLCs 2, L2s 4, cores 4, CPUs 5");
        assert_eq!(ours, theirs);
    }

    #[test]
    fn a_difference_says_what_each_sees() {
        let ours = Shape::from_quadrille(QUADRILLE).expect("a machine");
        let theirs = Shape::from_hwloc(&hwloc("0x00000002,0x0")).expect("a machine");
        let expected = "L2s: quadrille sees {{1, 2}, {33}, {40}, {41}}, hwloc {{1, 2}, {33}, {41}}";
        assert_eq!(ours.difference(&theirs).as_deref(), Some(expected));
        let fewer = Shape::from_quadrille(&QUADRILLE.replace("(P#40)", "(P#42)")).expect("a machine");
        assert!(fewer.difference(&theirs).is_some_and(|text| text.starts_with("CPUs: ")));
    }

    #[test]
    fn no_machine_is_an_error() {
        assert!(Shape::from_quadrille("error: nothing").is_err());
        assert!(Shape::from_hwloc("<topology>").is_err());
        assert!(Shape::from_hwloc(&hwloc("0xf...f")).is_err());
        assert!(Shape::from_quadrille("  Core L#0 + PU L#0 (P#0)").is_err());
    }
}
