//! How many workers are idle behind each last-level cache, and which caches have any.
//!
//! One count for all would be written twice by every sleep, from everywhere. A cache's count is written by its own
//! workers and by who claims them; the word that all read changes only when a cache gets its first idle worker or loses
//! its last.
//!
//! The protocol, K in `sched/README.md`:
//!
//! - **(a)** Entering: raise the count. Who found it zero sets the cache's bit.
//! - **(b)** Leaving: lower the count. Who brought it to zero clears the bit and looks at the count; if that is not
//!   zero, sets the bit again and looks once more.

use crossbeam_utils::CachePadded;

use crate::lines;
use crate::primitives::{AtomicU32, AtomicU64, Ordering};
use crate::stress;

/// Idle workers by cache.
#[derive(Debug)]
pub(crate) struct Caches {
    /// At least the number of idle bits of the cache's groups: raised before one is set, lowered after it is cleared.
    /// The first is at hand, because with one cache every wake-up reads it.
    first: CachePadded<AtomicU32>,
    others: Box<[CachePadded<AtomicU32>]>,
    /// A bit a cache whose count is not zero, 64 a word. None where there is one cache: its count says it.
    bits: Box<[CachePadded<AtomicU64>]>,
}

impl Caches {
    pub(super) fn new(caches: usize) -> Self {
        let words = if caches > 1 { caches.div_ceil(64) } else { 0 };
        Self {
            first: CachePadded::new(AtomicU32::new(0)),
            others: (1..caches).map(|_| CachePadded::new(AtomicU32::new(0))).collect(),
            bits: (0..words).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
        }
    }

    /// A worker behind `llc` is about to set its idle bit.
    pub(super) fn enter(&self, llc: usize) {
        // Ordering: SeqCst; before the bit, so that a pusher that reads zero after its fence (W1 A) comes before
        // (W1 b).
        let first = self.count(llc).fetch_add(1, Ordering::SeqCst) == 0;
        if let Some((word, bit)) = self.bit(llc).filter(|_| first) {
            stress::delay();
            // Ordering: SeqCst; as the count, for who reads the bits instead; and (K a) publishes it to `leave`.
            word.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// The idle bit of a worker behind `llc` has been cleared by the caller.
    pub(super) fn leave(&self, llc: usize) {
        lines::touch(self.count(llc));
        // Ordering: SeqCst; as in `enter`.
        let last = self.count(llc).fetch_sub(1, Ordering::SeqCst) == 1;
        let Some((word, bit)) = self.bit(llc).filter(|_| last) else {
            return;
        };
        lines::touch(word);
        loop {
            stress::delay();
            // Ordering: SeqCst; (K b) before the second look. If (K a) came first, its release and this acquire show us
            // the count; if it comes later, it undoes what we do here.
            word.fetch_and(!bit, Ordering::SeqCst);
            stress::delay();
            // Ordering: Relaxed; after (K b).
            if self.count(llc).load(Ordering::Relaxed) == 0 {
                return;
            }
            // Ordering: SeqCst; as (K a); and its acquire shows us the count of who cleared the bit before us.
            word.fetch_or(bit, Ordering::SeqCst);
            stress::delay();
            // Ordering: Relaxed; after the bit.
            if self.count(llc).load(Ordering::Relaxed) != 0 {
                return;
            }
        }
    }

    #[inline]
    fn count(&self, llc: usize) -> &AtomicU32 {
        if llc == 0 { &self.first } else { &self.others[llc - 1] }
    }

    fn bit(&self, llc: usize) -> Option<(&AtomicU64, u64)> {
        let word = self.bits.get(llc / 64)?;
        Some((&**word, 1 << (llc % 64)))
    }

    /// Whether any worker is idle.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        if self.bits.is_empty() {
            lines::touch(&self.first);
            // Ordering: Relaxed; as in `of`.
            return self.first.load(Ordering::Relaxed) != 0;
        }
        self.bits.iter().any(|word| {
            lines::touch(word);
            // Ordering: Relaxed; a hint, or after the fence (W1 A).
            word.load(Ordering::Relaxed) != 0
        })
    }

    /// Whether a worker behind `llc` is idle.
    #[inline]
    pub(crate) fn any_behind(&self, llc: usize) -> bool {
        let Some((word, bit)) = self.bit(llc) else {
            return self.of(llc) != 0;
        };
        lines::touch(word);
        // Ordering: Relaxed; a hint.
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// Number of idle workers behind `llc`.
    #[inline]
    pub(crate) fn of(&self, llc: usize) -> u32 {
        lines::touch(self.count(llc));
        // Ordering: Relaxed; a hint, or after the fence (W1 A).
        self.count(llc).load(Ordering::Relaxed)
    }

    /// Number of idle workers.
    pub(crate) fn total(&self) -> u32 {
        (0..=self.others.len()).map(|llc| self.of(llc)).sum()
    }
}
