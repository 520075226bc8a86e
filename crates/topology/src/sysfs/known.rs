//! What sysfs said the last time.
//!
//! Of a machine it has some forty files a CPU, and nothing in them is taken to change but which CPUs are online. A
//! program that starts many runtimes, as a suite of tests does, reads them once. The mask that the kernel gives for a
//! thread has online CPUs only: if all of them are known, nothing is read. What is remembered then may have more CPUs
//! than are online. Where sysfs numbers CPUs anew some of them are never known; then the list of those that are online
//! is read each time, and nothing else.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use super::read;
use crate::remembered::at_once;
use crate::{PuSet, Topology, TopologyError, Warning};

/// A machine that was read.
#[derive(Debug)]
struct Machine {
    /// The CPUs that were online before it was read, in the kernel's words.
    online: String,
    topology: Topology,
    odd: Vec<Warning>,
}

/// The machine below one root that was read last.
#[derive(Debug)]
pub(crate) struct Known(Mutex<Option<Machine>>);

impl Known {
    pub(crate) const fn nothing() -> Self {
        Self(Mutex::new(None))
    }

    /// As [`read`], of what is known if the same CPUs are online, or at least those of `active`, of which the kernel
    /// says that they are.
    ///
    /// # Errors
    /// As [`read`], which is not remembered.
    pub(crate) fn read(&self, root: &Path, active: Option<&PuSet>) -> Result<(Topology, Vec<Warning>), TopologyError> {
        let Some(mut known) = at_once(&self.0) else {
            return read(root);
        };
        let has_all = |machine: &&Machine| active.is_some_and(|active| active.is_subset(&machine.topology.os_set()));
        if let Some(machine) = known.as_ref().filter(has_all) {
            return Ok((machine.topology.clone(), machine.odd.clone()));
        }
        let Ok(online) = fs::read_to_string(root.join("cpu/online")) else {
            return read(root);
        };
        if let Some(machine) = known.as_ref().filter(|machine| machine.online == online) {
            return Ok((machine.topology.clone(), machine.odd.clone()));
        }
        let (topology, odd) = read(root)?;
        // Not what was read while CPUs came or went.
        let is_settled = fs::read_to_string(root.join("cpu/online")).is_ok_and(|after| after == online);
        *known = is_settled.then(|| Machine {
            online,
            topology: topology.clone(),
            odd: odd.clone(),
        });
        Ok((topology, odd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn it_is_read_again_when_other_cpus_are_online() {
        let (sysfs, known) = (Scratch::new(), Known::nothing());
        for cpu in 0..3 {
            sysfs.write(&format!("cpu/cpu{cpu}/topology/core_id"), "0");
        }
        let read_it = || known.read(sysfs.path(), None);
        assert!(
            read_it().is_ok_and(|(topology, _)| topology.pus().len() == 3),
            "without the file"
        );
        sysfs.write("cpu/online", "x");
        let without = read_it().map(|(topology, odd)| (topology.pus().len(), odd.len()));
        assert_eq!(
            without.ok(),
            read(sysfs.path())
                .ok()
                .map(|(topology, odd)| (topology.pus().len(), odd.len()))
        );
        sysfs.write("cpu/online", "0-1\n");
        let two = read_it().unwrap();
        assert_eq!(two.0.pus().len(), 2);
        sysfs.remove("cpu/cpu1");
        assert_eq!(read_it().unwrap(), two, "nothing is read but that");
        sysfs.write("cpu/online", "0,2\n");
        let others: Vec<u32> = read_it().unwrap().0.os_set().iter().collect();
        assert_eq!(others, [0, 2]);
        sysfs.write("cpu/online", "0-1\n");
        let read_for = |active: PuSet| known.read(sysfs.path(), Some(&active)).unwrap().0.os_set();
        let cpus = |cpus: [u32; 2]| PuSet::from_iter(cpus);
        assert_eq!(read_for(PuSet::from_iter([2])), cpus([0, 2]), "all of them are known");
        assert_eq!(read_for(cpus([0, 1])), cpus([0, 1]), "one is not");
        sysfs.remove("cpu/cpu0");
        assert_eq!(
            read_for(cpus([1, 5])),
            cpus([0, 1]),
            "one that is nowhere is not looked for again"
        );
    }
}
