//! A child that was not waited for, and how its end is heard of.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{self, ExitStatus};
use std::sync::Arc;

use crate::io::{AsyncFd, hide_error_if_doomed};
use crate::reactor::stopped;
use crate::runtime::Handle;
use crate::signal::unix::{Signal, SignalKind, signal};
use crate::sys::process::{gone, is_gone, pidfd_kill, pidfd_open};

/// A process that has not been waited for, so that its id is its own, unless others in this process wait for children
/// that are not theirs.
#[derive(Debug)]
pub(super) struct Running {
    child: process::Child,
    end: End,
    /// Where it is watched, and waited for when nobody else does.
    pub(super) runtime: Handle,
}

/// What tells that a child may have ended.
#[derive(Debug)]
enum End {
    /// Readable when it has.
    Pidfd(AsyncFd<OwnedFd>),
    /// Arrives when any child of this process has.
    Signal(Signal),
    /// Nothing is to tell: it was waited for by others, or by the system because this process ignores `SIGCHLD`, before
    /// it had a descriptor.
    Gone,
}

impl End {
    /// Of process `pid`, which was not waited for.
    fn of(pid: u32) -> io::Result<Self> {
        match pidfd_open(pid) {
            // To listen to the signal would end for good that it is ignored.
            Err(error) if is_gone(&error) => Ok(End::Gone),
            // Whatever another reason is for having no descriptor, the signal does as well.
            opened => opened
                .and_then(AsyncFd::reader)
                .map(End::Pidfd)
                .or_else(|_| signal(SignalKind::child()).map(End::Signal)),
        }
    }

    /// The same in the current runtime. A descriptor is of the same process, whoever has its id by now.
    fn anew(&self) -> io::Result<Self> {
        match self {
            End::Pidfd(fd) => fd.get_ref().try_clone().and_then(AsyncFd::reader).map(End::Pidfd),
            End::Signal(_) => signal(SignalKind::child()).map(End::Signal),
            End::Gone => Ok(End::Gone),
        }
    }
}

/// Kills `child`, unless it was waited for. Its id is its own then, if nobody else waits for it in between. The status
/// if it has ended before.
pub(super) fn kill_by_id(child: &mut process::Child) -> io::Result<Option<ExitStatus>> {
    match child.try_wait() {
        Ok(None) => child.kill().map(|()| None),
        // Others have waited for it: its id may be a stranger's.
        Err(error) if is_gone(&error) => Ok(None),
        ended => ended,
    }
}

impl Running {
    /// Watches `child`, in the current runtime, which is `runtime`.
    ///
    /// # Errors
    ///
    /// There is no way to hear of its end: the process has no descriptors left, or the runtime shuts down. `child`
    /// comes back.
    pub(super) fn new(child: process::Child, runtime: Handle) -> Result<Self, (io::Error, process::Child)> {
        match End::of(child.id()) {
            Ok(end) => Ok(Running { child, end, runtime }),
            Err(error) => Err((error, child)),
        }
    }

    /// Its id, as long as that is its own for all we know.
    pub(super) fn id(&self) -> Option<u32> {
        (!matches!(self.end, End::Gone)).then(|| self.child.id())
    }

    /// Whether its end is told by a descriptor of its own.
    #[cfg(test)]
    pub(super) fn has_pidfd(&self) -> bool {
        matches!(self.end, End::Pidfd(_))
    }

    /// The status if it has ended; then it is waited for.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if matches!(self.end, End::Gone) {
            // Its id may be another's.
            return Err(gone());
        }
        self.child.try_wait()
    }

    /// Kills it. The status if it has ended before; then it is waited for.
    pub(super) fn start_kill(&mut self) -> io::Result<Option<ExitStatus>> {
        let fd = match &self.end {
            End::Pidfd(fd) => fd,
            End::Signal(_) => return kill_by_id(&mut self.child),
            End::Gone => return Ok(None),
        };
        match pidfd_kill(fd.as_fd()) {
            Ok(()) => Ok(None),
            // Others have waited for it.
            Err(error) if is_gone(&error) => Ok(None),
            // It is another user's, or a filter forbids the call: the id will tell.
            Err(_) => kill_by_id(&mut self.child),
        }
    }

    /// Waits for its end. Dropping the future loses nothing: std's child keeps the status once it has it.
    ///
    /// The runtime that watches it may stop before, and its end be seen by nobody. So it is looked at once more, and
    /// then watched by the runtime that is current here, if that is another: each round has one runtime less to go.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            let stopped = match self.watch().await {
                Ok(outcome) => return outcome,
                Err(stopped) => stopped,
            };
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            match Handle::try_current() {
                Some(current) if !Arc::ptr_eq(&current.shared, &self.runtime.shared) => {
                    self.end = hide_error_if_doomed(self.end.anew()).await?;
                    self.runtime = current;
                }
                _ => return Err(stopped),
            }
        }
    }

    /// Waits for its end as long as its runtime goes on; the outer error says that it has stopped, and nothing else
    /// does.
    ///
    /// No end is missed. A pidfd stays readable, and an event that comes while `try_wait` answers is kept. The signal
    /// is counted from before the first look on, so that one which comes between a look and the wait ends the wait.
    async fn watch(&mut self) -> io::Result<io::Result<ExitStatus>> {
        let child = &mut self.child;
        match &mut self.end {
            End::Pidfd(fd) => {
                let look = |_: &OwnedFd| match child.try_wait().transpose() {
                    Some(outcome) => Ok(outcome),
                    None => Err(io::ErrorKind::WouldBlock.into()),
                };
                fd.read_with(look).await
            }
            End::Signal(signal) => loop {
                if let Some(outcome) = child.try_wait().transpose() {
                    return Ok(outcome);
                }
                if signal.recv().await.is_none() {
                    return Err(stopped());
                }
            },
            End::Gone => Ok(Err(gone())),
        }
    }

    /// The child without its watch.
    pub(super) fn into_child(self) -> process::Child {
        self.child
    }
}
