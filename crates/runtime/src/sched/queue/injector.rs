//! An LLC's injector: where tasks from outside enter, and where nothing knows of groups.

use crossbeam_deque::{Injector as Inner, Steal};

use super::local::Local;
use crate::lines;
use crate::task::Runnable;
use crate::task::runnable::Word;

#[derive(Debug, Default)]
pub(crate) struct Injector(Inner<Word>);

impl Injector {
    /// Pushes from any thread. The last touch of the task (W3). crossbeam publishes it with Release (W1 a).
    pub(crate) fn push(&self, runnable: Runnable) {
        lines::touch(&self.0);
        self.0.push(Word::new(runnable));
    }

    /// Takes one task and moves up to `limit - 1` further ones to `local`.
    pub(crate) fn pop(&self, local: &Local, limit: usize) -> Option<Runnable> {
        loop {
            match local.receive(|batch| self.0.steal_batch_with_limit_and_pop(batch, limit)) {
                Steal::Success(word) => return Some(word.into_runnable()),
                Steal::Empty => return None,
                Steal::Retry => crate::primitives::spin_hint(),
            }
        }
    }

    /// Takes one task.
    pub(crate) fn pop_one(&self) -> Option<Runnable> {
        loop {
            match self.0.steal() {
                Steal::Success(word) => return Some(word.into_runnable()),
                Steal::Empty => return None,
                Steal::Retry => crate::primitives::spin_hint(),
            }
        }
    }

    /// Whether it looks empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of tasks in it, roughly.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Injector {
    fn drop(&mut self) {
        while let Some(runnable) = self.pop_one() {
            drop(runnable);
        }
    }
}
