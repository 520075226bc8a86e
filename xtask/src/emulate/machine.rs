//! The machines that can be emulated: a table of shapes.
//!
//! Each is a row of data: what qemu is told (processors, nodes), what the kernel is told, and what the guest does
//! before the command runs (affinity, cgroups, processors taken offline). The command runs in the guest's first
//! process, so whatever is set up for that process holds for the command.
//!
//! All have processors of the kind `Skylake-Server`: software emulation shows their SMT siblings and lets these share
//! an L2, which it does not for AMD's. A socket has one L3.

use std::fmt::Write as _;

use super::moves::Far;
use crate::failure::{Failure, Outcome};

/// One machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) name: &'static str,
    /// For `--list`.
    pub(crate) about: &'static str,
    pub(crate) sockets: u32,
    pub(crate) cores_per_socket: u32,
    pub(crate) threads_per_core: u32,
    /// NUMA nodes, which the sockets are dealt out to; 0 for a machine that knows nothing of them.
    pub(crate) nodes: u32,
    /// Added to the kernel's command line.
    pub(crate) kernel: &'static str,
    /// Where tasks move that leave their LLC; `None`: they may have none to leave for.
    pub(crate) far: Option<Far>,
    /// Lines of shell, run before the command by the process that becomes it.
    pub(crate) setup: &'static str,
}

/// A group of cgroup v2 that the command runs in; `$job` is its folder.
macro_rules! in_a_cgroup {
    ($limits:literal) => {
        concat!(
            "echo +cpu +cpuset > /sys/fs/cgroup/cgroup.subtree_control\n",
            "job=/sys/fs/cgroup/job\n",
            "mkdir $job\n",
            $limits,
            "echo $$ > $job/cgroup.procs\n"
        )
    };
}

const PLAIN: Machine = Machine {
    name: "",
    about: "",
    sockets: 1,
    cores_per_socket: 1,
    threads_per_core: 1,
    nodes: 0,
    kernel: "",
    far: None,
    setup: "",
};

/// Every machine, in the order in which they are listed and checked.
pub(crate) static MACHINES: &[Machine] = &[
    Machine {
        name: "node4-smt2",
        about: "4 nodes of 4 cores with 2 hardware threads each",
        sockets: 4,
        cores_per_socket: 4,
        threads_per_core: 2,
        nodes: 4,
        far: Some(Far::Node),
        ..PLAIN
    },
    Machine {
        name: "node2",
        about: "2 nodes of 8 cores",
        sockets: 2,
        cores_per_socket: 8,
        nodes: 2,
        far: Some(Far::Node),
        ..PLAIN
    },
    Machine {
        name: "up",
        about: "one CPU",
        ..PLAIN
    },
    Machine {
        name: "odd-llc",
        about: "3 LLCs of 3 cores, one node",
        sockets: 3,
        cores_per_socket: 3,
        far: Some(Far::Llc),
        ..PLAIN
    },
    Machine {
        name: "holes",
        about: "2 nodes of 8 cores, of which cpuset and affinity leave 1-2, 6 and 9-11",
        sockets: 2,
        cores_per_socket: 8,
        nodes: 2,
        far: Some(Far::Node),
        setup: concat!(
            in_a_cgroup!("echo 1-3,6,9-12 > $job/cpuset.cpus\n"),
            "taskset -p 0ff7 $$ > /dev/null\n"
        ),
        ..PLAIN
    },
    Machine {
        name: "quota",
        about: "16 cores, of whose time a cgroup allows 2.5",
        sockets: 2,
        cores_per_socket: 8,
        setup: in_a_cgroup!("echo 250000 100000 > $job/cpu.max\n"),
        ..PLAIN
    },
    Machine {
        name: "offline",
        about: "2 nodes of 8 cores; 2, 3, 7 and the last four are offline",
        sockets: 2,
        cores_per_socket: 8,
        nodes: 2,
        far: Some(Far::Node),
        kernel: "maxcpus=12",
        setup: "for cpu in 2 3 7; do echo 0 > /sys/devices/system/cpu/cpu$cpu/online; done\n",
        ..PLAIN
    },
];

/// The machine of that name.
pub(crate) fn find(name: &str) -> Outcome<&'static Machine> {
    MACHINES.iter().find(|machine| machine.name == name).ok_or_else(|| {
        let names: Vec<_> = MACHINES.iter().map(|machine| machine.name).collect();
        Failure::usage(format!("no machine `{name}`; there are {}", names.join(", ")))
    })
}

/// `--list`: a line for each machine.
pub(crate) fn list() -> String {
    let mut text = String::new();
    for machine in MACHINES {
        let _ = writeln!(text, "{:<12} {}", machine.name, machine.about);
    }
    text
}

impl Machine {
    /// Its hardware threads, those that are offline or forbidden included.
    pub(crate) fn cpus(&self) -> u32 {
        self.sockets * self.cores_per_socket * self.threads_per_core
    }

    /// What tells qemu of processors, memory and nodes. Memory that no guest touches costs the host nothing.
    pub(crate) fn qemu_options(&self) -> Vec<String> {
        const MEMORY_MIB: u32 = 4096;
        let Self {
            sockets,
            cores_per_socket,
            threads_per_core,
            nodes,
            ..
        } = *self;
        let cpus = self.cpus();
        let mut options: Vec<String> = [
            "-cpu",
            "Skylake-Server,-avx512f",
            "-smp",
            &format!("{cpus},sockets={sockets},cores={cores_per_socket},threads={threads_per_core}"),
            "-m",
            &format!("{MEMORY_MIB}M"),
        ]
        .map(str::to_owned)
        .into();
        for node in 0..nodes {
            let (share, memory) = (cpus / nodes, MEMORY_MIB / nodes);
            let (first, last) = (node * share, (node + 1) * share - 1);
            options.extend([
                "-object".to_owned(),
                format!("memory-backend-ram,id=memory{node},size={memory}M"),
                "-numa".to_owned(),
                format!("node,nodeid={node},cpus={first}-{last},memdev=memory{node}"),
            ]);
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (index, machine) in MACHINES.iter().enumerate() {
            assert!(std::ptr::eq(
                find(machine.name).expect("it is there"),
                &raw const MACHINES[index]
            ));
        }
        let error = find("node5").expect_err("there is none");
        assert_eq!(error.exit_status(), 2);
        assert!(
            error.to_string().contains("`node5`; there are node4-smt2, node2, up,"),
            "{error}"
        );
    }

    #[test]
    fn a_line_a_machine() {
        assert_eq!(list().lines().count(), MACHINES.len());
        assert!(list().starts_with("node4-smt2   4 nodes of 4 cores"));
    }

    #[test]
    fn nodes_have_whole_sockets_and_all_memory() {
        for machine in MACHINES.iter().filter(|machine| machine.nodes > 0) {
            assert_eq!(machine.sockets % machine.nodes, 0, "{}", machine.name);
        }
        let options = find("node4-smt2").expect("it is there").qemu_options().join(" ");
        let expected = "-cpu Skylake-Server,-avx512f -smp 32,sockets=4,cores=4,threads=2 -m 4096M \
                        -object memory-backend-ram,id=memory0,size=1024M -numa node,nodeid=0,cpus=0-7,memdev=memory0 ";
        assert!(options.starts_with(expected), "{options}");
        assert!(
            options.ends_with("-numa node,nodeid=3,cpus=24-31,memdev=memory3"),
            "{options}"
        );
        assert!(
            !find("up")
                .expect("it is there")
                .qemu_options()
                .join(" ")
                .contains("-numa")
        );
    }
}
