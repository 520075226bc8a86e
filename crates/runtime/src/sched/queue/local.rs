//! A worker's deque: its own end and the thieves' end.
//!
//! First in, first out: a ready task waits for those before it, not for those after it. There are two shortcuts, and
//! both are capped: the slot, and the back while a task waits for another (W5).

use crossbeam_deque::{Steal, Worker};

use super::deque::{self, Deque};
use crate::task::Runnable;
use crate::task::runnable::Word;

/// The thieves' end.
pub(crate) type Stealer = deque::Stealer<Runnable>;

/// The owner's end.
#[derive(Debug)]
pub(crate) struct Local {
    deque: Deque<Runnable>,
    /// What an injector's batch comes in; empty before and after.
    batch: Worker<Word>,
}

impl Local {
    pub(crate) fn new() -> Self {
        Self {
            deque: Deque::new(),
            batch: Worker::new_fifo(),
        }
    }

    /// Pushes at the back (W1 a).
    #[inline]
    pub(crate) fn push(&self, runnable: Runnable) {
        self.deque.push(runnable);
    }

    /// Takes from the front.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Runnable> {
        self.deque.pop()
    }

    /// Takes from the back what was pushed since it ended at `from`, and is `wanted`.
    #[inline]
    pub(crate) fn pop_newest(&self, from: u64, wanted: impl FnOnce(&Runnable) -> bool) -> Option<Runnable> {
        self.deque.pop_newest(from, wanted)
    }

    /// Where it ends; see [`Deque::end`].
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.deque.end()
    }

    /// Where it begins; see [`Deque::front`].
    #[inline]
    pub(crate) fn front(&self) -> u64 {
        self.deque.front()
    }

    /// Number of tasks in it.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.deque.len()
    }

    /// The thieves' end.
    pub(crate) fn stealer(&self) -> Stealer {
        self.deque.stealer()
    }

    /// Moves up to half of a victim's tasks, at most `limit`, here, and takes one of them.
    pub(crate) fn steal(&self, victim: &Stealer, limit: usize) -> Option<Runnable> {
        victim.steal(&self.deque, limit)
    }

    /// Moves here what `take` puts into a batch, and returns what it returns.
    pub(super) fn receive(&self, take: impl FnOnce(&Worker<Word>) -> Steal<Word>) -> Steal<Word> {
        let first = take(&self.batch);
        while let Some(word) = self.batch.pop() {
            self.deque.push(word.into_runnable());
        }
        first
    }
}
