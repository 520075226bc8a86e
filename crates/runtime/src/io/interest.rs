//! What to wait for, and what has come.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Sub};

/// The sides of a descriptor that somebody wants to hear of: reading, writing, or both.
///
/// ```
/// use quadrille::io::Interest;
///
/// let both = Interest::READABLE | Interest::WRITABLE;
/// assert!(both.is_readable() && both.is_writable());
/// assert!(!Interest::READABLE.is_writable());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Interest(Sides);

impl Interest {
    /// Reading.
    pub const READABLE: Interest = Interest(Sides {
        read: true,
        write: false,
    });
    /// Writing.
    pub const WRITABLE: Interest = Interest(Sides {
        read: false,
        write: true,
    });

    /// Both of `self` and `other`, as the operator `|`.
    #[must_use]
    pub const fn add(self, other: Interest) -> Interest {
        Interest(self.0.or(other.0))
    }

    /// Those of `self` that are not in `other`; `None` if none is left.
    ///
    /// ```
    /// use quadrille::io::Interest;
    ///
    /// let both = Interest::READABLE | Interest::WRITABLE;
    /// assert_eq!(both.remove(Interest::READABLE), Some(Interest::WRITABLE));
    /// assert_eq!(Interest::WRITABLE.remove(both), None);
    /// ```
    #[must_use]
    pub const fn remove(self, other: Interest) -> Option<Interest> {
        let rest = self.0.without(other.0);
        if rest.is_empty() { None } else { Some(Interest(rest)) }
    }

    /// Whether reading is among them.
    #[must_use]
    pub const fn is_readable(self) -> bool {
        self.0.read
    }

    /// Whether writing is among them.
    #[must_use]
    pub const fn is_writable(self) -> bool {
        self.0.write
    }
}

impl BitOr for Interest {
    type Output = Interest;

    fn bitor(self, other: Interest) -> Interest {
        self.add(other)
    }
}

impl BitOrAssign for Interest {
    fn bitor_assign(&mut self, other: Interest) {
        *self = self.add(other);
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Interest({:?})", self.0)
    }
}

/// The sides of a descriptor that may be ready. A side whose other end is closed counts: an attempt there doesn't wait.
///
/// ```
/// use quadrille::io::Ready;
///
/// let mut ready = Ready::READABLE;
/// assert_eq!(ready & Ready::WRITABLE, Ready::EMPTY);
/// ready |= Ready::WRITABLE;
/// assert_eq!(ready, Ready::ALL);
/// assert_eq!(ready - Ready::READABLE, Ready::WRITABLE);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ready(Sides);

impl Ready {
    /// Neither.
    pub const EMPTY: Ready = Ready::of(false, false);
    /// Readable.
    pub const READABLE: Ready = Ready::of(true, false);
    /// Writable.
    pub const WRITABLE: Ready = Ready::of(false, true);
    /// Both.
    pub const ALL: Ready = Ready::of(true, true);

    /// Whether it may be readable.
    #[must_use]
    pub const fn is_readable(self) -> bool {
        self.0.read
    }

    /// Whether it may be writable.
    #[must_use]
    pub const fn is_writable(self) -> bool {
        self.0.write
    }

    /// Whether it is neither.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The sides that `readable` and `writable` say.
    pub(super) const fn of(readable: bool, writable: bool) -> Ready {
        Ready(Sides {
            read: readable,
            write: writable,
        })
    }
}

impl BitOr for Ready {
    type Output = Ready;

    fn bitor(self, other: Ready) -> Ready {
        Ready(self.0.or(other.0))
    }
}

impl BitOrAssign for Ready {
    fn bitor_assign(&mut self, other: Ready) {
        *self = *self | other;
    }
}

impl BitAnd for Ready {
    type Output = Ready;

    fn bitand(self, other: Ready) -> Ready {
        Ready(self.0.and(other.0))
    }
}

/// Those of the first that are not in the second.
impl Sub for Ready {
    type Output = Ready;

    fn sub(self, other: Ready) -> Ready {
        Ready(self.0.without(other.0))
    }
}

/// `EMPTY`, `READABLE`, `WRITABLE`, `ALL`, in tokio's order. To ask for what is contained take `&`.
impl Ord for Ready {
    fn cmp(&self, other: &Ready) -> Ordering {
        (self.0.write, self.0.read).cmp(&(other.0.write, other.0.read))
    }
}

impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Ready) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ready({:?})", self.0)
    }
}

/// What both are made of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Sides {
    read: bool,
    write: bool,
}

impl Sides {
    const fn or(self, other: Sides) -> Sides {
        Sides {
            read: self.read || other.read,
            write: self.write || other.write,
        }
    }

    const fn and(self, other: Sides) -> Sides {
        Sides {
            read: self.read && other.read,
            write: self.write && other.write,
        }
    }

    const fn without(self, other: Sides) -> Sides {
        Sides {
            read: self.read && !other.read,
            write: self.write && !other.write,
        }
    }

    const fn is_empty(self) -> bool {
        !self.read && !self.write
    }
}

impl fmt::Debug for Sides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.read, self.write) {
            (true, true) => "READABLE | WRITABLE",
            (true, false) => "READABLE",
            (false, true) => "WRITABLE",
            (false, false) => "EMPTY",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interests_add_up() {
        let mut interest = Interest::READABLE;
        assert_eq!(format!("{interest:?}"), "Interest(READABLE)");
        interest |= Interest::READABLE;
        assert_eq!(interest, Interest::READABLE);
        interest |= Interest::WRITABLE;
        assert_eq!(format!("{interest:?}"), "Interest(READABLE | WRITABLE)");
    }

    #[test]
    fn readiness_says_which_side() {
        for (readable, writable) in [(false, false), (false, true), (true, false), (true, true)] {
            let ready = Ready::of(readable, writable);
            assert_eq!((ready.is_readable(), ready.is_writable()), (readable, writable));
            assert_eq!(ready.is_empty(), ready == Ready::EMPTY);
        }
        assert_eq!(format!("{:?}", Ready::EMPTY), "Ready(EMPTY)");
    }

    #[test]
    fn readiness_has_an_order() {
        let in_order = [Ready::EMPTY, Ready::READABLE, Ready::WRITABLE, Ready::ALL];
        assert!(in_order.is_sorted_by(|one, next| one < next));
    }
}
