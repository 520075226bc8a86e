//! Which hardware threads get a worker if there are fewer workers.

use alloc::vec::Vec;

use quadrille_topology::{Llc, Pu, Topology};

/// The part of the machine that `count` workers use: the fewest last-level caches, all but the last one full. Among
/// equals it begins with that of the hardware thread `near`, else of the one after it: so that not every process takes
/// the first.
pub(super) fn choose(topology: &Topology, count: usize, near: Option<u32>) -> Topology {
    if count >= topology.pus().len() {
        return topology.clone();
    }
    let mut missing = count;
    let near = near.and_then(|cpu| topology.pu_by_os_index(cpu));
    let mut free: Vec<&Llc> = topology.llcs().iter().collect();
    free.rotate_left(near.map_or(0, |pu| pu.llc.index()));
    let mut cpus = Vec::with_capacity(count);
    let mut first: Option<&Llc> = None;
    while missing > 0 {
        let chosen = next(topology, &free, first, missing);
        let llc = free.remove(chosen);
        first = first.or(Some(llc));
        let pus = cores_first(topology, topology.pus_of(llc.pus));
        cpus.extend(pus.iter().take(missing).map(|pu| pu.os_index));
        missing = count - cpus.len();
    }
    topology.restrict(&cpus.into_iter().collect())
}

/// The position in `free` of the LLC to fill next. One that takes all that are missing ends the search, else the
/// largest one leaves the fewest missing; among equals, the nearest to the first and then the foremost of `free`.
fn next(topology: &Topology, free: &[&Llc], first: Option<&Llc>, missing: usize) -> usize {
    let distance = |llc: &Llc| first.map_or(0, |first| topology.node_distance(first.node, llc.node));
    let rank = |llc: &Llc| {
        let taken = llc.pus.len().min(missing);
        (missing - taken, distance(llc))
    };
    let positions = 0..free.len();
    positions.min_by_key(|&i| rank(free[i])).unwrap_or_default()
}

/// First every core's first hardware thread, then every core's second, and so on.
fn cores_first<'a>(topology: &Topology, pus: &'a [Pu]) -> Vec<&'a Pu> {
    let mut order: Vec<&Pu> = pus.iter().collect();
    order.sort_by_key(|pu| pu.id.0 - topology.cores()[pu.core.index()].pus.first().0);
    order
}
