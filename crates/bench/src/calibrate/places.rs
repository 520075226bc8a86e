//! Which hardware threads stand for which distance.

use quadrille_topology::{Pu, Topology};

/// Hardware threads to measure on, by their numbers of the operating system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The first one.
    pub first: u32,
    /// Two threads of one core.
    pub core: Option<[u32; 2]>,
    /// Two cores that share a level-2 cache.
    pub l2: Option<[u32; 2]>,
    /// Two cores of one last-level cache with a level-2 cache each.
    pub llc: Option<[u32; 2]>,
    /// Two last-level caches of one node.
    pub node: Option<[u32; 2]>,
    /// Two nodes, the farthest apart.
    pub remote: Option<[u32; 2]>,
    /// One thread of each core that shares the first one's last-level cache.
    pub cores_of_llc: Vec<u32>,
}

impl Places {
    /// Looks for them.
    #[must_use]
    pub fn of(machine: &Topology) -> Self {
        let pus = machine.pus();
        let first = &pus[0];
        let mut cores_of_llc: Vec<&Pu> = pus.iter().filter(|pu| pu.llc == first.llc).collect();
        cores_of_llc.dedup_by_key(|pu| pu.core);
        Self {
            first: first.os_index,
            core: pair(pus, |a, b| a.core == b.core),
            l2: pair(pus, |a, b| a.core != b.core && a.l2 == b.l2),
            llc: pair(pus, |a, b| a.l2 != b.l2 && a.llc == b.llc),
            node: pair(pus, |a, b| a.llc != b.llc && a.node == b.node),
            remote: farthest(machine),
            cores_of_llc: cores_of_llc.into_iter().map(|pu| pu.os_index).collect(),
        }
    }

    /// The nearest two hardware threads that are not of one core; of one core if there is nothing else.
    #[must_use]
    pub fn nearest_two(&self) -> Option<[u32; 2]> {
        self.llc.or(self.l2).or(self.node).or(self.remote).or(self.core)
    }
}

/// The first thread that has such a partner, and the partner.
fn pair(pus: &[Pu], fits: impl Fn(&Pu, &Pu) -> bool) -> Option<[u32; 2]> {
    let partner = |a: &Pu| pus.iter().find(|b| b.os_index != a.os_index && fits(a, b));
    pus.iter().find_map(|a| partner(a).map(|b| [a.os_index, b.os_index]))
}

fn farthest(machine: &Topology) -> Option<[u32; 2]> {
    let first = &machine.pus()[0];
    let others = machine.pus().iter().filter(|pu| pu.node != first.node);
    let far = others.max_by_key(|pu| machine.node_distance(first.node, pu.node))?;
    Some([first.os_index, far.os_index])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(machine: &str) -> Places {
        Places::of(&machine.parse().unwrap())
    }

    #[test]
    fn each_distance_has_its_pair() {
        let all = places("node:2 llc:2 l2:2 core:2 pu:2");
        assert_eq!(all.core, Some([0, 1]));
        assert_eq!(all.l2, Some([0, 2]));
        assert_eq!(all.llc, Some([0, 4]));
        assert_eq!(all.node, Some([0, 8]));
        assert_eq!(all.remote.map(|[a, b]| (a, b >= 16)), Some((0, true)));
        assert_eq!(all.cores_of_llc, [0, 2, 4, 6]);
        assert_eq!(all.nearest_two(), Some([0, 4]));
    }

    #[test]
    fn what_there_is_not_is_none() {
        let one = places("pu:1");
        assert_eq!(
            (one.core, one.l2, one.llc, one.node, one.remote),
            (None, None, None, None, None)
        );
        assert_eq!(one.nearest_two(), None);
        assert_eq!(places("core:1 pu:2").nearest_two(), Some([0, 1]));
    }
}
