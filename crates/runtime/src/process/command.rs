//! What is started, and how.

use std::ffi::OsStr;
use std::fmt;
use std::future::Future;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, ExitStatus, Output, Stdio};

use super::child::Child;
use super::orphan;
use crate::coop;
use crate::io::hide_error_if_doomed;
use crate::runtime::Handle;
use crate::sys::thread::TimerSlack;
use crate::unpinned::Unpinned;

/// A process to be started, as `std::process::Command`; it can be started any number of times.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::process::Command;
///
/// let status = Command::new("sh").args(["-c", "exit $CODE"]).env("CODE", "3").status().await?;
/// assert_eq!(status.code(), Some(3));
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
#[must_use = "a command does nothing until it is started"]
pub struct Command {
    std: process::Command,
    is_set: StreamsSet,
    kill_on_drop: bool,
}

/// Which of its standard streams the user has set. Of a command of std's nobody can tell, so all may be.
#[derive(Clone, Copy, Debug)]
struct StreamsSet {
    stdin: bool,
    stdout: bool,
    stderr: bool,
}

impl StreamsSet {
    const NONE: Self = StreamsSet {
        stdin: false,
        stdout: false,
        stderr: false,
    };
    const PERHAPS_ALL: Self = StreamsSet {
        stdin: true,
        stdout: true,
        stderr: true,
    };
}

impl Command {
    /// A command for the program at a path, or by that name in `PATH`; without arguments, in the environment and the
    /// directory of this process. Its standard input, output and error are those of this process, unless it is started
    /// by [`output`](Self::output).
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Command {
            is_set: StreamsSet::NONE,
            ..process::Command::new(program).into()
        }
    }

    /// Adds an argument.
    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.std.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(&mut self, args: impl IntoIterator<Item = A>) -> &mut Self {
        self.std.args(args);
        self
    }

    /// Sets a variable of the environment.
    pub fn env(&mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.std.env(key, value);
        self
    }

    /// Sets variables of the environment.
    pub fn envs<K: AsRef<OsStr>, V: AsRef<OsStr>>(&mut self, vars: impl IntoIterator<Item = (K, V)>) -> &mut Self {
        self.std.envs(vars);
        self
    }

    /// Removes a variable of the environment.
    pub fn env_remove(&mut self, key: impl AsRef<OsStr>) -> &mut Self {
        self.std.env_remove(key);
        self
    }

    /// Removes all variables of the environment.
    pub fn env_clear(&mut self) -> &mut Self {
        self.std.env_clear();
        self
    }

    /// Sets the directory in which it starts.
    pub fn current_dir(&mut self, dir: impl AsRef<Path>) -> &mut Self {
        self.std.current_dir(dir);
        self
    }

    /// Sets its standard input. Default: that of this process, and none for [`output`](Self::output).
    pub fn stdin(&mut self, stdin: impl Into<Stdio>) -> &mut Self {
        self.std.stdin(stdin);
        self.is_set.stdin = true;
        self
    }

    /// Sets its standard output. Default: that of this process.
    pub fn stdout(&mut self, stdout: impl Into<Stdio>) -> &mut Self {
        self.std.stdout(stdout);
        self.is_set.stdout = true;
        self
    }

    /// Sets its standard error. Default: that of this process.
    pub fn stderr(&mut self, stderr: impl Into<Stdio>) -> &mut Self {
        self.std.stderr(stderr);
        self.is_set.stderr = true;
        self
    }

    /// Whether it is killed when its [`Child`] is dropped before it has ended. Default: false, it runs on.
    pub fn kill_on_drop(&mut self, kill_on_drop: bool) -> &mut Self {
        self.kill_on_drop = kill_on_drop;
        self
    }

    /// What [`kill_on_drop`](Self::kill_on_drop) has said.
    ///
    /// ```
    /// let mut command = quadrille::process::Command::new("true");
    /// assert!(!command.get_kill_on_drop());
    /// assert!(command.kill_on_drop(true).get_kill_on_drop());
    /// ```
    #[must_use]
    pub fn get_kill_on_drop(&self) -> bool {
        self.kill_on_drop
    }

    /// Sets its user by `setuid(2)`; its supplementary groups are given up if this process is the superuser's.
    ///
    /// Like [`gid`](Self::gid) and [`pre_exec`](Self::pre_exec) this has std fork, and until it is another program the
    /// child runs on the stack of the caller: on a user-level thread 256 KiB by default. What std does there needs
    /// little of it. But for a script without `#!` the C library copies the list of arguments to that stack, 8 bytes
    /// for each: with tens of thousands the child overflows it and ends by `SIGABRT`. Start such a one in a task or in
    /// `spawn_blocking`.
    pub fn uid(&mut self, id: u32) -> &mut Self {
        self.std.uid(id);
        self
    }

    /// Sets its group by `setgid(2)`.
    pub fn gid(&mut self, id: u32) -> &mut Self {
        self.std.gid(id);
        self
    }

    /// Sets its argument 0, which else is the program.
    pub fn arg0(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.std.arg0(arg);
        self
    }

    /// Sets its process group by `setpgid(2)`; 0 makes one of its own. A terminal's Ctrl-C then doesn't reach it.
    pub fn process_group(&mut self, group: i32) -> &mut Self {
        self.std.process_group(group);
        self
    }

    /// Has `f` called in the child, between `fork` and `exec`, after all other settings. What it can't do is an error
    /// of starting.
    ///
    /// # Safety
    ///
    /// As `std::os::unix::process::CommandExt::pre_exec`: the child is a copy of one thread of a process of many, so
    /// `f` must do nothing but what is async-signal-safe. Above all it must not allocate, take a lock, or use this
    /// runtime. It runs on the stack of the caller, as [`uid`](Self::uid) says: on a user-level thread there is no room
    /// for large arrays.
    pub unsafe fn pre_exec<F>(&mut self, f: F) -> &mut Self
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static,
    {
        // SAFETY: the caller's promise is std's, passed on.
        unsafe { self.std.pre_exec(f) };
        self
    }

    /// Starts it. Blocks the worker while the system makes the process, typically for less than a millisecond.
    ///
    /// # Errors
    ///
    /// Those of std: the program isn't there, or can't be executed, or a setting fails. The process has no descriptors
    /// left, or the runtime shuts down; a child that was started by then is killed.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.start(&Handle::current())
    }

    /// Starts it in `runtime`, which is the current one.
    fn start(&mut self, runtime: &Handle) -> io::Result<Child> {
        orphan::reap();
        let child = {
            let (_unpinned, _slack) = (Unpinned::new(), TimerSlack::lend());
            self.std.spawn()?
        };
        Child::new(child, runtime, self.kill_on_drop)
    }

    /// Starts it at once, and waits for its end. Pipes that were asked for are closed.
    ///
    /// # Errors
    ///
    /// Those of [`spawn`](Self::spawn) and [`Child::wait`].
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    ///
    /// # Cancel safety
    ///
    /// Not safe: the child is dropped, and another call starts another. Keep the [`Child`] of [`spawn`](Self::spawn) in
    /// place of this.
    #[track_caller]
    pub fn status(&mut self) -> impl Future<Output = io::Result<ExitStatus>> + Send + Sync + use<> {
        let child = self.spawn();
        async move {
            // Paid for whatever comes: who never has to wait gives way all the same.
            coop::consume_budget().await;
            let mut child = hide_error_if_doomed(child).await?;
            drop((child.stdin.take(), child.stdout.take(), child.stderr.take()));
            child.wait().await
        }
    }

    /// Starts it at once with standard output and error piped, whatever they were set to, and waits for its end and for
    /// all that it writes.
    ///
    /// If its standard input was not set, it is `/dev/null`: the child reads from no terminal. When the command is
    /// started again by [`spawn`](Self::spawn), streams that were not set are those of this process, also if it is
    /// started as std's, whose `output` would else have piped them; output and error that were set stay piped. Of a
    /// command of std's, or lent as std's by [`as_std_mut`](Self::as_std_mut), nobody can tell what was set: it counts
    /// as all.
    ///
    /// # Errors
    ///
    /// Those of [`spawn`](Self::spawn) and [`Child::wait_with_output`].
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    ///
    /// # Cancel safety
    ///
    /// Not safe: the child is dropped, and another call starts another. Keep the [`Child`] of [`spawn`](Self::spawn) in
    /// place of this.
    #[track_caller]
    pub fn output(&mut self) -> impl Future<Output = io::Result<Output>> + Send + Sync + use<> {
        // First: it may panic, and the command is left as it is then.
        let runtime = Handle::current();
        let is_set = self.is_set;
        if !is_set.stdin {
            self.std.stdin(Stdio::null());
        }
        self.std.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.start(&runtime);
        if !is_set.stdin {
            self.std.stdin(Stdio::inherit());
        }
        if !is_set.stdout {
            self.std.stdout(Stdio::inherit());
        }
        if !is_set.stderr {
            self.std.stderr(Stdio::inherit());
        }
        async move {
            // Paid for whatever comes: who never has to wait gives way all the same.
            coop::consume_budget().await;
            hide_error_if_doomed(child).await?.wait_with_output().await
        }
    }

    /// The command as std's.
    #[must_use]
    pub fn as_std(&self) -> &process::Command {
        &self.std
    }

    /// The command as std's, for settings that have no method here.
    pub fn as_std_mut(&mut self) -> &mut process::Command {
        self.is_set = StreamsSet::PERHAPS_ALL;
        &mut self.std
    }

    /// The command as std's. [`kill_on_drop`](Self::kill_on_drop) is lost.
    #[must_use]
    pub fn into_std(self) -> process::Command {
        self.std
    }
}

impl From<process::Command> for Command {
    fn from(std: process::Command) -> Self {
        Command {
            std,
            is_set: StreamsSet::PERHAPS_ALL,
            kill_on_drop: false,
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("std", &self.std)
            .field("kill_on_drop", &self.kill_on_drop)
            .finish_non_exhaustive()
    }
}
