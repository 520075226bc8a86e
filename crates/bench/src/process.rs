//! What the kernel knows of this process: its memory, its descriptors, and how often its threads have blocked.

use std::fs;
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
