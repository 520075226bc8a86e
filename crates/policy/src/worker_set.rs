//! Workers and groups, and masks of them.

/// A worker: one OS thread that runs tasks. Dense from zero, in topological order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u16);

/// A group: the workers (at most 4 by default, at most 64) that share a wake queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u16);

impl WorkerId {
    /// The index as a `usize`.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl GroupId {
    /// The index as a `usize`.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of members of one group: bit `i` is the group's `i`-th member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GroupMask(pub u64);

impl GroupMask {
    /// Whether no member is in it.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether member `member` is in it.
    #[inline]
    #[must_use]
    pub const fn has(self, member: u8) -> bool {
        self.0 & (1 << (member & 63)) != 0
    }
}
