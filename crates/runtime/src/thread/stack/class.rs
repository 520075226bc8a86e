//! Sizes of stacks, and where the parts of one lie.
//!
//! ```text
//!          lowest          limit                                  base      top = lowest of the next
//!            │ guard         │ at least `size` bytes                │ colour │
//!            ▼ 2 pages       ▼                                      ▼        ▼
//!   ─────────┬───────────────┬──────────────────────────────────────┬────────┬────────
//!    (next)  │ no access     │ ◄── the stack grows this way         │ unused │
//!   ─────────┴───────────────┴──────────────────────────────────────┴────────┴────────
//!            ◄────────────────────────── stride ─────────────────────────────►
//! ```
//!
//! **Size classes** are powers of two, so that threads of any size reuse each other's stacks.
//!
//! **Colour.** Stacks that begin at the same offset in their pages keep what every thread uses most, its outermost
//! frames, in the same few sets of the caches. So a stack begins 0 to 960 bytes below its top, in 16 steps of a cache
//! line. All in the top page: a thread that sleeps near its base keeps one page in memory. One further page a stack is
//! there for the colour, so that it costs no byte of the size asked for.
//!
//! **Stride.** Guard and colour make it an odd number of pages. A power of two would put the top pages of all stacks
//! into the same sets of the translation buffers, as a common offset does in the caches.
//!
//! **Guard.** rustc touches every page of a frame in order (stack probes), and so do C compilers with
//! `-fstack-clash-protection`, which distributions turn on: no access skips a guard of one page. C that was compiled
//! without probes may step over one with a large frame; a guard of two pages catches frames of up to 8 KiB. No guard
//! catches all of them.

use std::io;

use crate::sys::memory;

/// The smallest stack, bytes. A panic with its backtrace takes more, and so may a handler of asynchronous signals that
/// was installed without `SA_ONSTACK`, which runs on whatever stack is in use.
pub(super) const SIZE_MIN: usize = 16 * 1024;

/// The largest stack, bytes.
pub(super) const SIZE_MAX: usize = SIZE_MIN << (Class::COUNT - 1);

/// The size of a stack whose thread and runtime ask for none, bytes.
pub(crate) const DEFAULT_SIZE: usize = 256 * 1024;

/// Pages without access below a stack.
const GUARD_PAGES: usize = 2;

/// Bytes between colours: a cache line.
const COLOUR_STEP: usize = 64;

/// Number of colours; all of them fit into the smallest page.
const COLOURS: usize = 16;

/// A slab is mapped for at least so many stacks, then for as many as there are.
const SLAB_STACKS_MIN: usize = 16;

/// A slab has at most so many stacks: who maps it makes as many guards, a system call each where the kernel does not
/// take many at once.
const SLAB_STACKS_MAX: usize = 256;

/// A slab has at most so many bytes, unless that is less than one stack.
const SLAB_BYTES_MAX: usize = 128 * 1024 * 1024;

/// A size class: stacks of 16 KiB, 32 KiB, and so on up to 1 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(usize);

impl Class {
    /// Number of classes.
    pub(super) const COUNT: usize = 17;

    /// The smallest class of at least `size` bytes.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if there is none.
    #[inline]
    pub(super) fn of(size: usize) -> io::Result<Self> {
        if size > SIZE_MAX {
            return Err(too_large(size));
        }
        let steps = size.max(SIZE_MIN).next_power_of_two() / SIZE_MIN;
        Ok(Self(steps.ilog2() as usize))
    }

    /// Every class, from the smallest.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..).take(Self::COUNT).map(Self)
    }

    pub(super) fn index(self) -> usize {
        self.0
    }

    /// The class with this index.
    #[inline]
    pub(super) fn at(index: usize) -> Self {
        debug_assert!(index < Self::COUNT, "an index of a class");
        Self(index)
    }

    /// Bytes of a stack of this class; on a system with larger pages, at least one page.
    pub(super) fn size(self) -> usize {
        (SIZE_MIN << self.0).max(memory::page_size())
    }

    /// Bytes from one stack of a slab to the next.
    pub(super) fn stride(self) -> usize {
        self.size() + (GUARD_PAGES + 1) * memory::page_size()
    }

    /// How many stacks to map at once if there are `mapped`.
    pub(super) fn slab_stacks(self, mapped: usize) -> usize {
        let fit = (SLAB_BYTES_MAX / self.stride()).max(1);
        mapped.clamp(SLAB_STACKS_MIN, SLAB_STACKS_MAX).min(fit)
    }

    /// The bounds of the stack whose guard begins at `lowest`, with the colour of the `number`-th.
    pub(super) fn bounds(self, lowest: usize, number: usize) -> StackBounds {
        StackBounds {
            limit: lowest + guard_bytes(),
            base: lowest + self.stride() - number % COLOURS * COLOUR_STEP,
        }
    }
}

#[cold]
fn too_large(size: usize) -> io::Error {
    let message = format!("a stack of {size} bytes is larger than the maximum, {SIZE_MAX} bytes");
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// Bytes of a guard.
pub(super) fn guard_bytes() -> usize {
    GUARD_PAGES * memory::page_size()
}

/// Where a stack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StackBounds {
    /// The lowest address that may be used. The guard ends here.
    limit: usize,
    /// One past the highest address that may be used; a multiple of 64. Its page is the stack's topmost, unless the
    /// colour is 0 and the page below it is.
    base: usize,
}

impl StackBounds {
    /// The lowest address that may be used.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// One past the highest address that may be used, where the stack begins.
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// The size of the stack's class, bytes: at least what was asked for. What is above it is the colour's.
    pub(crate) fn size(&self) -> usize {
        (self.base - self.limit - 1) & !(memory::page_size() - 1)
    }

    /// Where the guard begins.
    pub(super) fn lowest(&self) -> usize {
        self.limit - guard_bytes()
    }

    /// One past the topmost page.
    pub(super) fn top(&self) -> usize {
        self.base.next_multiple_of(memory::page_size())
    }

    /// Whether `address` is in the guard.
    pub(super) fn guards(&self, address: usize) -> bool {
        address < self.limit && self.limit - address <= guard_bytes()
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;

    fn check_class(size: usize, expected: usize) {
        assert_eq!(
            Class::of(size).unwrap().size(),
            expected.max(memory::page_size()),
            "{size}"
        );
    }

    #[test]
    fn sizes_are_rounded_up_to_powers_of_two() {
        check_class(0, SIZE_MIN);
        check_class(1, SIZE_MIN);
        check_class(SIZE_MIN, SIZE_MIN);
        check_class(SIZE_MIN + 1, 2 * SIZE_MIN);
        check_class(100_000, 128 * 1024);
        check_class(DEFAULT_SIZE, DEFAULT_SIZE);
        check_class(SIZE_MAX - 1, SIZE_MAX);
        check_class(SIZE_MAX, SIZE_MAX);
        assert_eq!(SIZE_MAX, 1 << 30);
    }

    #[test]
    fn a_size_beyond_the_last_class_is_named() {
        for size in [SIZE_MAX + 1, usize::MAX] {
            let error = Class::of(size).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(&size.to_string()), "{error}");
        }
    }

    #[test]
    fn every_class_and_colour_has_its_size_and_stays_in_the_top_page() {
        let page = memory::page_size();
        for class in Class::all() {
            let lowest = 1 << 40;
            let mut bases = std::collections::BTreeSet::new();
            for number in 0..2 * COLOURS {
                let bounds = class.bounds(lowest, number);
                assert_eq!(bounds.lowest(), lowest);
                assert_eq!(bounds.top(), lowest + class.stride());
                assert_eq!(bounds.size(), class.size());
                assert!(bounds.base() - bounds.limit() >= class.size());
                assert!(bounds.top() - bounds.base() < page);
                assert_eq!(bounds.base() % COLOUR_STEP, 0);
                bases.insert(bounds.base());
                assert_ne!(bounds.base(), class.bounds(lowest, number + 1).base());
            }
            assert_eq!(bases.len(), COLOURS);
            assert_eq!(class.stride() / page % 2, 1);
        }
    }

    #[test]
    fn the_guard_is_what_is_between_lowest_and_limit() {
        let bounds = Class(0).bounds(1 << 40, 3);
        for (address, expected) in [
            (bounds.lowest() - 1, false),
            (bounds.lowest(), true),
            (bounds.limit() - 1, true),
            (bounds.limit(), false),
            (0, false),
            (usize::MAX, false),
        ] {
            assert_eq!(bounds.guards(address), expected, "{address:#x}");
        }
    }

    #[test]
    fn slabs_grow_with_what_is_there() {
        let class = Class::of(DEFAULT_SIZE).unwrap();
        assert_eq!(class.slab_stacks(0), 16);
        assert_eq!(class.slab_stacks(100), 100);
        assert_eq!(class.slab_stacks(1_000_000), 256);
        assert_eq!(Class::of(SIZE_MAX).unwrap().slab_stacks(10), 1);
        assert_eq!(Class::of(16 * 1024 * 1024).unwrap().slab_stacks(0), 7);
    }
}
