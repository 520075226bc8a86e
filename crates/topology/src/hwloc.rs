//! Machines read by the hwloc library: this one on any operating system, XML files, and hwloc's synthetic strings.
//!
//! It needs the C library from 2.0 on (Debian and Ubuntu: `apt-get install libhwloc-dev libudev-dev pkg-config`) and
//! exists with feature `hwloc` only.
//!
//! What hwloc knows and a [`Topology`] has no level for (packages, dies, groups, L1, memory-only nodes, devices) is
//! left out. A hardware thread without an L2 takes its core for one; without any cache from level 2 up its package is
//! the LLC.

use std::{fs, path::Path};

use hwlocality::{
    object::{TopologyObject, attributes::ObjectAttributes, distance::DistancesKind, types::ObjectType},
    topology::{Topology as Tree, builder::TopologyBuilder},
};

use crate::{PuSet, Topology, TopologyError, topology::Place};

/// Reads the machine that this process runs on, without what its cgroup's cpuset forbids.
///
/// # Errors
/// [`TopologyError::is_hwloc`] if hwloc cannot read it.
pub fn this_machine() -> Result<Topology, TopologyError> {
    let tree = Tree::new().map_err(|e| TopologyError::hwloc(format!("reading this machine through hwloc: {e}"), e))?;
    convert(&tree)
}

/// Reads an XML file, as `lstopo machine.xml` writes it.
///
/// # Errors
/// [`TopologyError::is_io`] if the file cannot be read, [`TopologyError::is_hwloc`] if it describes no machine; the
/// message names the file.
pub fn from_xml_file(file: &Path) -> Result<Topology, TopologyError> {
    let expected = format!("{}: expected an XML file of hwloc", file.display());
    // Not `from_xml_file` of the builder, which panics if there is no such file.
    let xml = fs::read_to_string(file).map_err(|e| TopologyError::io(format!("{expected}: {e}"), e))?;
    let builder = TopologyBuilder::new()
        .from_xml(&xml)
        .map_err(|e| TopologyError::hwloc(format!("{expected}: {e}"), e))?;
    build(builder, &expected)
}

/// Makes a machine from a synthetic string of hwloc, which is not the notation of [`Topology`]'s `FromStr`.
///
/// ```
/// let machine = quadrille_topology::hwloc::from_synthetic("pack:2 l3:2 l2:4 core:1 pu:2")?;
/// assert_eq!((machine.llcs().len(), machine.l2s().len(), machine.pus().len()), (4, 16, 32));
/// # Ok::<(), quadrille_topology::TopologyError>(())
/// ```
///
/// # Errors
/// [`TopologyError::is_hwloc`] if hwloc refuses the string; the message names it.
pub fn from_synthetic(description: &str) -> Result<Topology, TopologyError> {
    let expected = format!("`{description}`: expected a synthetic machine of hwloc");
    let builder = TopologyBuilder::new()
        .from_synthetic(description)
        .map_err(|e| TopologyError::hwloc(format!("{expected}: {e}"), e))?;
    build(builder, &expected)
}

fn build(builder: TopologyBuilder, expected: &str) -> Result<Topology, TopologyError> {
    let tree = builder
        .build()
        .map_err(|e| TopologyError::hwloc(format!("{expected}: {e}"), e))?;
    convert(&tree)
}

fn convert(tree: &Tree) -> Result<Topology, TopologyError> {
    let pus: Vec<&TopologyObject> = tree.objects_with_type(ObjectType::PU).collect();
    if pus.len() > Topology::PU_COUNT_MAX {
        return Err(TopologyError::too_large(format!(
            "a machine of {} hardware threads: expected at most {}",
            pus.len(),
            Topology::PU_COUNT_MAX
        )));
    }
    let places = pus.iter().map(|pu| place(pu)).collect::<Result<Vec<_>, _>>()?;
    let mut machine = Topology::build(places);
    let size = |os_index: u32, cache: fn(&TopologyObject) -> Option<&TopologyObject>| {
        let pu = pus.iter().find(|pu| pu.os_index() == usize::try_from(os_index).ok())?;
        match cache(pu)?.attributes()? {
            ObjectAttributes::Cache(cache) => cache.size().map(u64::from),
            _ => None,
        }
    };
    machine.set_l2_sizes(|pu| size(pu.os_index, l2));
    machine.set_llc_sizes(|pu| size(pu.os_index, llc));
    let numbers: Vec<u32> = machine.nodes().iter().map(|node| node.os_index).collect();
    let latencies = latencies(tree);
    machine.set_distances(|from, to| {
        let (from_os, to_os) = (numbers[from.index()], numbers[to.index()]);
        let known = latencies.iter().find(|(pair, _)| *pair == (from_os, to_os));
        known.map_or_else(|| Topology::default_distance(from, to), |(_, distance)| *distance)
    });
    Ok(machine)
}

/// Where a hardware thread sits, by hwloc's logical indices, which are unique for each type of object.
fn place(pu: &TopologyObject) -> Result<Place, TopologyError> {
    /// Marks the index of something that stands in for a missing level, so that it meets no index of that level.
    const STAND_IN: u32 = 1 << 31;
    let logical = |object: &TopologyObject| u32::try_from(object.logical_index()).unwrap_or(STAND_IN - 1);
    let os_index = pu
        .os_index()
        .and_then(|n| u32::try_from(n).ok())
        .filter(|n| *n < PuSet::LIMIT);
    let Some(os_index) = os_index else {
        return Err(TopologyError::too_large(format!(
            "hwloc's hardware thread {}: expected a CPU number below {}",
            pu.logical_index(),
            PuSet::LIMIT
        )));
    };
    let core = pu
        .first_ancestor_with_type(ObjectType::Core)
        .map_or(STAND_IN | os_index, logical);
    let package = pu.first_ancestor_with_type(ObjectType::Package).map_or(0, logical);
    // The nodes that are local to the hardware thread: of several (DRAM and HBM) the first.
    let node = pu.nodeset().and_then(|nodes| nodes.first_set()).map(usize::from);
    Ok(Place {
        os_index,
        node: node.and_then(|n| u32::try_from(n).ok()).unwrap_or_default(),
        llc: llc(pu).map_or(STAND_IN | package, |llc| kind_and_index(llc, logical(llc))),
        l2: l2(pu).map_or(STAND_IN | core, logical),
        core,
    })
}

/// LLCs may be of different levels in one machine, and each level counts from 0: levels 2 to 5 get a range each.
fn kind_and_index(cache: &TopologyObject, index: u32) -> u32 {
    let level = match cache.object_type() {
        ObjectType::L2Cache => 0,
        ObjectType::L3Cache => 1,
        ObjectType::L4Cache => 2,
        _ => 3,
    };
    level << 20 | index
}

fn l2(pu: &TopologyObject) -> Option<&TopologyObject> {
    pu.first_ancestor_with_type(ObjectType::L2Cache)
}

/// The outermost data cache from level 2 up.
fn llc(pu: &TopologyObject) -> Option<&TopologyObject> {
    let is_cache = |ty: ObjectType| ty.is_cpu_data_cache() && ty != ObjectType::L1Cache;
    pu.ancestors().filter(|object| is_cache(object.object_type())).last()
}

/// Distances between nodes by their numbers of the operating system.
fn latencies(tree: &Tree) -> Vec<((u32, u32), u16)> {
    let matrices = tree
        .distances_with_type(Some(DistancesKind::MEANS_LATENCY), ObjectType::NUMANode)
        .unwrap_or_default();
    let Some(matrix) = matrices.first() else {
        return Vec::new();
    };
    let number = |node: Option<&TopologyObject>| u32::try_from(node?.os_index()?).ok();
    let pairs = matrix.object_distances().filter_map(|((from, to), value)| {
        let distance = u16::try_from(value).ok().filter(|d| *d > 0)?;
        Some(((number(from)?, number(to)?), distance))
    });
    pairs.collect()
}
