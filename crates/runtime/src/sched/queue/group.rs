//! A group's wake queue: a locked FIFO for members, a mailbox for everybody else.
//!
//! Members push directly while the lock is free; when it is taken, because another member is at it or was preempted
//! there, they use the mailbox. Nobody ever waits for the lock on the wake path.
//!
//! For reproducing the kernel's figures there is the other way, [`OnContention::Spin`]: members, and whoever drains,
//! wait for the lock as processors do for a run queue's.

use std::collections::VecDeque;

use crossbeam_utils::CachePadded;
use quadrille_policy::{Nanos, OnContention};

use super::Linked;
use super::mailbox::Mailbox;
use crate::lines;
use crate::primitives::{AtomicU64, AtomicUsize, MutexGuard, Ordering, relax};
use crate::stress::{self, Mutex};

#[derive(Debug)]
pub(crate) struct GroupQueue<T: Linked> {
    fifo: CachePadded<Mutex<VecDeque<T>>>,
    /// Length of the FIFO, written under its lock.
    len: CachePadded<AtomicUsize>,
    /// When the queue became non-empty or was last drained, ns; a hint for the age of what is in it.
    since: AtomicU64,
    mailbox: CachePadded<Mailbox<T>>,
    on_contention: OnContention,
}

/// How a task entered the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Directly, under the lock, which was free.
    Direct,
    /// Directly, after a wait for the lock.
    Waited,
    /// Through the mailbox, because the lock was taken.
    Contended,
    /// Through the mailbox, by no member.
    Mailbox,
}

impl<T: Linked> GroupQueue<T> {
    pub(crate) fn new(on_contention: OnContention) -> Self {
        Self {
            fifo: CachePadded::new(Mutex::new(VecDeque::new())),
            len: CachePadded::new(AtomicUsize::new(0)),
            since: AtomicU64::new(0),
            mailbox: CachePadded::new(Mailbox::new()),
            on_contention,
        }
    }

    /// Queues a task: directly if `member` and the lock is free, else through the mailbox. The clock is read if the
    /// queue was empty: by the time that a waker remembers from the beginning of a long task its push would be overdue
    /// at once.
    pub(crate) fn push(&self, item: T, member: bool, now_ns: impl FnOnce() -> u64) -> Entry {
        if self.is_empty() {
            lines::touch(&self.since);
            // Ordering: Relaxed; a hint.
            self.since.store(now_ns(), Ordering::Relaxed);
        }
        if !member {
            self.mailbox.push(item);
            return Entry::Mailbox;
        }
        lines::touch(&self.fifo);
        let (fifo, entry) = match self.fifo.try_lock() {
            Ok(fifo) => (Some(fifo), Entry::Direct),
            Err(_) => (self.wait(), Entry::Waited),
        };
        if let Some(mut fifo) = fifo {
            fifo.push_back(item);
            self.publish_len(&fifo);
            return entry;
        }
        self.mailbox.push(item);
        Entry::Contended
    }

    /// Waits for the lock, if that is what is done.
    #[cold]
    fn wait(&self) -> Option<MutexGuard<'_, VecDeque<T>>> {
        if self.on_contention != OnContention::Spin {
            return None;
        }
        let mut step = 0;
        loop {
            if let Ok(fifo) = self.fifo.try_lock() {
                return Some(fifo);
            }
            // Short pauses at first; a holder that was preempted gets the processor in the end.
            relax(step);
            step += 1;
        }
    }

    /// Takes the oldest task and hands up to `max` further ones to `sink`; the mailbox is emptied into the FIFO first.
    /// `None` if there is nothing, or if somebody else is at it. The clock is read if something stays, whose age begins
    /// anew.
    pub(crate) fn pop(&self, max: usize, now_ns: impl FnOnce() -> u64, mut sink: impl FnMut(T)) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let mut fifo = match self.fifo.try_lock() {
            Ok(fifo) => fifo,
            Err(_) => self.wait()?,
        };
        // W2: the mailbox is emptied under the FIFO's lock, so batches keep their order.
        fifo.extend(self.mailbox.drain());
        stress::delay();
        let first = fifo.pop_front();
        for _ in 0..max.min(fifo.len() / 2) {
            fifo.pop_front().into_iter().for_each(&mut sink);
        }
        self.publish_len(&fifo);
        if !fifo.is_empty() {
            // Ordering: Relaxed; a hint.
            self.since.store(now_ns(), Ordering::Relaxed);
        }
        first
    }

    /// Takes everything, and waits for whoever is at it: a caller that must not leave anything can't give way to one
    /// that has looked already.
    pub(crate) fn take_all(&self) -> VecDeque<T> {
        let mut fifo = self.fifo.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        fifo.extend(self.mailbox.drain());
        let all = std::mem::take(&mut *fifo);
        self.publish_len(&fifo);
        all
    }

    fn publish_len(&self, fifo: &VecDeque<T>) {
        lines::touch(&self.len);
        // Ordering: Release; (W1 a) a final look that reads this length after its fence finds the tasks under the lock.
        self.len.store(fifo.len(), Ordering::Release);
    }

    /// Whether the queue looks empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        lines::touch(&self.len);
        // Ordering: Relaxed; a hint between tasks; in a final look the fence (W1 B) has come before.
        self.len.load(Ordering::Relaxed) == 0 && self.mailbox.is_empty()
    }

    /// How long something has been waiting here without a drain; zero if the queue looks empty.
    pub(crate) fn age(&self, now: Nanos) -> Nanos {
        if self.is_empty() {
            return Nanos(0);
        }
        lines::touch(&self.since);
        // Ordering: Relaxed; a hint.
        now.since(Nanos(self.since.load(Ordering::Relaxed)))
    }

    /// Number of tasks in FIFO and mailbox, roughly.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // Ordering: Relaxed; a hint.
        self.len.load(Ordering::Relaxed) + self.mailbox.len()
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::sched::queue::item::Item;

    /// Pushes item 1 as a member while the lock is held, and item 2 after that; how they entered, and in what order
    /// they leave.
    fn contended(on_contention: OnContention) -> (Entry, Vec<u32>) {
        let queue = GroupQueue::new(on_contention);
        let held = queue.fifo.lock().unwrap();
        let (pushing, begun) = channel();
        let entry = std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                pushing.send(()).unwrap();
                queue.push(Item::new(1), true, || 0)
            });
            begun.recv().unwrap();
            if on_contention == OnContention::Spin {
                // It can't be done before the lock is free.
                assert!(queue.is_empty());
                drop(held);
                first.join().unwrap()
            } else {
                // It is done though the lock is held.
                let entry = first.join().unwrap();
                assert_eq!(queue.len(), 1, "the mailbox counts");
                drop(held);
                entry
            }
        });
        assert_eq!(queue.push(Item::new(2), true, || 0), Entry::Direct);
        assert_eq!(queue.len(), 2);
        let left = std::iter::from_fn(|| queue.pop(0, || 0, drop)).map(|item| *item.value());
        (entry, left.collect())
    }

    #[test]
    fn a_taken_lock_is_gone_round_by_the_mailbox() {
        // What went round comes after what the FIFO held when it was next drained.
        assert_eq!(contended(OnContention::Mailbox), (Entry::Contended, vec![2, 1]));
    }

    #[test]
    fn a_taken_lock_is_waited_for_if_asked() {
        // The lock may be free again before the other thread has come to it.
        for _ in 0..1000 {
            let (entry, left) = contended(OnContention::Spin);
            assert_eq!(left, [1, 2]);
            if entry == Entry::Waited {
                return;
            }
            assert_eq!(entry, Entry::Direct);
        }
        panic!("1000 times the lock was free when the other thread came");
    }

    #[test]
    fn no_member_takes_the_lock() {
        for on_contention in [OnContention::Mailbox, OnContention::Spin] {
            let queue = GroupQueue::new(on_contention);
            let held = queue.fifo.lock().unwrap();
            assert_eq!(queue.push(Item::new(1), false, || 7), Entry::Mailbox);
            drop(held);
            assert_eq!(queue.age(Nanos(9)), Nanos(2));
            assert!(queue.pop(0, || 0, drop).is_some());
            assert_eq!(queue.len(), 0);
        }
    }
}
