//! A worker's deque: its own end and the thieves' end.
//!
//! First in, first out: a ready task waits for those before it, not for those after it. The newest-first shortcut is the
//! slot, which is capped.

use crossbeam_deque::{Steal, Stealer as Inner, Worker};

use crate::task::Runnable;
use crate::task::runnable::Word;

/// The owner's end.
#[derive(Debug)]
pub(crate) struct Local(Worker<Word>);

impl Local {
    pub(crate) fn new() -> Self {
        Self(Worker::new_fifo())
    }

    /// Pushes at the back. crossbeam publishes it with Release (W1 a).
    #[inline]
    pub(crate) fn push(&self, runnable: Runnable) {
        self.0.push(Word::new(runnable));
    }

    /// Takes from the front.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Runnable> {
        self.0.pop().map(Word::into_runnable)
    }

    /// Number of tasks in it.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The thieves' end.
    pub(crate) fn stealer(&self) -> Stealer {
        Stealer(self.0.stealer())
    }

    pub(super) fn inner(&self) -> &Worker<Word> {
        &self.0
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        while let Some(runnable) = self.pop() {
            drop(runnable);
        }
    }
}

/// The thieves' end.
#[derive(Clone, Debug)]
pub(crate) struct Stealer(Inner<Word>);

impl Stealer {
    /// Moves up to half of the victim's tasks, at most `limit`, to `thief` and takes one of them.
    pub(crate) fn steal(&self, thief: &Local, limit: usize) -> Option<Runnable> {
        loop {
            match self.0.steal_batch_with_limit_and_pop(&thief.0, limit) {
                Steal::Success(word) => return Some(word.into_runnable()),
                Steal::Empty => return None,
                Steal::Retry => crate::primitives::spin_hint(),
            }
        }
    }

    /// Whether the deque looks empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of tasks in the deque, roughly.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
