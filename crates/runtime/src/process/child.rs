//! A child process, as its owner holds it.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::process::{self, ExitStatus, Output};
use std::task::Poll;

use super::orphan;
use super::pipe::{ChildStderr, ChildStdin, ChildStdout};
use super::running::{Running, kill_by_id};
use crate::coop;
use crate::runtime::Handle;

/// A process that a [`Command`](super::Command) has started.
///
/// Dropping it does not end the process, unless [`kill_on_drop`](super::Command::kill_on_drop) says so; in either case
/// it leaves no zombie (see the [module](super)).
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::process::{Command, Stdio};
///
/// let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
/// let stdin = child.stdin.take().expect("it is piped");
/// stdin.write_all(b"meow").await?;
/// drop(stdin);
/// assert_eq!(child.wait_with_output().await?.stdout, b"meow");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Child {
    /// The writing end of its standard input, if that is piped.
    pub stdin: Option<ChildStdin>,
    /// The reading end of its standard output, if that is piped.
    pub stdout: Option<ChildStdout>,
    /// The reading end of its standard error, if that is piped.
    pub stderr: Option<ChildStderr>,
    state: State,
    kill_on_drop: bool,
}

#[derive(Debug)]
enum State {
    /// Not waited for.
    Running(Box<Running>),
    /// Waited for: its id may be another's by now.
    Ended(ExitStatus),
}

impl Child {
    /// A child of `runtime`, which is the current one. If that fails the child is killed.
    pub(super) fn new(mut child: process::Child, runtime: &Handle, kill_on_drop: bool) -> io::Result<Self> {
        let pipes = (|| {
            let stdin = child.stdin.take().map(ChildStdin::from_std).transpose()?;
            let stdout = child.stdout.take().map(ChildStdout::from_std).transpose()?;
            let stderr = child.stderr.take().map(ChildStderr::from_std).transpose()?;
            io::Result::Ok((stdin, stdout, stderr))
        })();
        let watched = match pipes {
            Ok(pipes) => Running::new(child, runtime.clone()).map(|running| (pipes, running)),
            Err(error) => Err((error, child)),
        };
        match watched {
            Ok(((stdin, stdout, stderr), running)) => Ok(Child {
                stdin,
                stdout,
                stderr,
                state: State::Running(Box::new(running)),
                kill_on_drop,
            }),
            Err((error, mut child)) => {
                // What can't be killed has ended.
                let _ = kill_by_id(&mut child);
                orphan::leave(child);
                Err(error)
            }
        }
    }

    /// The id of the process; `None` once it was waited for, because the id may be another's then. It was waited for by
    /// the system, or by others, if it was gone before there was a descriptor of it.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        match &self.state {
            State::Running(running) => running.id(),
            State::Ended(_) => None,
        }
    }

    /// The status if the process has ended, `None` if it runs. Does not close its standard input.
    ///
    /// # Errors
    ///
    /// Those of `waitpid(2)`, for example if others in this process wait for all children, or if it ignores `SIGCHLD`.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match &mut self.state {
            State::Ended(status) => Ok(Some(*status)),
            State::Running(running) => {
                let status = running.try_wait()?;
                Ok(status.map(|status| self.ended(status)))
            }
        }
    }

    /// Waits for the end of the process, after closing its standard input: a process that waits for its end would never
    /// end itself. Take [`stdin`](Self::stdin) out before to keep it open.
    ///
    /// If its runtime stops, the one in which this is awaited goes on watching it. The pipes stay with the first.
    ///
    /// # Errors
    ///
    /// Those of `waitpid(2)`, for example if others in this process wait for all children, or if it ignores `SIGCHLD`.
    /// Its runtime shuts down before it has ended, and this is awaited in no other; or that one shuts down, too, or the
    /// process has no descriptors left for it.
    ///
    /// # Cancel safety
    ///
    /// Strict, but the standard input stays closed.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        // Paid for whatever comes: who never has to wait gives way all the same.
        coop::consume_budget().await;
        match &mut self.state {
            State::Ended(status) => Ok(*status),
            State::Running(running) => {
                let status = running.wait().await?;
                Ok(self.ended(status))
            }
        }
    }

    /// Kills the process by `SIGKILL` and does not wait for its end. Does nothing if it was waited for, by whomever: no
    /// other process is killed that has its id by then. (One may be if others in this process wait for all children in
    /// the moment in which it is started, or, where there are no descriptors of processes, in which it is killed.)
    ///
    /// # Errors
    ///
    /// It belongs to another user by now.
    pub fn start_kill(&mut self) -> io::Result<()> {
        if let State::Running(running) = &mut self.state
            && let Some(status) = running.start_kill()?
        {
            self.ended(status);
        }
        Ok(())
    }

    /// Kills the process by `SIGKILL` and waits for its end.
    ///
    /// # Errors
    ///
    /// Those of [`start_kill`](Self::start_kill) and [`wait`](Self::wait).
    ///
    /// # Cancel safety
    ///
    /// Strict: the process is killed with the first poll, and can be waited for again.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.start_kill()?;
        self.wait().await.map(drop)
    }

    /// Reads all that it writes to those of standard output and error that are piped, and waits for its end, after
    /// closing its standard input.
    ///
    /// # Errors
    ///
    /// Those of reading and of [`wait`](Self::wait).
    ///
    /// # Cancel safety
    ///
    /// Not safe: the child is dropped, and what was read is lost. It is here because it is what most need; others read
    /// [`stdout`](Self::stdout) and [`stderr`](Self::stderr) themselves, then [`wait`](Self::wait).
    pub async fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (out, err) = (self.stdout.take(), self.stderr.take());
        let read_out = async {
            let mut bytes = Vec::new();
            match &out {
                Some(out) => out.read_to_end(&mut bytes).await.map(|_| bytes),
                None => Ok(bytes),
            }
        };
        let read_err = async {
            let mut bytes = Vec::new();
            match &err {
                Some(err) => err.read_to_end(&mut bytes).await.map(|_| bytes),
                None => Ok(bytes),
            }
        };
        let (stdout, stderr) = both(read_out, read_err).await;
        let (stdout, stderr) = (stdout?, stderr?);
        let status = self.wait().await?;
        Ok(Output { status, stdout, stderr })
    }

    /// Notes the end.
    fn ended(&mut self, status: ExitStatus) -> ExitStatus {
        self.state = State::Ended(status);
        status
    }

    /// Whether its end is told by a descriptor of its own.
    #[cfg(test)]
    pub(super) fn has_pidfd(&self) -> bool {
        matches!(&self.state, State::Running(running) if running.has_pidfd())
    }
}

/// Waits for two futures at the same time: a process that fills one pipe may write to the other first.
async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut of_a, mut of_b) = (None, None);
    poll_fn(|cx| {
        if of_a.is_none()
            && let Poll::Ready(output) = a.as_mut().poll(cx)
        {
            of_a = Some(output);
        }
        if of_b.is_none()
            && let Poll::Ready(output) = b.as_mut().poll(cx)
        {
            of_b = Some(output);
        }
        match (of_a.take(), of_b.take()) {
            (Some(of_a), Some(of_b)) => Poll::Ready((of_a, of_b)),
            (a, b) => {
                (of_a, of_b) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

impl Drop for Child {
    fn drop(&mut self) {
        // What is left in place is not looked at again.
        let state = std::mem::replace(&mut self.state, State::Ended(ExitStatus::default()));
        let State::Running(mut running) = state else { return };
        if self.kill_on_drop {
            // What can't be killed has ended, or is another user's and runs on.
            let _ = running.start_kill();
        }
        orphan::adopt(*running);
    }
}
