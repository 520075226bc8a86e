//! What the threads of a pool agree on, under its lock.

use std::collections::{HashMap, VecDeque};
use std::thread::{self, JoinHandle};

use super::job::{Job, Place, Queued};
use super::watch::Post;

/// What the lock protects.
#[derive(Default)]
pub(super) struct State {
    /// Jobs that have not begun: those beyond the bound, newest first, then the others, oldest first.
    pub(super) queue: VecDeque<Queued>,
    /// Jobs that were ever queued.
    pub(super) jobs: u64,
    /// Those beyond the bound that have not ended, begun or not.
    pub(super) beyond: usize,
    /// Threads that were started and have not left: those whose last hook has not returned are among them.
    pub(super) threads: usize,
    /// Threads asleep to whom nothing was promised.
    pub(super) idle: usize,
    /// Wake-ups promised to threads asleep and not yet taken.
    pub(super) permits: usize,
    /// Threads that were started and have not begun yet.
    pub(super) starting: usize,
    /// Those in the start hook that is their first.
    pub(super) hooking: usize,
    /// Who of those asleep watches.
    pub(super) post: Post,
    /// Set once, by `shutdown`.
    pub(super) stopping: bool,
    /// Number of the next thread.
    pub(super) next: u64,
    /// Threads that have not left, by number.
    pub(super) handles: HashMap<u64, JoinHandle<()>>,
    /// The thread that left last; who leaves next joins it, so that no more than one is left to be joined.
    pub(super) last_left: Option<JoinHandle<()>>,
}

impl State {
    /// Queues a job.
    pub(super) fn push(&mut self, queued: Queued) {
        match queued.place {
            Place::Bounded => self.queue.push_back(queued),
            Place::Beyond => {
                self.beyond += 1;
                self.queue.push_front(queued);
            }
        }
        self.jobs += 1;
    }

    /// Takes back what was queued last, in the same section, in such a place.
    pub(super) fn unpush(&mut self, place: Place) -> Job {
        self.jobs -= 1;
        let queued = match place {
            Place::Bounded => self.queue.pop_back(),
            Place::Beyond => {
                self.beyond -= 1;
                self.queue.pop_front()
            }
        };
        queued.expect("the job was queued in this critical section").job
    }

    /// A sleeper will look at the queue.
    pub(super) fn promise(&mut self) {
        self.idle -= 1;
        self.permits += 1;
    }

    /// Threads that will look at the queue, and call others if that has more than one job.
    pub(super) fn on_their_way(&self) -> usize {
        self.permits + self.starting
    }

    /// Is this one of the pool's threads?
    pub(super) fn is_own(&self, id: thread::ThreadId) -> bool {
        self.handles.values().any(|handle| handle.thread().id() == id)
    }
}

/// Who is to be told of a promise once the lock is free.
#[derive(Default)]
#[must_use]
pub(super) struct Calls {
    pub(super) watcher: bool,
    pub(super) sleepers: usize,
}
