//! The start barrier of threads: each reports ready and parks, and who opens it unparks all.
//!
//! Nothing but the runtime's own park and unpark, which each of them has.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::adapters::blocking::{ThreadRuntime, all_made};
use crate::outcome::Stop;

/// What a thread waits at.
#[derive(Debug)]
pub struct Gate<R: ThreadRuntime>(Arc<Shared<R>>);

/// What opens the gate; it belongs to the thread that made it.
#[derive(Debug)]
pub struct Opener<R: ThreadRuntime>(Arc<Shared<R>>);

#[derive(Debug)]
struct Shared<R: ThreadRuntime> {
    /// Threads that have not reported.
    missing: AtomicUsize,
    is_open: AtomicBool,
    opener: R::Thread,
}

/// Makes a closed gate for `threads` threads, opened by the calling thread.
#[must_use]
pub fn gate<R: ThreadRuntime>(threads: usize) -> (Opener<R>, Gate<R>) {
    let shared = Arc::new(Shared {
        missing: AtomicUsize::new(threads),
        is_open: AtomicBool::new(false),
        opener: R::current(),
    });
    (Opener(Arc::clone(&shared)), Gate(shared))
}

impl<R: ThreadRuntime> Clone for Gate<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: ThreadRuntime> Gate<R> {
    /// Reports ready and waits until the gate opens.
    pub fn pass(self) {
        // Ordering: Release; pairs with the Acquire in `all_ready`: what the threads did before they were ready is
        // over.
        if self.0.missing.fetch_sub(1, Ordering::Release) == 1 {
            R::unpark(&self.0.opener);
        }
        // Ordering: Acquire; pairs with the Release in `open`.
        while !self.0.is_open.load(Ordering::Acquire) {
            R::park();
        }
    }
}

impl<R: ThreadRuntime> Opener<R> {
    /// Waits until every thread has reported, of those that were made for this gate. Their handles.
    ///
    /// # Errors
    /// [`Stop::Failed`] if one could not be made.
    pub fn all_ready<J>(&self, made: Vec<io::Result<J>>) -> Result<Vec<J>, Stop> {
        let joins = all_made(made)?;
        self.wait();
        Ok(joins)
    }

    /// Waits until every thread has reported.
    pub(super) fn wait(&self) {
        // Ordering: Acquire; pairs with the Release in `pass`.
        while self.0.missing.load(Ordering::Acquire) != 0 {
            R::park();
        }
    }

    /// Lets everybody go: `threads` are those that wait.
    pub fn open<'a, T: Send + 'static>(self, threads: impl IntoIterator<Item = &'a R::Join<T>>)
    where
        R::Join<T>: 'a,
    {
        self.open_each(threads.into_iter().map(R::thread));
    }

    /// The same, for threads whose handles are of several types.
    pub(super) fn open_each<'a>(self, threads: impl IntoIterator<Item = &'a R::Thread>) {
        // Ordering: Release; pairs with the Acquire in `pass`: what was done before counts as done for the threads.
        self.0.is_open.store(true, Ordering::Release);
        threads.into_iter().for_each(R::unpark);
    }
}
