//! Affinity masks, cpusets and quotas of cgroups v1, v2 and both at once.

use quadrille_topology::{Allowed, PuSet};

use crate::tree::Tree;

const V2_MOUNT: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
const V1_MOUNTS: &str = "22 1 8:1 / / rw - ext4 /dev/sda1 rw
31 30 0:27 / /sys/fs/cgroup/systemd rw shared:9 - cgroup cgroup rw,xattr,name=systemd
33 30 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:11 master:2 - cgroup cgroup rw,cpu,cpuacct
34 30 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset";

/// A tree with the two files of `/proc/self`.
fn process(cgroup: &str, mountinfo: &str) -> Tree {
    Tree::new()
        .file("proc/self/cgroup", cgroup)
        .file("proc/self/mountinfo", mountinfo)
}

/// Compares the CPUs left of 0-7, the quota with its file, and the starts of the warnings (files below the root).
#[track_caller]
fn check(tree: &Tree, pus: &str, quota: Option<(u64, &str)>, warnings: &[&str]) {
    let affinity: PuSet = "0-7".parse().unwrap();
    let allowed = Allowed::read(&tree.roots(), Some(&affinity));
    assert_eq!(allowed.pus.to_string(), pus);
    let found = allowed
        .quota
        .as_ref()
        .map(|q| (q.millicpus, q.source.strip_prefix(tree.path()).unwrap()));
    assert_eq!(found, quota.map(|(millicpus, file)| (millicpus, file.as_ref())));
    assert_eq!(allowed.warnings.len(), warnings.len(), "{:#?}", allowed.warnings);
    for (warning, start) in allowed.warnings.iter().zip(warnings) {
        let start = format!("{}/{start}", tree.path().display());
        assert!(
            warning.to_string().starts_with(&start),
            "{warning}\ndoes not start with\n{start}"
        );
    }
}

#[test]
fn no_limits() {
    check(&process("0::/", V2_MOUNT), "0-7", None, &[]);
    let tree = process("0::/a/b", V2_MOUNT)
        .file("sys/fs/cgroup/a/b/cpu.max", "max 100000")
        .file("sys/fs/cgroup/a/cpuset.cpus.effective", "0-7");
    check(&tree, "0-7", None, &[]);
    let tree = process("4:cpu,cpuacct:/a\n3:cpuset:/a\n1:name=systemd:/a", V1_MOUNTS)
        .file("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1")
        .file("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000");
    check(&tree, "0-7", None, &[]);
}

#[test]
fn the_tightest_quota_of_any_ancestor_wins() {
    let groups = ["", "/a", "/a/b", "/a/b/c"];
    let file = |group: &str| format!("sys/fs/cgroup{group}/cpu.max");
    for tightest in 0..groups.len() {
        let mut tree = process("0::/a/b/c", V2_MOUNT);
        for (i, group) in groups.iter().enumerate() {
            let quota = if i == tightest { "50000 100000" } else { "250000 100000" };
            tree = tree.file(&file(group), quota);
        }
        check(&tree, "0-7", Some((500, &file(groups[tightest]))), &[]);
    }
}

#[test]
fn fractions_and_periods() {
    for (text, millicpus) in [
        ("50000 100000", 500),
        ("250000 100000", 2500),
        ("200000 100000", 2000),
        ("1000 1000000", 1),
        ("1500 1000", 1500),
        ("33333 100000", 333),
        ("150000", 1500),
        ("12800000 100000", 128_000),
    ] {
        let tree = process("0::/a", V2_MOUNT).file("sys/fs/cgroup/a/cpu.max", text);
        check(&tree, "0-7", Some((millicpus, "sys/fs/cgroup/a/cpu.max")), &[]);
    }
}

#[test]
fn version_one() {
    let quota = "sys/fs/cgroup/cpu,cpuacct/kube/pod/cpu.cfs_quota_us";
    let tree = process("4:cpu,cpuacct:/kube/pod\n3:cpuset:/kube/pod", V1_MOUNTS)
        .file(quota, "20000")
        .file("sys/fs/cgroup/cpu,cpuacct/kube/pod/cpu.cfs_period_us", "10000")
        .file("sys/fs/cgroup/cpu,cpuacct/kube/cpu.cfs_quota_us", "400000")
        .file("sys/fs/cgroup/cpu,cpuacct/kube/cpu.cfs_period_us", "100000")
        .file("sys/fs/cgroup/cpuset/kube/pod/cpuset.cpus", "1-2,5-9")
        .file("sys/fs/cgroup/cpuset/kube/cpuset.effective_cpus", "0-5")
        .file("sys/fs/cgroup/cpuset/kube/cpuset.cpus", "0-1");
    check(&tree, "1-2,5", Some((2000, quota)), &[]);
    // Without a period the kernel's default holds.
    let tree = tree.without("sys/fs/cgroup/cpu,cpuacct/kube/pod/cpu.cfs_period_us");
    check(&tree, "1-2,5", Some((200, quota)), &[]);
}

#[test]
fn both_versions_at_once() {
    let mounts = format!(
        "{V1_MOUNTS}\n41 30 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n{}",
        "42 30 0:39 / /sys/fs/cgroup/broken"
    );
    let tree = process("4:cpu,cpuacct:/v1\n3:cpuset:/v1\n1:name=systemd:/s\n0::/v2/x", &mounts)
        .file("sys/fs/cgroup/cpu,cpuacct/v1/cpu.cfs_quota_us", "300000")
        .file("sys/fs/cgroup/cpuset/v1/cpuset.cpus", "0-5")
        .file("sys/fs/cgroup/unified/v2/cpu.max", "150000 100000")
        .file("sys/fs/cgroup/unified/v2/cpuset.cpus.effective", "3-7")
        // A hierarchy without the controller has no say.
        .file("sys/fs/cgroup/systemd/s/cpu.cfs_quota_us", "1000")
        .file("sys/fs/cgroup/systemd/s/cpuset.cpus", "0");
    check(&tree, "3-5", Some((1500, "sys/fs/cgroup/unified/v2/cpu.max")), &[]);
}

#[test]
fn a_container_sees_its_own_group_as_the_root() {
    // With the host's path and a mount of that group.
    let mount = "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw";
    for group in ["/docker/abc", "/docker/abc/sub", "/", "/../other", "/elsewhere"] {
        let quota = "sys/fs/cgroup/cpu.max";
        let tree = process(&format!("0::{group}"), mount)
            .file(quota, "100000 100000")
            .file("sys/fs/cpu.max", "1 100000")
            .file("sys/fs/cgroup/cpuset.cpus.effective", "2,3");
        check(&tree, "2-3", Some((1000, quota)), &[]);
    }
    let tree = process("0::/docker/abc/sub", mount).file("sys/fs/cgroup/sub/cpu.max", "50000 100000");
    check(&tree, "0-7", Some((500, "sys/fs/cgroup/sub/cpu.max")), &[]);
}

#[test]
fn the_mount_that_shows_most_is_taken() {
    let mounts = format!("29 23 0:26 /a/b /mnt/inner rw - cgroup2 c rw\n{V2_MOUNT}");
    let tree = process("0::/a/b", &mounts)
        .file("mnt/inner/cpu.max", "100000 100000")
        .file("sys/fs/cgroup/a/cpu.max", "50000 100000");
    check(&tree, "0-7", Some((500, "sys/fs/cgroup/a/cpu.max")), &[]);
}

#[test]
fn blanks_and_colons_in_names() {
    let mount = r"30 23 0:26 / /sys/my\040groups rw - cgroup2 cgroup2 rw";
    let quota = "sys/my groups/a:b/cpu.max";
    let tree = process("0::/a:b", mount).file(quota, "100000 100000");
    check(&tree, "0-7", Some((1000, quota)), &[]);
}

#[test]
fn missing_files_are_warnings() {
    check(
        &Tree::new(),
        "0-7",
        None,
        &["proc/self/cgroup: ", "proc/self/mountinfo: "][..1],
    );
    check(
        &Tree::new().file("proc/self/cgroup", "0::/"),
        "0-7",
        None,
        &["proc/self/mountinfo: "],
    );
    // Nothing is mounted; a line that is none; no such folder.
    check(&process("0::/a", ""), "0-7", None, &[]);
    check(&process("garbage\n\n0::/gone", V2_MOUNT), "0-7", None, &[]);
}

#[test]
fn odd_files_are_warnings() {
    for text in [
        "",
        "much",
        "max100",
        "-5 100000",
        "100000 x",
        "0 100000",
        "100000 0",
        "\u{0}",
    ] {
        let tree = process("0::/a", V2_MOUNT)
            .file("sys/fs/cgroup/a/cpu.max", text)
            .file("sys/fs/cgroup/cpu.max", "200000 100000");
        check(
            &tree,
            "0-7",
            Some((2000, "sys/fs/cgroup/cpu.max")),
            &["sys/fs/cgroup/a/cpu.max: `"],
        );
    }
    for text in ["", "x", "-2"] {
        let quota = "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us";
        let tree = process("4:cpu,cpuacct:/a", V1_MOUNTS).file(quota, text);
        check(
            &tree,
            "0-7",
            None,
            &[&format!("{quota}: `{text}`: expected a quota in microseconds or -1")],
        );
    }
    let tree = process("4:cpu,cpuacct:/a", V1_MOUNTS)
        .file("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "50000")
        .file("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "p");
    check(
        &tree,
        "0-7",
        Some((500, "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us")),
        &["sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us: `p`: expected a period"],
    );
    for text in ["", "zero", "3-1"] {
        let tree = process("0::/a", V2_MOUNT).file("sys/fs/cgroup/a/cpuset.cpus.effective", text);
        check(
            &tree,
            "0-7",
            None,
            &[&format!(
                "sys/fs/cgroup/a/cpuset.cpus.effective: `{text}`: expected a CPU list"
            )],
        );
    }
}

#[test]
fn a_cpuset_that_leaves_nothing_is_not_applied() {
    let tree = process("0::/a", V2_MOUNT).file("sys/fs/cgroup/a/cpuset.cpus.effective", "8-9");
    check(
        &tree,
        "0-7",
        None,
        &["sys/fs/cgroup/a/cpuset.cpus.effective: CPUs 8-9: expected some of the affinity mask"],
    );
    let tree = process("3:cpuset:/a/b", V1_MOUNTS)
        .file("sys/fs/cgroup/cpuset/a/b/cpuset.cpus", "8-9")
        .file("sys/fs/cgroup/cpuset/a/cpuset.cpus", "0-3");
    check(
        &tree,
        "0-3",
        None,
        &["sys/fs/cgroup/cpuset/a/b/cpuset.cpus: CPUs 8-9: expected some of the affinity mask"],
    );
}

/// The group above a partition has all CPUs but the partition's.
#[test]
fn a_partition_has_its_own_cpus_and_no_others() {
    let tree = process("0::/a/b", V2_MOUNT)
        .file("sys/fs/cgroup/a/b/cpuset.cpus.effective", "4-5")
        .file("sys/fs/cgroup/a/b/cpuset.cpus.partition", "root")
        .file("sys/fs/cgroup/a/cpuset.cpus.effective", "0-3,6-7")
        .file("sys/fs/cgroup/cpuset.cpus.effective", "0-3,6-15");
    check(&tree, "4-5", None, &[]);
    // Groups inside it need no cpuset of their own.
    let inside = "4:cpu:/\n0::/a/b/c";
    check(&tree.file("proc/self/cgroup", inside), "4-5", None, &[]);
    // One that is odd has no say.
    let tree = process("0::/a/b", V2_MOUNT)
        .file("sys/fs/cgroup/a/b/cpuset.cpus.effective", "x")
        .file("sys/fs/cgroup/a/cpuset.cpus.effective", "0-3");
    check(
        &tree,
        "0-3",
        None,
        &["sys/fs/cgroup/a/b/cpuset.cpus.effective: `x`: expected a CPU list"],
    );
}

#[test]
fn this_process_may_use_something() {
    let allowed = Allowed::read(&quadrille_topology::Roots::default(), None);
    assert!(!allowed.pus.is_empty());
}
