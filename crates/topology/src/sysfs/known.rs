//! What sysfs said the last time.
//!
//! Of a machine it has some forty files a CPU, and nothing in them is taken to change but which CPUs are online. A program that starts many runtimes, as a suite of tests does, reads them once.
//! The kernel leaves those that are not out of the mask of a thread: with a mask of its, all of whose CPUs are known, nothing is read.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, TryLockError};

use super::read;
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

    /// As [`read`], of what is known if the same CPUs are online, or at least those of `active`, of which the kernel says that they are.
    ///
    /// # Errors
    /// As [`read`], which is not remembered.
    pub(crate) fn read(&self, root: &Path, active: Option<&PuSet>) -> Result<(Topology, Vec<Warning>), TopologyError> {
        // Whoever else reads now, in a process that this one was forked from perhaps, is not waited for.
        let mut known = match self.0.try_lock() {
            Ok(known) => known,
            // It is replaced as a whole.
            Err(TryLockError::Poisoned(known)) => known.into_inner(),
            Err(TryLockError::WouldBlock) => return read(root),
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
    use std::path::PathBuf;
    use std::{env, process};

    use super::*;

    /// A folder that goes with its test.
    struct Sysfs(PathBuf);

    impl Sysfs {
        fn new() -> Self {
            let root = env::temp_dir().join(format!("quadrille-known-{}", process::id()));
            // Of a run that was killed.
            let _ = fs::remove_dir_all(&root);
            let sysfs = Self(root);
            for cpu in 0..3 {
                sysfs.write(&format!("cpu/cpu{cpu}/topology/core_id"), "0");
            }
            sysfs
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.0.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    impl Drop for Sysfs {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn it_is_read_again_when_other_cpus_are_online() {
        let (sysfs, known) = (Sysfs::new(), Known::nothing());
        let read_it = || known.read(&sysfs.0, None);
        assert!(
            read_it().is_ok_and(|(topology, _)| topology.pus().len() == 3),
            "without the file"
        );
        sysfs.write("cpu/online", "x");
        let without = read_it().map(|(topology, odd)| (topology.pus().len(), odd.len()));
        assert_eq!(
            without.ok(),
            read(&sysfs.0)
                .ok()
                .map(|(topology, odd)| (topology.pus().len(), odd.len()))
        );
        sysfs.write("cpu/online", "0-1\n");
        let two = read_it().unwrap();
        assert_eq!(two.0.pus().len(), 2);
        fs::remove_dir_all(sysfs.0.join("cpu/cpu1")).unwrap();
        assert_eq!(read_it().unwrap(), two, "nothing is read but that");
        sysfs.write("cpu/online", "0,2\n");
        let others: Vec<u32> = read_it().unwrap().0.os_set().iter().collect();
        assert_eq!(others, [0, 2]);
        sysfs.write("cpu/online", "0-1\n");
        let read_for = |active: PuSet| known.read(&sysfs.0, Some(&active)).unwrap().0.os_set();
        let cpus = |cpus: [u32; 2]| PuSet::from_iter(cpus);
        assert_eq!(read_for(cpus([2, 2])), cpus([0, 2]), "all of them are known");
        assert_eq!(read_for(cpus([0, 1])), cpus([0, 1]), "one is not");
    }
}
