//! What the kernel knows of this process: its memory, its descriptors, and how often its threads have blocked.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Between two looks at threads that should have come to rest.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Memory that this process uses, in bytes, as the kernel counts it (`VmRSS`).
///
/// # Errors
/// One line: there is no /proc, or it does not say.
pub fn resident_bytes() -> Result<u64, String> {
    let path = "/proc/self/status";
    let kibibytes = field(&read(path)?, "VmRSS:").ok_or_else(|| format!("{path} has no VmRSS in kB"))?;
    Ok(kibibytes * 1024)
}

/// Memory that this process could use, in bytes, without others having to give some back: what the kernel takes for
/// available (`MemAvailable`), or what the cgroups leave if that is less.
///
/// # Errors
/// One line: there is no /proc, or it does not say.
pub fn available_bytes() -> Result<u64, String> {
    let path = "/proc/meminfo";
    let kibibytes = field(&read(path)?, "MemAvailable:").ok_or_else(|| format!("{path} has no MemAvailable in kB"))?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let left = left_by_groups(&groups, Path::new("/sys/fs/cgroup"));
    Ok(left.map_or(kibibytes * 1024, |left| left.min(kibibytes * 1024)))
}

/// What the groups, and those above them, leave of their limits on memory; `None` if there is no limit. What they have
/// in the page cache counts as used, though the kernel could take it back. A container may
/// be told a path of its host: then only those above it are found, of which one is its own.
fn left_by_groups(groups: &str, mount: &Path) -> Option<u64> {
    let number = |file: &Path| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let lefts = groups.lines().filter_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let (mount, limit, usage) = match controllers {
            "" => (mount.to_owned(), "memory.max", "memory.current"),
            "memory" => (mount.join("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
            _ => return None,
        };
        let folder = mount.join(group.trim_start_matches('/'));
        let of_mount = folder.ancestors().take_while(|folder| folder.starts_with(&mount));
        let left = |folder: &Path| Some(number(&folder.join(limit))?.saturating_sub(number(&folder.join(usage))?));
        of_mount.filter_map(left).min()
    });
    lefts.min()
}

/// How many descriptors this process has open.
///
/// # Errors
/// One line: there is no /proc.
pub fn open_descriptors() -> Result<usize, String> {
    let path = "/proc/self/fd";
    let entries = fs::read_dir(path).map_err(|error| format!("cannot list {path}: {error}"))?;
    // One of them is that of the list itself.
    Ok(entries.count() - 1)
}

/// How often the threads of this process have blocked, but for the calling one, and whether all of them are blocked
/// now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Voluntary context switches so far, of the threads that live.
    pub times: u64,
    /// Whether each of them sleeps.
    pub now: bool,
}

/// Looks at the threads of this process, but for the calling one.
///
/// # Errors
/// One line: there is no /proc, or it does not say.
pub fn blocked() -> Result<Blocked, String> {
    let own = rustix::thread::gettid().as_raw_pid().to_string();
    let path = "/proc/self/task";
    let entries = fs::read_dir(path).map_err(|error| format!("cannot list {path}: {error}"))?;
    let others = entries
        .flatten()
        .filter(|entry| entry.file_name() != *own)
        // A thread that has ended meanwhile has no status.
        .filter_map(|entry| fs::read_to_string(entry.path().join("status")).ok());
    sum(others).ok_or_else(|| format!("{path}/*/status has no voluntary_ctxt_switches"))
}

/// The sum over threads with these statuses; `None` if one does not say how often it has blocked.
fn sum(mut statuses: impl Iterator<Item = String>) -> Option<Blocked> {
    let none = Blocked { times: 0, now: true };
    statuses.try_fold(none, |all, status| {
        Some(Blocked {
            times: all.times + field(&status, "voluntary_ctxt_switches:")?,
            now: all.now && word(&status, "State:") == Some("S"),
        })
    })
}

/// Waits until the other threads of this process have come to rest: all sleep, and none has blocked anew between two
/// looks. Gives up after `patience`: there may be some that never do.
///
/// # Errors
/// As [`blocked`].
pub fn wait_for_rest(patience: Duration) -> Result<(), String> {
    let deadline = Instant::now() + patience;
    let mut before = blocked()?;
    loop {
        thread::sleep(LOOK_EVERY);
        let after = blocked()?;
        if after.now && after == before || Instant::now() >= deadline {
            return Ok(());
        }
        before = after;
    }
}

/// Raises the soft limit on open files to `needed`.
///
/// # Errors
/// One line: the hard limit is lower.
pub fn allow_files(needed: u64) -> Result<(), String> {
    let (soft, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| format!("cannot read the limit on open files: {error}"))?;
    if needed <= soft {
        return Ok(());
    }
    if needed > hard {
        return Err(format!(
            "{needed} open files are needed, the limit is {hard} (ulimit -Hn)"
        ));
    }
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard)
        .map_err(|error| format!("cannot allow {needed} open files: {error}"))
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))
}

/// The number in a line such as `VmRSS: 1234 kB`.
fn field(status: &str, name: &str) -> Option<u64> {
    word(status, name)?.parse().ok()
}

/// The first word after `name`.
fn word<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tx\nState:\tS (sleeping)\nVmRSS:\t    1500 kB\nvoluntary_ctxt_switches:\t7\n";

    #[test]
    fn lines_of_a_status_are_found_by_name() {
        assert_eq!(field(STATUS, "VmRSS:"), Some(1500));
        assert_eq!(field(STATUS, "VmSize:"), None);
        assert_eq!(field(STATUS, "Name:"), None);
        assert_eq!(word(STATUS, "State:"), Some("S"));
        assert!(resident_bytes().unwrap() > 0);
    }

    #[test]
    fn the_group_that_leaves_least_memory_counts() {
        let mount = std::env::temp_dir().join(format!("quadrille-memory-{}", std::process::id()));
        let write = |file: &str, text: &str| {
            let file = mount.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("a/memory.max", "5000\n");
        write("a/memory.current", "4000\n");
        write("a/b/memory.max", "max\n");
        write("a/b/memory.current", "700\n");
        write("memory/memory.limit_in_bytes", "300\n");
        write("memory/memory.usage_in_bytes", "400\n");
        let of_both = left_by_groups("4:memory:/docker/c\n0::/a/b\n", &mount);
        let left = ["0::/a/b", "0::/a", "0::/", "3:cpu:/a", "", "x"].map(|groups| left_by_groups(groups, &mount));
        fs::remove_dir_all(&mount).unwrap();
        assert_eq!(of_both, Some(0));
        assert_eq!(left, [Some(1000), Some(1000), None, None, None, None]);
        assert!(available_bytes().is_ok() || cfg!(not(target_os = "linux")));
    }

    #[test]
    fn threads_are_added_up_and_one_that_runs_is_not_at_rest() {
        let running = STATUS.replace("S (sleeping)", "R (running)").replace(":\t7", ":\t5");
        let sum = |statuses: &[&str]| sum(statuses.iter().map(|&status| status.to_owned()));
        assert_eq!(sum(&[]), Some(Blocked { times: 0, now: true }));
        assert_eq!(sum(&[STATUS, STATUS]), Some(Blocked { times: 14, now: true }));
        assert_eq!(sum(&[STATUS, &running]), Some(Blocked { times: 12, now: false }));
        assert_eq!(sum(&[STATUS, "State:\tS\n"]), None);
    }

    #[test]
    fn too_many_files_are_refused_with_both_numbers() {
        let message = allow_files(u64::MAX - 1).unwrap_err();
        assert!(
            message.starts_with("18446744073709551614 open files are needed, the limit is "),
            "{message}"
        );
    }
}
