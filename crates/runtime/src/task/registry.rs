//! Every task that has ever been pending and is not finished: what shutdown must find. But for user-level threads,
//! which their workers know.
//!
//! Sharded by the thread that registers, so that the lock is almost never contended; a task that finishes in its first
//! run is never here. Keys are `1 + (slot * SHARDS + shard)`.
//!
//! A waker is never woken or dropped under a lock: either may run user code, because the last reference to a task runs
//! its destructors. It is cloned under one: the wakers here are those of our own tasks, whose clone is one addition.

use std::cell::Cell;
use std::task::Waker;

use crossbeam_utils::CachePadded;

use crate::primitives::{Ordering, StaticUsize};
use crate::stress::Mutex;

const SHARDS: usize = 8;

/// Entries whose memory a shard keeps when it is empty.
const KEPT: usize = 4096;

#[derive(Debug)]
enum Entry {
    Task(Waker),
    /// The waker was taken by `wake_all`; the body has not left yet.
    Taken,
    /// Free; the next free slot of the shard.
    Free(Option<u32>),
}

#[derive(Debug, Default)]
struct Shard {
    entries: Vec<Entry>,
    free: Option<u32>,
    live: usize,
}

/// The set of pending tasks.
#[derive(Debug)]
pub(crate) struct Registry {
    shards: [CachePadded<Mutex<Shard>>; SHARDS],
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| CachePadded::new(Mutex::new(Shard::default()))),
        }
    }

    /// Enters a task; the key is never zero.
    pub(crate) fn insert(&self, waker: Waker) -> u32 {
        let shard = home_shard();
        let mut guard = self.shards[shard].lock().unwrap();
        let inner = &mut *guard;
        let slot = if let Some(slot) = inner.free {
            let Entry::Free(next) = inner.entries[slot as usize] else {
                unreachable!("the free list holds free slots")
            };
            inner.free = next;
            inner.entries[slot as usize] = Entry::Task(waker);
            slot
        } else {
            let slot = u32::try_from(inner.entries.len()).expect("fewer than 2^29 pending tasks a shard");
            inner.entries.push(Entry::Task(waker));
            slot
        };
        inner.live += 1;
        let key = slot as usize * SHARDS + shard + 1;
        u32::try_from(key).expect("fewer than 2^29 pending tasks a shard")
    }

    /// The body of the task behind `key` is being dropped.
    pub(crate) fn remove(&self, key: u32) {
        let (shard, slot) = split(key);
        let mut guard = self.shards[shard].lock().unwrap();
        let inner = &mut *guard;
        let old = std::mem::replace(&mut inner.entries[slot as usize], Entry::Free(inner.free));
        inner.free = Some(slot);
        inner.live -= 1;
        // All of them are free then. No key is out but those of who aborts too late.
        let is_left = inner.live == 0 && inner.entries.capacity() > KEPT;
        let memory = is_left.then(|| std::mem::take(inner));
        drop(guard);
        drop((old, memory));
    }

    /// The waker of the task behind `key`, if it is still there. Keys are reused: a stale one may give another task's
    /// waker, whose only effect is a spurious poll.
    pub(crate) fn waker(&self, key: u32) -> Option<Waker> {
        let (shard, slot) = split(key);
        // Cloning one of our own wakers runs no user code: one atomic addition.
        match self.shards[shard].lock().unwrap().entries.get(slot as usize) {
            Some(Entry::Task(waker)) => Some(waker.clone()),
            _ => None,
        }
    }

    /// Wakes every task, once; each must then be run or dropped. True if there is any task left, woken before or now.
    pub(crate) fn wake_all(&self) -> bool {
        let mut left = false;
        for shard in &self.shards {
            let mut wakers = Vec::new();
            {
                let mut guard = shard.lock().unwrap();
                left |= guard.live > 0;
                for entry in &mut guard.entries {
                    if let Entry::Task(_) = entry
                        && let Entry::Task(waker) = std::mem::replace(entry, Entry::Taken)
                    {
                        wakers.push(waker);
                    }
                }
            }
            wakers.into_iter().for_each(Waker::wake);
        }
        left
    }

    /// Number of tasks that have been pending and are not finished. Exact only while nothing runs.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap().live).sum()
    }
}

fn split(key: u32) -> (usize, u32) {
    let index = key as usize - 1;
    (index % SHARDS, u32::try_from(index / SHARDS).expect("half of a u32"))
}

/// The shard of the calling thread: threads take turns when they first ask.
fn home_shard() -> usize {
    thread_local! {
        static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    static NEXT: StaticUsize = StaticUsize::new(0);
    SHARD.with(|shard| {
        if shard.get() == usize::MAX {
            // Ordering: Relaxed; any distribution will do.
            shard.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        shard.get()
    })
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;

    #[test]
    fn keys_are_reused_and_counted() {
        let registry = Registry::new();
        let a = registry.insert(Waker::noop().clone());
        let b = registry.insert(Waker::noop().clone());
        assert_ne!(a, b);
        assert_eq!(registry.len(), 2);
        registry.remove(a);
        assert!(registry.waker(a).is_none());
        assert_eq!(registry.insert(Waker::noop().clone()), a);
        assert!(registry.wake_all());
        assert!(registry.waker(b).is_none(), "taken");
        registry.remove(a);
        registry.remove(b);
        assert!(!registry.wake_all());
        assert_eq!(registry.len(), 0);
    }

    #[test]
    fn memory_of_many_is_given_back() {
        let registry = Registry::new();
        let mut keys: Vec<u32> = (0..3 * KEPT).map(|_| registry.insert(Waker::noop().clone())).collect();
        let capacity = || {
            registry
                .shards
                .iter()
                .map(|shard| shard.lock().unwrap().entries.capacity())
                .sum::<usize>()
        };
        let last = keys.pop().unwrap();
        keys.iter().for_each(|key| registry.remove(*key));
        assert!(capacity() >= 3 * KEPT && registry.waker(last).is_some());
        registry.remove(last);
        assert_eq!((capacity(), registry.len()), (0, 0));
        assert!(registry.waker(last).is_none(), "who aborts it now comes too late");
        assert!(keys.contains(&registry.insert(Waker::noop().clone())));
    }
}
