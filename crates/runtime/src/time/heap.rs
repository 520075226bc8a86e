//! Timers by deadline: a 4-ary heap of times over a slab of what is to be handed out. Pure: time is an argument.
//!
//! # What is where
//!
//! A *slot* of the slab holds a timer that is set: its deadline and its value. A *node* of the heap says "look at that
//! slot at this time". The nodes are small and say nothing that the slot does not, so whatever ends or moves a timer
//! leaves its node:
//!
//! - *cancelled*: the slot is free, or another's, or its timer was moved to an earlier time ([`Timers::reset`]), and
//!   has another node. The node is dropped when it comes to an end of the heap, or with all others of its kind once
//!   they are the larger part.
//! - *postponed*: the slot has a later deadline. The node is put back when its time comes.
//!
//! So to set a timer that is later than most costs a comparison, to cancel or to postpone one a write; only what comes
//! to its time, or is set before many others, is sifted. Deadlines are exact: there is no tick to round them to.
//!
//! # Invariants
//!
//! 1. A slot that is set has exactly one node, whose time is not later than its deadline.
//! 2. The first node is of a slot that is set. So while nothing is set the heap is empty.
//! 3. Timers of equal deadlines come in the order in which they were set, if none of them was postponed.
//!
//! Rejected: a hierarchical wheel, whose lists need links in each slot and whose ticks are either coarse or many; and a
//! heap with the position of its node in each slot, which every step of every sift would have to write.

/// Names a timer that was set. Never used twice by one [`Timers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    slot: u32,
    id: u64,
}

impl Key {
    /// Where it is, as long as it is set.
    pub(super) fn slot(self) -> u32 {
        self.slot
    }
}

/// "Look at `slot` at `at`."
#[derive(Clone, Copy, Debug)]
struct Node {
    at: u64,
    /// The lower half of the timer's id: the node is cancelled if the slot has another one. Two ids 2^32 apart in one
    /// slot make a cancelled node pass for the other's: an earlier look, or a later one that finds nothing. Decides
    /// among equal times.
    seq: u32,
    slot: u32,
}

impl Node {
    /// What nodes are ordered by.
    fn key(self) -> u128 {
        u128::from(self.at) << 32 | u128::from(self.seq)
    }
}

#[derive(Debug)]
struct Slot<T> {
    /// Of the timer that is set here; zero: the slot is free.
    id: u64,
    /// Its deadline. Of a free slot: the next free one.
    at: u64,
    value: Option<T>,
}

/// No slot.
const NONE: u32 = u32::MAX;

/// Children of a node.
const ARITY: usize = 4;

/// Cancelled nodes that are worth keeping at any time.
const SPARE: usize = 64;

/// Nodes whose memory is kept when nothing is set, and slots of words.
const KEPT: usize = 1024;

/// Nodes that [`Timers::end_of_batch`] looks at, at most.
const LOOKS: usize = 32;

/// Timers with values. Deadlines and times are in ns.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    heap: Vec<Node>,
    slots: Vec<Slot<T>>,
    free: u32,
    len: usize,
    last_id: u64,
    /// Slots that were freed since memory was last given back.
    freed: usize,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self {
            heap: Vec::new(),
            slots: Vec::new(),
            free: NONE,
            len: 0,
            last_id: 0,
            freed: 0,
        }
    }
}

impl<T> Timers<T> {
    /// How many are set.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// No timer expires before that; `u64::MAX` if none is set.
    #[inline]
    pub(crate) fn first(&self) -> u64 {
        self.heap.first().map_or(u64::MAX, |node| node.at)
    }

    /// Sets a timer.
    pub(crate) fn insert(&mut self, deadline: u64, value: T) -> Key {
        self.last_id += 1;
        let id = self.last_id;
        let filled = Slot {
            id,
            at: deadline,
            value: Some(value),
        };
        let slot = self.free;
        let slot = if let Some(free) = self.slots.get_mut(slot as usize) {
            // A slot's number: it was one when the slot was freed.
            self.free = u32::try_from(free.at).unwrap_or(NONE);
            *free = filled;
            slot
        } else {
            self.slots.push(filled);
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 timers are set")
        };
        self.len += 1;
        self.push(Node {
            at: deadline,
            seq: low_half(id),
            slot,
        });
        Key { slot, id }
    }

    /// Unsets a timer. `None` if it has expired, or was unset.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        self.slot(key)?;
        let value = self.vacate(key.slot);
        self.tidy();
        value
    }

    /// The value of a timer that is set.
    pub(crate) fn value(&mut self, key: Key) -> Option<&mut T> {
        self.slot(key)?.value.as_mut()
    }

    /// Moves the deadline of a timer, if it is set and `deadline` is not before what it was. False if not.
    pub(crate) fn postpone(&mut self, key: Key, deadline: u64) -> bool {
        let Some(slot) = self.slot(key) else { return false };
        if deadline < slot.at {
            return false;
        }
        slot.at = deadline;
        true
    }

    /// Moves a timer, if it is set, to any deadline. Its key from now on.
    pub(super) fn reset(&mut self, key: Key, deadline: u64) -> Option<Key> {
        if self.postpone(key, deadline) {
            return Some(key);
        }
        let id = self.last_id + 1;
        let slot = self.slot(key)?;
        (slot.id, slot.at) = (id, deadline);
        self.last_id = id;
        // What it had before is cancelled.
        self.push(Node {
            at: deadline,
            seq: low_half(id),
            slot: key.slot,
        });
        self.tidy();
        Some(Key { slot: key.slot, id })
    }

    /// The timer that is set in a slot.
    pub(super) fn at(&self, slot: u32) -> Option<(Key, &T)> {
        let set = self.slots.get(slot as usize)?;
        let value = set.value.as_ref()?;
        Some((Key { slot, id: set.id }, value))
    }

    /// Makes [`first`](Self::first) and [`peek`](Self::peek) exact, until a timer is postponed, unset, or expires.
    pub(super) fn settle(&mut self) {
        while let Some(first) = self.heap.first_mut()
            && let at = self.slots[first.slot as usize].at
            && at > first.at
        {
            first.at = at;
            self.sift_down(0);
            self.drop_cancelled_first();
        }
    }

    /// The first to expire, once they are [settled](Self::settle).
    pub(super) fn peek(&self) -> Option<&T> {
        let node = self.heap.first()?;
        self.at(node.slot).map(|(_, value)| value)
    }

    /// Unsets the first timer whose deadline is not after `now`. Its value.
    pub(crate) fn expire(&mut self, now: u64) -> Option<T> {
        loop {
            let node = *self.heap.first()?;
            if node.at > now {
                return None;
            }
            let at = self.slots[node.slot as usize].at;
            if at > now {
                // It was postponed.
                self.heap[0].at = at;
                self.sift_down(0);
                self.drop_cancelled_first();
                continue;
            }
            let value = self.vacate(node.slot);
            self.tidy();
            return value;
        }
    }

    /// Unsets all timers.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        self.heap = Vec::new();
        self.free = NONE;
        self.freed = 0;
        self.len = 0;
        let slots = std::mem::take(&mut self.slots);
        slots.into_iter().filter_map(|slot| slot.value).collect()
    }

    /// Until when to wait so that all which expire within `slack` of the first do so at once: the last of their times,
    /// as far as a few looks tell. `u64::MAX` if none is set.
    pub(crate) fn end_of_batch(&self, slack: u64) -> u64 {
        let first = self.first();
        let limit = first.saturating_add(slack);
        if slack == 0 || first == u64::MAX {
            return first;
        }
        let mut end = first;
        // Nodes whose children are yet to be looked at.
        let mut parents = [0_usize; LOOKS];
        let (mut next, mut found) = (0, 1);
        while next < found {
            let children = parents[next] * ARITY + 1;
            next += 1;
            for child in children..(children + ARITY).min(self.heap.len()) {
                let at = self.heap[child].at;
                if at <= limit && found < LOOKS {
                    end = end.max(at);
                    parents[found] = child;
                    found += 1;
                }
            }
        }
        end
    }

    /// The slot of a timer that is set.
    #[inline]
    fn slot(&mut self, key: Key) -> Option<&mut Slot<T>> {
        self.slots.get_mut(key.slot as usize).filter(|slot| slot.id == key.id)
    }

    /// Frees a slot. Its value.
    #[inline]
    fn vacate(&mut self, index: u32) -> Option<T> {
        let slot = &mut self.slots[index as usize];
        slot.id = 0;
        slot.at = u64::from(self.free);
        self.free = index;
        self.len -= 1;
        self.freed += 1;
        slot.value.take()
    }

    #[inline]
    fn is_cancelled(&self, node: Node) -> bool {
        let slot = self.slots.get(node.slot as usize);
        slot.is_none_or(|slot| slot.id == 0 || low_half(slot.id) != node.seq)
    }

    /// After a slot was freed: restores the second invariant, and drops cancelled nodes where that is cheap.
    fn tidy(&mut self) {
        if self.len == 0 {
            return self.clear();
        }
        while let Some(last) = self.heap.last()
            && self.is_cancelled(*last)
        {
            self.heap.pop();
        }
        self.drop_cancelled_first();
        if self.heap.len() > 2 * self.len + SPARE {
            self.rebuild();
        }
        if self.slots.len() / 4 > self.len + KEPT && self.freed > self.slots.len() / 4 {
            self.give_back();
        }
    }

    /// Few of very many are set: forgets the free slots behind the last that is, orders the others, so that the first
    /// are taken first, and gives back memory. So seldom that a timer that ends pays for four slots.
    #[cold]
    fn give_back(&mut self) {
        self.freed = 0;
        let used = self.slots.iter().rposition(|slot| slot.id != 0);
        self.slots.truncate(used.map_or(0, |last| last + 1));
        self.free = NONE;
        for (index, slot) in self.slots.iter_mut().enumerate().rev() {
            if slot.id == 0 {
                slot.at = u64::from(self.free);
                self.free = u32::try_from(index).expect("fewer than 2^32 slots");
            }
        }
        self.slots.shrink_to(2 * self.slots.len());
        self.rebuild();
    }

    /// Nothing is set: forgets slots and nodes.
    fn clear(&mut self) {
        self.free = NONE;
        self.freed = 0;
        self.heap.clear();
        self.slots.clear();
        // Larger ones in proportion.
        if self.slots.capacity() * size_of::<Slot<T>>() > KEPT * size_of::<Slot<[usize; 2]>>() {
            self.slots = Vec::new();
        }
        if self.heap.capacity() > KEPT {
            self.heap = Vec::new();
        }
    }

    fn drop_cancelled_first(&mut self) {
        while let Some(first) = self.heap.first()
            && self.is_cancelled(*first)
        {
            self.heap.swap_remove(0);
            self.sift_down(0);
        }
    }

    /// Drops all cancelled nodes, and gives the others the times of their slots.
    #[cold]
    fn rebuild(&mut self) {
        let mut heap = std::mem::take(&mut self.heap);
        heap.retain(|node| !self.is_cancelled(*node));
        for node in &mut heap {
            node.at = self.slots[node.slot as usize].at;
        }
        if heap.capacity() > KEPT.max(4 * heap.len()) {
            heap.shrink_to(2 * heap.len());
        }
        self.heap = heap;
        for index in (0..self.heap.len().div_ceil(ARITY)).rev() {
            self.sift_down(index);
        }
    }

    #[inline]
    fn push(&mut self, node: Node) {
        let mut index = self.heap.len();
        self.heap.push(node);
        while index > 0 {
            let parent = (index - 1) / ARITY;
            if self.heap[parent].key() <= node.key() {
                break;
            }
            self.heap[index] = self.heap[parent];
            index = parent;
        }
        self.heap[index] = node;
    }

    /// Moves the node at `index` behind those below it that are earlier.
    fn sift_down(&mut self, mut index: usize) {
        let Some(&node) = self.heap.get(index) else { return };
        loop {
            let children = index * ARITY + 1;
            let end = (children + ARITY).min(self.heap.len());
            let Some(below) = self.heap.get(children..end) else {
                break;
            };
            let Some((offset, &least)) = below.iter().enumerate().min_by_key(|(_, child)| child.key()) else {
                break;
            };
            if node.key() <= least.key() {
                break;
            }
            self.heap[index] = least;
            index = children + offset;
        }
        self.heap[index] = node;
    }
}

/// The lower 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is asked for")]
fn low_half(id: u64) -> u32 {
    id as u32
}

#[cfg(test)]
mod tests;
