//! The messages that are kept, each in a slot with a share for every receiver that has yet to take it.
//!
//! A slot has a lock of its own, for one step. Only who sends puts messages in, one at a time: the lock of the
//! channel's end sees to that, which is taken before that of a slot, never after it.
//!
//! A slot's position says whose message it has. Who finds another one there than he takes next, or no share of it, has
//! nothing to take, and learns at the end why: nothing was sent yet, the message was lost, or all [have
//! moved](Slots::move_to).

use crate::primitives::{AtomicU64, Ordering};
use crate::sync::lock::Lock;
use crate::sync::shares::Shares;

/// No message has that position: with one a nanosecond, not for 584 years.
const NOWHERE: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Slots<T> {
    /// A power of two, so that the low bits of a position find its slot.
    slots: Box<[Slot<T>]>,
}

#[derive(Debug)]
struct Slot<T> {
    /// Of the message that is or was here; [`NOWHERE`] before the first. Changed under the lock.
    position: AtomicU64,
    /// A share for each receiver that has yet to take the message.
    shares: Lock<Option<Shares<T>>>,
}

impl<T> Slot<T> {
    fn empty() -> Self {
        Self {
            position: AtomicU64::new(NOWHERE),
            shares: Lock::new(None),
        }
    }

    /// Whether the message at `position` is or was here; outside of the lock, whether it seems so.
    #[inline]
    fn is_of(&self, position: u64) -> bool {
        // Ordering: Relaxed; under the lock it is as it was left, and who is told `false` otherwise asks at the end.
        self.position.load(Ordering::Relaxed) == position
    }

    /// Reaches what is left of the message at `position`, if that is here.
    #[inline]
    fn with<R>(&self, position: u64, section: impl FnOnce(&mut Option<Shares<T>>) -> Option<R>) -> Option<R> {
        self.shares
            .with(|shares| if self.is_of(position) { section(shares) } else { None })
    }
}

impl<T> Slots<T> {
    /// So many: a power of two.
    pub(super) fn new(len: usize) -> Self {
        debug_assert!(len.is_power_of_two());
        Self {
            slots: (0..len).map(|_| Slot::empty()).collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The slot of the message at `position`, whether it is there or not.
    #[inline]
    fn slot(&self, position: u64) -> &Slot<T> {
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are asked for")]
        let index = position as usize & (self.slots.len() - 1);
        &self.slots[index]
    }

    /// One receiver's share of the message at `position`, if it is there.
    #[inline]
    pub(super) fn take(&self, position: u64) -> Option<Shares<T>> {
        let slot = self.slot(position);
        if !slot.is_of(position) {
            return None;
        }
        slot.with(position, |shares| {
            let one = shares.as_mut()?.split();
            one.or_else(|| shares.take())
        })
    }

    /// Whether somebody has yet to take the message at `position`.
    pub(super) fn is_wanted(&self, position: u64) -> bool {
        self.slot(position)
            .with(position, |shares| shares.as_ref().map(drop))
            .is_some()
    }

    /// Takes out all that is left of the message at `position`.
    pub(super) fn remove(&self, position: u64) -> Option<Shares<T>> {
        self.slot(position).with(position, Option::take)
    }

    /// Puts in the message at `position`, a share for each who is to take it. What is left of the message that was
    /// there comes out; if that must not be, `message` comes back.
    ///
    /// Called by one at a time, once for each position.
    #[inline]
    pub(super) fn put(
        &self,
        position: u64,
        message: Shares<T>,
        replaces: bool,
    ) -> Result<Option<Shares<T>>, Shares<T>> {
        let slot = self.slot(position);
        slot.shares.with(|shares| {
            if shares.is_some() && !replaces {
                return Err(message);
            }
            // Ordering: Relaxed, as in `is_of`.
            slot.position.store(position, Ordering::Relaxed);
            Ok(shares.replace(message))
        })
    }

    /// Puts all messages into others, of which there are more and which are empty; none is left here, nor ever put here
    /// again.
    ///
    /// Called by one at a time, as `put`.
    pub(super) fn move_to(&self, others: &Self) {
        for slot in &self.slots {
            if let Some(message) = slot.shares.with(Option::take) {
                // Ordering: Relaxed; whoever calls `put` calls this, one at a time.
                let position = slot.position.load(Ordering::Relaxed);
                let put = others.put(position, message, false);
                debug_assert!(matches!(put, Ok(None)), "a place for each");
            }
        }
    }
}
