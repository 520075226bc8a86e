//! What was left when a runtime was stopped with a limit.

use std::fmt;

use crate::thread::ThreadInfo;

/// What had not ended when [`Runtime::shutdown_timeout`](crate::Runtime::shutdown_timeout) returned.
///
/// Nothing of it is interrupted: it ends when it ends, or with the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stragglers {
    /// Workers that have not left: each is in the middle of a task or thread that has not given way, or in a destructor
    /// of one, or in what [`Builder::on_thread_stop`](crate::Builder::on_thread_stop) asks for; and one more, who stays
    /// as long as others have user-level threads to unwind.
    pub workers: usize,
    /// Threads of the blocking pool that run something: a job, or what
    /// [`Builder::on_thread_stop`](crate::Builder::on_thread_stop) asks for.
    pub blocking_threads: usize,
    /// User-level threads that have not been unwound, by name. Empty if no worker is left.
    pub threads: Vec<ThreadInfo>,
}

impl Stragglers {
    /// Whether all has ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.workers == 0 && self.blocking_threads == 0
    }
}

impl fmt::Display for Stragglers {
    /// One line, then a table of the threads if there are any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} workers, {} blocking threads, {} user-level threads",
            self.workers,
            self.blocking_threads,
            self.threads.len()
        )?;
        if !self.threads.is_empty() {
            write!(f, "\n{}", ThreadInfo::HEADER)?;
        }
        self.threads.iter().try_for_each(|thread| write!(f, "\n{thread}"))
    }
}
