//! How tasks came to the worker that runs them: what the counters of moves are told.
//!
//! Nothing is written when a task is taken from the worker's own slot or deque, which is what happens most of the time.
//! What came from elsewhere is noted where it was taken, and asked for only if a task turns out to have been with
//! another worker:
//!
//! - the task that was taken from elsewhere runs next: it is the one whose poll has the number of polls so far;
//! - the rest of a stolen batch lies at the front of a deque that was empty, and a deque gives first what came first:
//!   it is what the next pops of the deque give.
//!
//! What is taken from the back is of a batch only if the batch reaches that far.
//!
//! A thief that takes from the front of this deque meanwhile makes as many later pops count as stolen that are not;
//! only those among them count at all that ran elsewhere before, and the next time the deque is empty all is right
//! again.

use std::cell::Cell;

use quadrille_policy::Cause;

use super::stats::WorkerCounters;

/// What a worker remembers of what it has taken from elsewhere.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// The number of the poll for which `cause` holds.
    poll: Cell<u64>,
    cause: Cell<Cause>,
    /// Up to this number of pops the deque gives what a batch brought.
    pops_end: Cell<u64>,
    batch: Cell<Cause>,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self {
            poll: Cell::new(u64::MAX),
            cause: Cell::new(Cause::Wake),
            pops_end: Cell::new(0),
            batch: Cell::new(Cause::Wake),
        }
    }
}

impl Arrivals {
    /// The task that runs next came from elsewhere.
    pub(super) fn came(&self, counters: &WorkerCounters, cause: Cause) {
        self.poll.set(counters.polls.get());
        self.cause.set(cause);
    }

    /// All `len` tasks in the deque came from elsewhere.
    pub(super) fn batch(&self, counters: &WorkerCounters, len: usize, cause: Cause) {
        self.pops_end.set(counters.local_pops.get() + len as u64);
        self.batch.set(cause);
    }

    /// What a batch had brought is gone.
    pub(super) fn deque_is_empty(&self) {
        self.pops_end.set(0);
    }

    /// A task was taken from the back, and counted; `left` are still there.
    pub(super) fn newest(&self, counters: &WorkerCounters, left: usize) {
        // What was left of a batch before that, at the front.
        let batch = (self.pops_end.get() + 1).saturating_sub(counters.local_pops.get());
        if batch > 0 && batch <= left as u64 {
            self.pops_end.set(self.pops_end.get() + 1);
            self.came(counters, Cause::Wake);
        }
    }

    /// How the task came that is about to be polled, and was taken from the slot or not. Its pop is counted already,
    /// its poll is not.
    pub(super) fn cause(&self, counters: &WorkerCounters, slot: bool) -> Cause {
        if self.poll.get() == counters.polls.get() {
            self.cause.get()
        } else if !slot && counters.local_pops.get() <= self.pops_end.get() {
            self.batch.get()
        } else {
            Cause::Wake
        }
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_next_poll_and_the_batch_behind_it() {
        let (arrivals, counters) = (Arrivals::default(), WorkerCounters::default());
        let next = |slot: bool, pops: u64| {
            counters.local_pops.add(pops);
            let cause = arrivals.cause(&counters, slot);
            counters.polls.add(1);
            cause
        };
        assert_eq!(next(false, 1), Cause::Wake);
        // A batch of three: one runs at once, two are in the deque.
        arrivals.came(&counters, Cause::Steal);
        arrivals.batch(&counters, 2, Cause::Steal);
        assert_eq!(next(false, 0), Cause::Steal);
        assert_eq!(next(true, 0), Cause::Wake);
        assert_eq!(next(false, 1), Cause::Steal);
        // What is in the shared queues is served in between.
        arrivals.came(&counters, Cause::Wake);
        assert_eq!(next(false, 0), Cause::Wake);
        assert_eq!(next(false, 1), Cause::Steal);
        assert_eq!(next(false, 1), Cause::Wake);
    }

    #[test]
    fn the_back_is_of_the_batch_only_if_nothing_is_behind_it() {
        let (arrivals, counters) = (Arrivals::default(), WorkerCounters::default());
        let poll = || {
            let cause = arrivals.cause(&counters, false);
            counters.polls.add(1);
            cause
        };
        let newest = |left| {
            counters.local_pops.add(1);
            arrivals.newest(&counters, left);
            poll()
        };
        assert_eq!(newest(7), Cause::Wake);
        // Three of a batch, and two that came later.
        arrivals.batch(&counters, 3, Cause::Steal);
        assert_eq!(
            [newest(4), newest(3), newest(2)],
            [Cause::Wake, Cause::Wake, Cause::Steal]
        );
        // One more came; then the two from the front.
        assert_eq!(newest(2), Cause::Wake);
        counters.local_pops.add(1);
        assert_eq!(poll(), Cause::Steal);
        counters.local_pops.add(1);
        assert_eq!(poll(), Cause::Steal);
        counters.local_pops.add(1);
        assert_eq!(poll(), Cause::Wake);
    }

    #[test]
    fn an_empty_deque_has_nothing_of_a_batch() {
        let (arrivals, counters) = (Arrivals::default(), WorkerCounters::default());
        arrivals.batch(&counters, 8, Cause::Rescue);
        counters.local_pops.add(1);
        assert_eq!(arrivals.cause(&counters, false), Cause::Rescue);
        arrivals.deque_is_empty();
        assert_eq!(arrivals.cause(&counters, false), Cause::Wake);
    }
}
