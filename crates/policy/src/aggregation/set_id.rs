//! The name of a coupling set, and what was declared about it.

/// The coupling set of a task: a number, 0 for none, and what its founder has declared.
///
/// | bits | are |
/// |---|---|
/// | 0 to 27 | the number; two sets that share one by chance are taken for one, which is only imprecise |
/// | 28 | declared: made by a handle, not by inheritance from a spawn root |
/// | 29 | packed: one of the few first tasks of a declared set, which stay on one node |
/// | 30 | unfit: its data exceed a cache, so that it prefers none |
/// | 31 | spread: its tasks have data of their own and want a cache each |
///
/// ```
/// use quadrille_policy::SetId;
///
/// let set = SetId::declared(7).spread();
/// assert!(set.is_spread() && !set.may_prefer());
/// assert_eq!(set.number(), 7);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SetId(u32);

const NUMBER: u32 = (1 << 28) - 1;
const DECLARED: u32 = 1 << 28;
const PACKED: u32 = 1 << 29;
const UNFIT: u32 = 1 << 30;
const SPREAD: u32 = 1 << 31;

impl SetId {
    /// No set.
    pub const NONE: Self = Self(0);

    /// The set of a spawn root: a task that was spawned by none. It is called after the task.
    #[must_use]
    pub const fn root(task_id: u64) -> Self {
        Self(number_of(task_id))
    }

    /// A set that somebody holds a handle of.
    #[must_use]
    pub const fn declared(id: u64) -> Self {
        Self(number_of(id) | DECLARED)
    }

    /// The set, if its tasks want a cache each.
    #[must_use]
    pub const fn spread(self) -> Self {
        Self(self.0 | SPREAD)
    }

    /// The set, if its data fit no cache.
    #[must_use]
    pub const fn unfit(self) -> Self {
        Self(self.0 | UNFIT)
    }

    /// The set, for one of its few first tasks.
    #[must_use]
    pub const fn packed(self) -> Self {
        Self(self.0 | PACKED)
    }

    /// What a task hands on to those that it spawns.
    #[inline]
    #[must_use]
    pub const fn inherited(self) -> Self {
        Self(self.0 & !PACKED)
    }

    /// The number; 0: none.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0 & NUMBER
    }

    /// Whether somebody holds, or held, a handle of it.
    #[inline]
    #[must_use]
    pub const fn is_declared(self) -> bool {
        self.0 & DECLARED != 0
    }

    /// Whether its task is one of few that stay on one node.
    #[inline]
    #[must_use]
    pub const fn is_packed(self) -> bool {
        self.0 & PACKED != 0
    }

    /// Whether its tasks want a cache each.
    #[inline]
    #[must_use]
    pub const fn is_spread(self) -> bool {
        self.0 & SPREAD != 0
    }

    /// Whether it can prefer a cache at all.
    #[inline]
    #[must_use]
    pub const fn may_prefer(self) -> bool {
        self.0 & (SPREAD | UNFIT) == 0 && self.number() != 0
    }

    /// Whether the task with this id is the one that the set is called after.
    #[inline]
    #[must_use]
    pub const fn is_root(self, task_id: u64) -> bool {
        !self.is_declared() && self.number() == number_of(task_id)
    }
}

/// An id's low bits; never 0.
const fn number_of(id: u64) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "masked to 28 bits")]
    let number = (id & NUMBER as u64) as u32;
    if number == 0 { NUMBER } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_flags_do_not_touch() {
        for id in [1, 7, u64::from(NUMBER), 1 << 28, u64::MAX] {
            let root = SetId::root(id);
            assert!(root.number() != 0 && root.may_prefer() && root.is_root(id) && !root.is_declared());
            let declared = SetId::declared(id);
            assert_eq!(declared.number(), root.number());
            assert!(declared.is_declared() && !declared.is_root(id) && declared.may_prefer());
            assert!(declared.spread().is_spread() && !declared.spread().may_prefer());
            assert!(!declared.unfit().is_spread() && !declared.unfit().may_prefer());
            assert!(declared.packed().is_packed() && declared.packed().may_prefer());
            assert_eq!(declared.packed().inherited(), declared);
            assert_eq!(declared.spread().inherited(), declared.spread());
        }
        assert!(!SetId::root(8).is_root(9));
        assert_eq!((SetId::NONE.number(), SetId::NONE.may_prefer()), (0, false));
    }
}
