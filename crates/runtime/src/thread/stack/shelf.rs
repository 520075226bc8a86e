//! The idle stacks of a class in one LLC, and how many of them are promised to nobody.
//!
//! Plain data: the pool holds it under a lock and tells it the time.
//!
//! **Hot and cold.** A stack that comes back is *hot*: it keeps every page that it touched, because the next thread
//! will touch most of them again. Hot ones go out newest first. A *cold* one has no pages: it is new, or lay idle for
//! long.
//!
//! **Age.** A period lasts at least a second. What was hot during all of it and was not taken, the oldest so many, is
//! *stale*: a burst is over. Stale stacks lose their pages, at most a batch at a time, and become cold. So do those
//! beyond a maximum, as soon as a worker has nothing better to do: not before, or who ends many threads would pay for
//! it, and who starts as many again once more.

use std::collections::VecDeque;

use super::class::StackBounds;

/// At most so many stacks a class and an LLC stay hot while there is nothing to do: 64 MiB of stacks that touched a
/// page each. What exceeds this by a batch, the oldest, loses its pages as soon as a worker is out of work.
pub(super) const HOT_MAX: usize = if cfg!(test) { 1024 } else { 16_384 };

/// Stacks that lose their pages at a time, at most.
pub(super) const BATCH: usize = 256;

/// They have at most so many bytes in all, unless that is less than one stack: each may have touched all of its own.
const BATCH_BYTES: usize = 64 * 1024 * 1024;

/// The shortest period, ns.
const PERIOD_NS: u64 = 1_000_000_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    /// Newest last.
    hot: VecDeque<StackBounds>,
    cold: Vec<StackBounds>,
    /// Stacks, here or elsewhere, that this LLC may promise.
    credit: usize,
    /// The oldest so many hot ones have not been used since the period began.
    quiet: usize,
    /// The oldest so many hot ones are to lose their pages; at most `quiet`.
    stale: usize,
    period_start_ns: u64,
    /// Bytes of stacks that came back since one was looked at.
    unseen: usize,
}

impl Shelf {
    /// Promises a stack, if any is left to promise.
    #[inline]
    pub(super) fn promise(&mut self) -> bool {
        let any = self.credit > 0;
        self.credit -= usize::from(any);
        any
    }

    /// Takes about half of what may be promised, at most `max`.
    pub(super) fn share_credit(&mut self, max: usize) -> usize {
        let share = self.credit.div_ceil(2).min(max);
        self.credit -= share;
        share
    }

    /// Takes all that may be promised.
    pub(super) fn take_credit(&mut self) -> usize {
        std::mem::take(&mut self.credit)
    }

    /// `count` more stacks may be promised.
    #[inline]
    pub(super) fn add_credit(&mut self, count: usize) {
        self.credit += count;
    }

    /// A stack for a thread: the one that came back last, or a cold one.
    #[inline]
    pub(super) fn take(&mut self) -> Option<StackBounds> {
        let Some(stack) = self.hot.pop_back() else {
            return self.cold.pop();
        };
        self.quiet = self.quiet.min(self.hot.len());
        self.stale = self.stale.min(self.hot.len());
        Some(stack)
    }

    /// Whether it is time to look at `stack`, which has come back, and for what is stale: after `look_bytes` of stacks.
    #[inline]
    pub(super) fn is_due(&mut self, stack: &StackBounds, look_bytes: usize) -> bool {
        self.unseen += stack.base() - stack.limit();
        let is_due = self.unseen >= look_bytes;
        if is_due {
            self.unseen = 0;
        }
        is_due
    }

    /// Whether there are more hot ones than are to stay so while there is nothing to do.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.hot.len() >= HOT_MAX + BATCH
    }

    /// A stack has come back, and may be promised again.
    #[inline]
    pub(super) fn put(&mut self, stack: StackBounds) {
        self.hot.push_back(stack);
        self.credit += 1;
    }

    /// Stacks without pages, old or new.
    pub(super) fn put_cold(&mut self, stacks: &[StackBounds]) {
        self.cold.extend_from_slice(stacks);
    }

    /// Takes out what has been idle for a period and is to lose its pages, oldest first, with as much credit: promised
    /// stacks stay.
    pub(super) fn take_stale(&mut self, now_ns: u64) -> Vec<StackBounds> {
        if now_ns.saturating_sub(self.period_start_ns) >= PERIOD_NS {
            self.period_start_ns = now_ns;
            self.stale = self.quiet;
            self.quiet = self.hot.len();
        }
        self.take_oldest(self.stale)
    }

    /// The same for what is too much, however young.
    pub(super) fn take_surplus(&mut self) -> Vec<StackBounds> {
        self.take_oldest(self.hot.len().saturating_sub(HOT_MAX))
    }

    /// The same for all that is hot.
    pub(super) fn take_hot(&mut self) -> Vec<StackBounds> {
        self.take_oldest(self.hot.len())
    }

    /// At most a batch.
    fn take_oldest(&mut self, count: usize) -> Vec<StackBounds> {
        let size = self.hot.front().map_or(1, StackBounds::size);
        let most = BATCH.min((BATCH_BYTES / size).max(1));
        let count = count.min(most).min(self.credit);
        self.credit -= count;
        self.quiet = self.quiet.saturating_sub(count);
        self.stale = self.stale.saturating_sub(count);
        self.hot.drain(..count).collect()
    }

    /// What is hot has been idle for a period.
    #[cfg(all(test, quadrille_loom))]
    pub(super) fn make_stale(&mut self) {
        self.quiet = self.hot.len();
        self.stale = self.quiet;
    }

    /// Number of stacks here: with and without pages.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.hot.len(), self.cold.len())
    }

    /// How many may be promised.
    #[cfg(test)]
    pub(super) fn credit(&self) -> usize {
        self.credit
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::super::class::Class;
    use super::*;

    fn stack(number: usize) -> StackBounds {
        let class = Class::of(0).unwrap();
        class.bounds((1 << 40) + number * class.stride(), number)
    }

    /// `hot` stacks that have come back, the last one last, each of which may be promised.
    fn shelf(hot: usize) -> Shelf {
        let mut shelf = Shelf::default();
        for number in 0..hot {
            shelf.put(stack(number));
        }
        shelf
    }

    /// `count` stacks go to threads.
    fn take_all_of(shelf: &mut Shelf, count: usize) -> Vec<StackBounds> {
        (0..count)
            .map(|_| {
                assert!(shelf.promise());
                shelf.take().unwrap()
            })
            .collect()
    }

    /// Every hot stack goes to a thread.
    fn take_all(shelf: &mut Shelf) -> Vec<StackBounds> {
        take_all_of(shelf, shelf.counts().0)
    }

    /// Takes out what `take` takes until there is none; answers how many there were.
    fn settle_by(shelf: &mut Shelf, take: impl Fn(&mut Shelf) -> Vec<StackBounds>) -> usize {
        let mut released = 0;
        loop {
            let taken = take(shelf);
            if taken.is_empty() {
                return released;
            }
            assert!(taken.len() <= BATCH);
            released += taken.len();
            shelf.put_cold(&taken);
            shelf.add_credit(taken.len());
        }
    }

    /// What is stale.
    fn settle(shelf: &mut Shelf, now_ns: u64) -> usize {
        settle_by(shelf, |shelf| shelf.take_stale(now_ns))
    }

    #[test]
    fn the_last_to_come_back_goes_out_first_and_cold_ones_last() {
        let mut shelf = shelf(3);
        shelf.put_cold(&[stack(10), stack(11)]);
        let order: Vec<_> = std::iter::from_fn(|| shelf.take()).collect();
        assert_eq!(order, [2, 1, 0, 11, 10].map(stack));
    }

    #[test]
    fn as_many_are_promised_as_there_is_credit() {
        let mut shelf = shelf(2);
        assert!(shelf.promise() && shelf.promise());
        assert!(!shelf.promise());
        shelf.add_credit(5);
        assert_eq!((shelf.share_credit(9), shelf.credit()), (3, 2));
        assert_eq!(
            (shelf.share_credit(9), shelf.share_credit(9), shelf.share_credit(9)),
            (1, 1, 0)
        );
    }

    #[test]
    fn what_lies_idle_for_a_period_loses_its_pages() {
        let mut shelf = shelf(1000);
        // The first period begins with the first look.
        assert_eq!(settle(&mut shelf, PERIOD_NS), 0);
        assert_eq!(settle(&mut shelf, 2 * PERIOD_NS - 1), 0);
        // In it the newest 100 were in use.
        let used = take_all_of(&mut shelf, 100);
        used.into_iter().for_each(|stack| shelf.put(stack));
        assert_eq!(settle(&mut shelf, 2 * PERIOD_NS), 900);
        assert_eq!(shelf.counts(), (100, 900));
        assert_eq!(settle(&mut shelf, 3 * PERIOD_NS), 100);
        assert_eq!(shelf.counts(), (0, 1000));
        assert_eq!(shelf.credit(), 1000);
    }

    #[test]
    fn what_is_used_in_every_period_keeps_its_pages() {
        let mut shelf = shelf(500);
        for period in 1..10 {
            let used = take_all(&mut shelf);
            used.into_iter().for_each(|stack| shelf.put(stack));
            assert_eq!(settle(&mut shelf, period * PERIOD_NS), 0);
        }
        assert_eq!(shelf.counts(), (500, 0));
    }

    #[test]
    fn a_stale_stack_that_is_taken_is_spared() {
        let mut shelf = shelf(600);
        settle(&mut shelf, PERIOD_NS);
        assert_eq!(shelf.take_stale(2 * PERIOD_NS).len(), BATCH);
        let used = take_all(&mut shelf);
        assert_eq!(used.len(), 600 - BATCH);
        used.into_iter().for_each(|stack| shelf.put(stack));
        assert_eq!(shelf.take_stale(2 * PERIOD_NS).len(), 0);
    }

    #[test]
    fn promised_stacks_are_no_surplus() {
        let mut shelf = shelf(10);
        (0..7).for_each(|_| assert!(shelf.promise()));
        shelf.take_stale(PERIOD_NS);
        let surplus = shelf.take_stale(2 * PERIOD_NS);
        assert_eq!(surplus, [0, 1, 2].map(stack));
        assert_eq!((shelf.counts(), shelf.credit()), ((7, 0), 0));
    }

    #[test]
    fn what_is_too_much_loses_its_pages_however_young() {
        let mut shelf = shelf(HOT_MAX + BATCH - 1);
        assert!(!shelf.is_crowded());
        shelf.put(stack(HOT_MAX + BATCH));
        assert!(shelf.is_crowded());
        assert_eq!(settle(&mut shelf, 0), 0);
        assert_eq!(settle_by(&mut shelf, Shelf::take_surplus), BATCH);
        assert_eq!(shelf.counts(), (HOT_MAX, BATCH));
        assert!(!shelf.is_crowded());
        // The oldest.
        assert_eq!(shelf.cold, (0..BATCH).map(stack).collect::<Vec<_>>());
    }

    #[test]
    fn one_is_looked_at_after_so_many_bytes() {
        let mut shelf = Shelf::default();
        let bytes = stack(0).base() - stack(0).limit();
        let looks = (0..9).filter(|_| shelf.is_due(&stack(0), 3 * bytes)).count();
        assert_eq!(looks, 3);
    }
}
