//! The sentinel: the one of the idle workers that looks after the others (O).

use super::Sleepers;
use crate::lines;
use crate::primitives::{Ordering, fence};
use crate::sched::idle::Seat;

impl Sleepers {
    /// Whether some parked worker is the sentinel.
    #[inline]
    pub(crate) fn has_sentinel(&self) -> bool {
        lines::touch(&self.sentinel);
        // Ordering: Relaxed; a stale answer delays, at most until the next task boundary (W5).
        self.sentinel.load(Ordering::Relaxed) != 0
    }

    /// Whether the calling worker, which is awake and searches no more, leaves the idle ones without a sentinel.
    pub(crate) fn is_unwatched(&self) -> bool {
        // Ordering: SeqCst; (O) our bit is gone before we look for a sentinel, against a sentinel that has resigned
        // before it looks for us in `resign_if_all_idle`. And our duty is resigned, and one searcher less, before we
        // look at the queues in `name_successor`, against push before the look at both in `keep_watch`.
        fence(Ordering::SeqCst);
        !self.has_sentinel()
    }

    /// For a claimer that has posted its token: whether it may have hidden somebody for a moment who has gone to sleep
    /// meanwhile beside no sentinel (K, O), so that it has to look after him.
    pub(crate) fn may_have_hidden_one(&self) -> bool {
        self.searching.len() > 1 && self.is_unwatched() && self.idle.caches.any()
    }

    /// The sentinel's seat, to be claimed last.
    pub(crate) fn sentinel_seat(&self) -> Option<Seat> {
        lines::touch(&self.sentinel);
        // Ordering: Relaxed; a preference.
        let sentinel = self.sentinel.load(Ordering::Relaxed);
        (sentinel != 0).then(|| self.seats[sentinel as usize - 1])
    }

    /// Becomes sentinel if there is none. True if the worker is it.
    pub(crate) fn take_duty(&self, worker: usize) -> bool {
        let me = u32::try_from(worker).expect("workers fit u16") + 1;
        // Ordering: SeqCst; (O) one sentinel.
        match self
            .sentinel
            .compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst)
        {
            Ok(_) => true,
            Err(current) => current == me,
        }
    }

    /// The worker has promised to look about now, and does: as sentinel, if there is no other. True if it is it.
    pub(crate) fn keep_promise(&self, worker: usize) -> bool {
        self.alarms.clear(worker);
        // Ordering: SeqCst; (O) the promise is taken back before another sentinel is found, against one who was claimed
        // and fences before he relies on it: if he comes first, that sentinel, should it resign, sees in its second
        // look that his bit is gone.
        fence(Ordering::SeqCst);
        self.take_duty(worker)
    }

    /// Stops being sentinel if no worker is awake, and no shard without a holder. False if one is, or was when we
    /// looked again.
    pub(crate) fn resign_if_all_idle(&self, worker: usize) -> bool {
        if (self.idle.caches.total() as usize) < self.words.len() || self.reactor.any_unpolled() {
            return false;
        }
        self.resign(worker);
        // Ordering: SeqCst; (O) no sentinel before the second look: whoever is claimed after it finds none, and wakes
        // one when it has work to spare.
        fence(Ordering::SeqCst);
        self.all_bits_set() || !self.take_duty(worker)
    }

    /// Whether every worker's idle bit is set. A worker that finds its bit gone may go to work before its claimer has
    /// lowered the count, so the count is no answer for the second look.
    fn all_bits_set(&self) -> bool {
        let mut groups = self.group_lens.iter().enumerate();
        groups.all(|(group, len)| self.idle.members(group).count_ones() == *len)
    }

    /// Stops being sentinel, if the worker is it.
    pub(crate) fn resign(&self, worker: usize) {
        let me = u32::try_from(worker).expect("workers fit u16") + 1;
        // Ordering: Relaxed; only its worker stores or removes this value.
        if self.sentinel.load(Ordering::Relaxed) == me {
            // Ordering: SeqCst; (O) as in `take_duty`.
            self.sentinel.store(0, Ordering::SeqCst);
        }
    }
}
