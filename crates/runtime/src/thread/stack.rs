//! The memory that user-level threads run on: kept for reuse, hottest first.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use corosensei::stack::{DefaultStack, Stack as _, StackPointer};

use crate::stress::Mutex;

/// Size of a stack of which nobody said anything, bytes.
pub(crate) const DEFAULT_SIZE: usize = 256 * 1024;

/// Free stacks that are kept.
const FREE_MAX: usize = 4096;

/// The stacks of a runtime.
#[derive(Debug)]
pub(crate) struct Stacks(Arc<Pool>);

#[derive(Debug, Default)]
struct Pool {
    free: Mutex<Vec<Memory>>,
}

/// A stack and its usable size.
struct Memory {
    stack: DefaultStack,
    size: usize,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Stacks {
    /// No stacks yet, for a machine with so many last-level caches.
    pub(crate) fn new(_llcs: usize) -> Self {
        Self(Arc::default())
    }

    /// Makes sure that there will be a stack of at least `size` bytes.
    pub(crate) fn reserve(&self, _llc: usize, size: usize) -> io::Result<Reservation> {
        let size = size.max(corosensei::stack::MIN_STACK_SIZE);
        let kept = {
            let mut free = self.0.free.lock().unwrap();
            let fits = free.iter().rposition(|memory| memory.size >= size);
            fits.map(|index| free.swap_remove(index))
        };
        let memory = match kept {
            Some(memory) => memory,
            None => Memory {
                stack: DefaultStack::new(size)?,
                size,
            },
        };
        Ok(Reservation(Some(Stack {
            memory,
            pool: self.0.clone(),
        })))
    }
}

/// A stack that will be there.
#[derive(Debug)]
pub(crate) struct Reservation(Option<Stack>);

impl Reservation {
    /// The stack, for a thread that begins behind `llc`.
    pub(crate) fn take(mut self, _llc: usize) -> Stack {
        self.0.take().expect("taken once")
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(stack) = self.0.take() {
            stack.give_back(0);
        }
    }
}

/// A stack that one thread runs on.
#[derive(Debug)]
pub(crate) struct Stack {
    memory: Memory,
    pool: Arc<Pool>,
}

impl Stack {
    /// Where it is, for the report of an overflow.
    pub(crate) fn bounds(&self) -> StackBounds {
        StackBounds {
            _base: self.memory.stack.base(),
            _limit: self.memory.stack.limit(),
        }
    }

    /// Gives it back from a worker behind `llc`.
    pub(crate) fn give_back(self, _llc: usize) {
        let mut free = self.pool.free.lock().unwrap();
        if free.len() < FREE_MAX {
            free.push(self.memory);
            return;
        }
        drop(free);
        // Unmapped outside of the lock.
        drop(self.memory);
    }
}

// SAFETY: all is passed on to the stack inside, which promises it.
unsafe impl corosensei::stack::Stack for Stack {
    fn base(&self) -> StackPointer {
        self.memory.stack.base()
    }

    fn limit(&self) -> StackPointer {
        self.memory.stack.limit()
    }
}

/// Where a stack is.
#[derive(Debug)]
pub(crate) struct StackBounds {
    _base: StackPointer,
    _limit: StackPointer,
}

/// Says that the thread called `name` runs on `stack` from now on, until what is returned is dropped.
#[inline]
pub(crate) fn enter(_stack: &StackBounds, _name: Option<&str>) -> Entered {
    Entered(PhantomData)
}

/// While it lives, its stack is the one that an overflow is reported for.
#[derive(Debug)]
pub(crate) struct Entered(PhantomData<*const ()>);
