//! Both ways to hear of a child's end.

use std::io;
use std::pin::pin;

use futures_lite::future::{block_on, poll_once};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, waitid, waitpid};

use super::{Child, ChildStdin, Command, Stdio};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use crate::child::{assert_passed, is_child, run_child};
use crate::thread::Wait as _;
use crate::{JoinSet, Runtime};

fn runtime() -> Runtime {
    Runtime::builder().worker_threads(2).build().unwrap()
}

/// `sh -c script`.
fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Children of all sorts, each asserted to have a descriptor or not.
fn scenario(pidfd: bool) {
    let check = move |child: &Child| assert_eq!(child.has_pidfd(), pidfd);
    let runtime = runtime();
    runtime.block_on(async move {
        let mut set = JoinSet::new();
        for code in 0..20 {
            set.spawn(async move {
                let mut child = shell(&format!("exit {code}")).spawn().unwrap();
                check(&child);
                assert_eq!(child.wait().await.unwrap().code(), Some(code));
                assert_eq!(child.wait().await.unwrap().code(), Some(code));
            });
        }
        assert_eq!(set.join_all().await.len(), 20);
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        check(&child);
        assert!(child.try_wait().unwrap().is_none());
        child.kill().await.unwrap();
        assert!(!child.wait().await.unwrap().success());
    });
    let thread = runtime.spawn_thread(move || {
        let mut child = shell("exit 7").spawn().unwrap();
        check(&child);
        child.wait().wait().unwrap().code()
    });
    assert_eq!(thread.join().unwrap(), Some(7));
    // A child that is left behind, and ends only then.
    let (pid, stdin) = runtime.block_on(async {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        (child.id().unwrap(), child.stdin.take())
    });
    assert!(is_there(pid));
    drop(stdin);
    eventually_gone(pid);
}

/// Whether there is a process or a zombie by that id.
fn is_there(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// Whether it has ended and was not waited for.
fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The state comes after the name.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let held = (0..100_000).any(|_| {
        std::thread::park_timeout(std::time::Duration::from_micros(100));
        holds()
    });
    assert!(held, "{what}");
}

fn eventually_gone(pid: u32) {
    eventually("it was waited for", || !is_there(pid));
}

#[cfg(target_os = "linux")]
#[test]
fn an_end_is_told_by_a_descriptor() {
    scenario(true);
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn where_descriptors_are_forbidden_an_end_is_told_by_a_signal() {
    if is_child() {
        crate::sys::process::forbid(libc::SYS_pidfd_open);
        return scenario(false);
    }
    let name = "where_descriptors_are_forbidden_an_end_is_told_by_a_signal";
    assert_passed(&run_child(module_path!(), name));
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap()
}

/// Waits for a child behind its owner's back.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn reap(child: &Child) {
    assert!(waitpid(Some(pid(child)), WaitOptions::empty()).unwrap().is_some());
}

/// Children that others have waited for, in a process that may not call `kill(2)`: their ids may be strangers' by now.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn nobody_is_killed_by_an_old_id(pidfd: bool) {
    runtime().block_on(async move {
        let mut child = shell("exit 0").spawn().unwrap();
        assert_eq!(child.has_pidfd(), pidfd);
        reap(&child);
        child.start_kill().unwrap();
        let error = child.kill().await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ECHILD), "{error}");
        let mut dropped = shell("exit 0").kill_on_drop(true).spawn().unwrap();
        reap(&dropped);
        dropped.start_kill().unwrap();
        drop(dropped);
    });
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn a_child_is_killed_by_its_descriptor_and_not_by_its_id() {
    if is_child() {
        crate::sys::process::forbid(libc::SYS_kill);
        nobody_is_killed_by_an_old_id(true);
        return runtime().block_on(async {
            let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            child.kill().await.unwrap();
            assert!(!child.wait().await.unwrap().success());
        });
    }
    let name = "a_child_is_killed_by_its_descriptor_and_not_by_its_id";
    assert_passed(&run_child(module_path!(), name));
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn without_a_descriptor_a_child_that_others_waited_for_is_left_alone() {
    if is_child() {
        crate::sys::process::forbid(libc::SYS_pidfd_open);
        crate::sys::process::forbid(libc::SYS_kill);
        return nobody_is_killed_by_an_old_id(false);
    }
    let name = "without_a_descriptor_a_child_that_others_waited_for_is_left_alone";
    assert_passed(&run_child(module_path!(), name));
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn where_signals_to_descriptors_are_forbidden_a_child_is_killed_by_its_id() {
    if is_child() {
        crate::sys::process::forbid(libc::SYS_pidfd_send_signal);
        return scenario(true);
    }
    let name = "where_signals_to_descriptors_are_forbidden_a_child_is_killed_by_its_id";
    assert_passed(&run_child(module_path!(), name));
}

/// Killed after its end without a descriptor, a child has been waited for, and says so.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn a_kill_that_comes_too_late_has_the_status() {
    if is_child() {
        crate::sys::process::forbid(libc::SYS_pidfd_open);
        return runtime().block_on(async {
            let mut child = shell("exit 7").spawn().unwrap();
            let id = WaitId::Pid(pid(&child));
            waitid(id, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
            child.start_kill().unwrap();
            assert_eq!(child.id(), None);
            assert_eq!(child.wait().await.unwrap().code(), Some(7));
        });
    }
    let name = "a_kill_that_comes_too_late_has_the_status";
    assert_passed(&run_child(module_path!(), name));
}

/// `cat`, and what keeps it.
fn cat_of(runtime: &Runtime) -> (Child, ChildStdin) {
    let _entered = runtime.enter();
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    (child, stdin)
}

/// Children whose runtime stops, and what waiting for them comes to: in another runtime, in one that stops as well, and
/// in none.
fn the_stop_of_a_runtime_is_not_the_end_of_waiting(pidfd: bool) {
    let (first, second, third) = (runtime(), runtime(), runtime());
    let mut ended = first.block_on(async { Command::new("true").spawn().unwrap() });
    assert_eq!(ended.has_pidfd(), pidfd);
    let (mut child, stdin) = cat_of(&first);
    let (mut killed, _stdin) = cat_of(&first);
    // One waits already, the others will.
    let (mut other, its_stdin) = cat_of(&first);
    let (begun, begins) = std::sync::mpsc::channel();
    let waits = second.spawn(async move {
        let mut wait = pin!(other.wait());
        assert!(poll_once(&mut wait).await.is_none());
        begun.send(()).unwrap();
        wait.await.map(|status| status.success())
    });
    begins.recv().unwrap();
    eventually("it has ended", || is_zombie(ended.id().unwrap()));
    drop(first);

    assert!(
        block_on(ended.wait()).unwrap().success(),
        "it takes nobody to look at the status"
    );
    let error = block_on(child.wait()).unwrap_err();
    assert_eq!(error.to_string(), "the runtime is shutting down");
    assert!(second.block_on(poll_once(child.wait())).is_none());
    assert_eq!(child.has_pidfd(), pidfd);
    second.block_on(killed.kill()).unwrap();
    assert!(!killed.try_wait().unwrap().unwrap().success());
    drop(its_stdin);
    assert!(second.block_on(waits).unwrap().unwrap());

    // Once more, and then it is the third that has it.
    drop(second);
    assert!(third.block_on(poll_once(child.wait())).is_none());
    let pid = child.id().unwrap();
    drop(child);
    drop(stdin);
    eventually_gone(pid);
}

#[cfg(target_os = "linux")]
#[test]
fn another_runtime_watches_by_the_same_descriptor() {
    the_stop_of_a_runtime_is_not_the_end_of_waiting(true);
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn another_runtime_listens_to_the_signal_as_well() {
    if is_child() {
        crate::sys::process::forbid(libc::SYS_pidfd_open);
        return the_stop_of_a_runtime_is_not_the_end_of_waiting(false);
    }
    let name = "another_runtime_listens_to_the_signal_as_well";
    assert_passed(&run_child(module_path!(), name));
}

/// A task that waits in a runtime that stops is not kept from being dropped.
#[test]
fn a_wait_inside_of_the_runtime_that_stops_ends() {
    let runtime = runtime();
    let (mut child, _stdin) = cat_of(&runtime);
    let handle = runtime.handle().clone();
    drop(runtime);
    let _entered = handle.enter();
    let error = block_on(child.wait()).unwrap_err();
    assert_eq!(error.to_string(), "the runtime is shutting down");
    child.start_kill().unwrap();
}

#[test]
fn a_runtime_that_has_stopped_starts_nothing_that_stays() {
    let runtime = runtime();
    let handle = runtime.handle().clone();
    drop(runtime);
    let _entered = handle.enter();
    let directory = std::env::temp_dir().join(format!("quadrille-stopped-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("pid");
    let mut command = shell("echo $$ > pid; exec cat");
    let outcome = command.current_dir(&directory).stdin(Stdio::piped()).spawn();
    let error = outcome.map(drop).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Other, "{error}");
    // It was killed, perhaps before it wrote that.
    if let Ok(text) = std::fs::read_to_string(&file)
        && let Ok(pid) = text.trim().parse()
    {
        eventually("it does not stay", || {
            super::orphan::reap();
            !is_there(pid)
        });
    }
    std::fs::remove_dir_all(directory).unwrap();
}
