//! What to wait for, and what has come.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

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
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ready(Sides);

impl Ready {
    /// Neither.
    pub const EMPTY: Ready = Ready(Sides {
        read: false,
        write: false,
    });

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
        !self.0.read && !self.0.write
    }

    /// The sides that `readable` and `writable` say.
    pub(super) const fn of(readable: bool, writable: bool) -> Ready {
        Ready(Sides {
            read: readable,
            write: writable,
        })
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
}
