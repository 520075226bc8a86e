//! Child processes: a descriptor that becomes readable when one has ended, and by which it is killed.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// A descriptor for process `pid`, readable once the process has ended. `pid` must be a child that was not waited for:
/// else it may be anybody.
///
/// # Errors
///
/// The kernel has none (before Linux 5.3, or not Linux), a filter of system calls forbids it, or the process has no
/// descriptor left.
#[cfg(target_os = "linux")]
pub(crate) fn pidfd_open(pid: u32) -> io::Result<OwnedFd> {
    use rustix::process::{Pid, PidfdFlags};

    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

/// A descriptor for process `pid`, which this system doesn't have.
#[cfg(not(target_os = "linux"))]
pub(crate) fn pidfd_open(_pid: u32) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Kills the process of `pidfd` by `SIGKILL`, and nobody else: also if the process was waited for, and its id is
/// another's.
///
/// # Errors
///
/// It was waited for ([`is_gone`]). It belongs to another user, or a filter of system calls forbids it.
#[cfg(target_os = "linux")]
pub(crate) fn pidfd_kill(pidfd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::process::pidfd_send_signal(
        pidfd,
        rustix::process::Signal::KILL,
    )?)
}

/// Kills the process of `pidfd`, which this system doesn't have.
#[cfg(not(target_os = "linux"))]
pub(crate) fn pidfd_kill(_pidfd: BorrowedFd<'_>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether the error says that there is no such process, or no such child, any more: it was waited for.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ECHILD))
}

/// What waiting for a child answers that was waited for.
pub(crate) fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ECHILD)
}

/// Has the kernel refuse a system call, by its number, with EPERM, as the filters of some containers do, in this
/// process and for good.
#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
pub(crate) fn forbid(call: libc::c_long) {
    let instruction = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt,
        jf,
        k,
    };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let if_equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let number = u32::try_from(call).unwrap();
    let refusal = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EPERM).unwrap();
    let mut filter = [
        // The number of the system call comes first in what a filter sees.
        instruction(load, 0, 0, 0),
        instruction(if_equal, number, 0, 1),
        instruction(answer, refusal, 0, 0),
        instruction(answer, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).unwrap(),
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    let all_threads = libc::SECCOMP_FILTER_FLAG_TSYNC;
    // SAFETY: reads the program and the filter that it points to, both live to the end of this function.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            all_threads,
            &raw const program,
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

/// Has the kernel refuse every further thread, as where a limit is reached, in this process and for good. Root, which
/// no limit binds, becomes nobody.
#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
pub(crate) fn forbid_threads() {
    const NOBODY: libc::uid_t = 65534;
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: reads the limit, which lives to the end of this function.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const none) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    if rustix::process::geteuid().is_root() {
        // SAFETY: no pointers.
        let result = unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_lives_has_a_descriptor_and_an_impossible_one_does_not() {
        pidfd_open(std::process::id()).unwrap();
        for pid in [0, u32::MAX] {
            assert!(pidfd_open(pid).is_err());
        }
    }

    #[test]
    fn a_process_that_was_waited_for_is_not_killed_by_its_descriptor() {
        use std::os::fd::AsFd;
        use std::os::unix::process::ExitStatusExt;

        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pidfd = pidfd_open(child.id()).unwrap();
        // Twice: it may have ended, and is nobody else until it was waited for.
        (0..2).for_each(|_| pidfd_kill(pidfd.as_fd()).unwrap());
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        let error = pidfd_kill(pidfd.as_fd()).unwrap_err();
        assert!(is_gone(&error), "{error}");
    }
}
