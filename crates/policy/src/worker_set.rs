//! Workers and groups, and masks of them.

/// A worker: one OS thread that runs tasks. Dense from zero, in topological order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u16);

/// A group: the workers (at most 4 by default, at most 64) that share a wake queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u16);

/// Members of a group, at most: masks are one word.
pub const GROUP_LEN_MAX: u16 = 64;

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

    /// The set of `member` alone.
    #[inline]
    #[must_use]
    pub const fn only(member: u8) -> Self {
        Self(1 << (member & 63))
    }

    /// The lowest member in it.
    #[inline]
    #[must_use]
    pub const fn first(self) -> Option<u8> {
        match self.0 {
            0 => None,
            bits => Some((bits.trailing_zeros() & 63) as u8),
        }
    }

    /// Whether all of `other` is in it.
    #[inline]
    #[must_use]
    pub const fn has_all(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether member `member` is in it.
    #[inline]
    #[must_use]
    pub const fn has(self, member: u8) -> bool {
        self.0 & (1 << (member & 63)) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_hold_sixty_four_members() {
        for member in 0..64 {
            let only = GroupMask::only(member);
            assert!(only.has(member) && !only.is_empty());
            assert_eq!(only.first(), Some(member));
            assert!(!only.has((member + 1) % 64));
            assert!(GroupMask(u64::MAX).has_all(only) && !only.has_all(GroupMask(u64::MAX)));
        }
        assert!(GroupMask(0).is_empty());
        assert_eq!(GroupMask(0).first(), None);
        assert_eq!(GroupMask(0b1100).first(), Some(2));
    }
}
