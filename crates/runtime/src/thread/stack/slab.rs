//! A slab: many stacks in one mapping, each above its guard.
//!
//! A mapping costs microseconds and Linux allows a process 65,530 of them, so stacks are mapped by the slab and guarded
//! by marks in the page table (Linux 6.13 and later), which split nothing. Without such marks a guard is a protected
//! range: two more mappings a stack, counted against the limit of the process *before* the kernel refuses some
//! unrelated `mmap` of the program. Who reaches it is told what to do. There is no setting that turns guards off: an
//! overflow would then write into the next stack, which no safe function may allow.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::OnceLock;

use corosensei::stack::valgrind::ValgrindStackRegistration;

use super::class::{Class, StackBounds, guard_bytes};
use crate::primitives::{Ordering, StaticUsize};
use crate::sys::memory::{self, Mapping};

/// How guards are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guarding {
    /// Whether marks are tried before protected ranges.
    pub(super) marks: bool,
    /// The mappings that protected ranges may take.
    pub(super) budget: &'static Budget,
}

/// Guards of this process: marks where the system has them.
static PROCESS: Budget = Budget::new();

impl Default for Guarding {
    fn default() -> Self {
        Self {
            marks: true,
            budget: &PROCESS,
        }
    }
}

/// How many mappings may go into guards.
#[derive(Debug)]
pub(super) struct Budget {
    used: StaticUsize,
    limits: OnceLock<Limits>,
}

/// The numbers behind a budget.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// `vm.max_map_count`; `usize::MAX` where there is none.
    system: usize,
    /// What guards may take of it: 7/8, without what the process had before.
    guards: usize,
}

impl Limits {
    fn new(system: Option<usize>, others: usize) -> Self {
        let system = system.unwrap_or(usize::MAX);
        Self {
            system,
            guards: (system - system / 8).saturating_sub(others),
        }
    }
}

impl Budget {
    pub(super) const fn new() -> Self {
        Self {
            used: StaticUsize::new(0),
            limits: OnceLock::new(),
        }
    }

    /// For a test: `system` mappings are allowed and nobody has any.
    #[cfg(all(test, not(quadrille_loom)))]
    pub(super) fn limit_to(&'static self, system: usize) -> &'static Self {
        self.limits.get_or_init(|| Limits::new(Some(system), 0));
        self
    }

    /// Sets `count` mappings aside, until what is answered is dropped.
    fn claim(&'static self, count: usize) -> Result<Claim, MappingsExhausted> {
        let limits = *self
            .limits
            .get_or_init(|| Limits::new(memory::mappings_max(), memory::mappings()));
        let fits = |used: usize| used.checked_add(count).filter(|sum| *sum <= limits.guards);
        // Ordering: Relaxed; a counter, nothing is read on its strength.
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(Claim { budget: self, count }),
            Err(used) => Err(MappingsExhausted { limits, used, count }),
        }
    }

    /// How many mappings are in use by guards.
    #[cfg(all(test, not(quadrille_loom)))]
    pub(super) fn used(&self) -> usize {
        // Ordering: Relaxed; a counter.
        self.used.load(Ordering::Relaxed)
    }
}

/// Mappings set aside for the guards of a slab.
#[derive(Debug)]
struct Claim {
    budget: &'static Budget,
    count: usize,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Ordering: Relaxed; a counter.
        self.budget.used.fetch_sub(self.count, Ordering::Relaxed);
    }
}

/// Guards would take more mappings than they may.
#[derive(Debug)]
struct MappingsExhausted {
    limits: Limits,
    used: usize,
    count: usize,
}

impl fmt::Display for MappingsExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limits, used, count } = self;
        write!(
            f,
            "vm.max_map_count = {} allows for no more stacks: their guard pages take {used} mappings, and {count} more \
             would exceed the {} that are left to them; raise it (`sysctl -w vm.max_map_count={}`, 2 a thread), or run \
             on Linux 6.13 or later, where guard pages take no mappings",
            limits.system,
            limits.guards,
            limits.system.saturating_mul(2),
        )
    }
}

impl std::error::Error for MappingsExhausted {}

/// What is said besides if the system has no memory for a single stack: that there are no more mappings than it takes,
/// which the system calls the same. Others may have taken them, which the budget does not see. Reads all of a long
/// file: not for attempts with more stacks, of which nobody hears.
fn mappings_hint() -> String {
    let (used, max) = (memory::mappings(), memory::mappings_max().unwrap_or(usize::MAX));
    // A slab, and two more for its guard.
    if used.saturating_add(3) < max {
        return String::new();
    }
    format!(" (the process has {used} of the mappings that vm.max_map_count = {max} allows for)")
}

/// Stacks of one class in one mapping. Unmapped when dropped.
#[derive(Debug)]
pub(super) struct Slab {
    class: Class,
    stacks: usize,
    /// The number of the first stack among those of its class; colours go by it.
    first: usize,
    /// Dropped before the mapping, so that valgrind forgets the stacks. Without valgrind these are zeros.
    registrations: Vec<ValgrindStackRegistration>,
    mapping: Mapping,
    /// What protected guards took, given back after the mapping is gone; none if they are marks.
    claim: Option<Claim>,
}

impl Slab {
    /// Maps `stacks` stacks with their guards.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`, or what the system says, with the number of bytes; or that guards would take too many mappings.
    pub(super) fn map(class: Class, stacks: usize, first: usize, guarding: Guarding) -> io::Result<Self> {
        let bytes = stacks * class.stride();
        let describe = |error: io::Error| {
            let is_last = stacks == 1 && error.kind() == io::ErrorKind::OutOfMemory;
            let hint = if is_last { mappings_hint() } else { String::new() };
            let message = format!(
                "cannot map {bytes} bytes for stacks of {} bytes: {error}{hint}",
                class.size()
            );
            io::Error::new(error.kind(), message)
        };
        let mut slab = Self {
            class,
            stacks,
            first,
            registrations: Vec::with_capacity(stacks),
            mapping: Mapping::new(bytes).map_err(describe)?,
            claim: None,
        };
        if !guarding.marks || !slab.guard_by_marks().map_err(describe)? {
            let claim = guarding.budget.claim(2 * stacks);
            slab.claim = Some(claim.map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error))?);
            for guard in slab.guards() {
                slab.mapping.guard_by_protection(guard).map_err(describe)?;
            }
        }
        for bounds in slab.stacks() {
            let start = std::ptr::with_exposed_provenance_mut(bounds.limit());
            let registration = ValgrindStackRegistration::new(start, bounds.top() - bounds.limit());
            slab.registrations.push(registration);
        }
        Ok(slab)
    }

    /// Puts the marks. False if this system has none, or has none for memory that is locked (`mlockall`).
    fn guard_by_marks(&self) -> io::Result<bool> {
        match self.mapping.guard_by_marks(self.guards()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The guards, as offsets into the mapping.
    fn guards(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let stride = self.class.stride();
        (0..self.stacks).map(move |i| i * stride..i * stride + guard_bytes())
    }

    /// The stacks.
    pub(super) fn stacks(&self) -> impl Iterator<Item = StackBounds> + use<> {
        let (class, first, start) = (self.class, self.first, self.mapping.start());
        (0..self.stacks).map(move |i| class.bounds(start + i * class.stride(), first + i))
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;

    fn class() -> Class {
        Class::of(16 * 1024).unwrap()
    }

    #[test]
    fn stacks_lie_one_after_the_other_with_different_colours() {
        let slab = Slab::map(class(), 40, 7, Guarding::default()).unwrap();
        let stacks: Vec<StackBounds> = slab.stacks().collect();
        assert_eq!(stacks.len(), 40);
        for pair in stacks.windows(2) {
            assert_eq!(pair[0].top(), pair[1].lowest());
            assert_ne!(pair[0].top() - pair[0].base(), pair[1].top() - pair[1].base());
        }
        // The first colour is that of number 7.
        assert_eq!(stacks[0].top() - stacks[0].base(), 7 * 64);
    }

    #[test]
    fn protected_guards_are_counted_and_given_back() {
        static BUDGET: Budget = Budget::new();
        let budget = BUDGET.limit_to(80);
        let guarding = Guarding { marks: false, budget };
        let slab = Slab::map(class(), 30, 0, guarding).unwrap();
        assert_eq!(budget.used(), 60);
        // 7/8 of 80 are 70.
        let error = Slab::map(class(), 6, 0, guarding).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        let message = error.to_string();
        for part in [
            "vm.max_map_count = 80",
            "60 mappings",
            "12 more",
            "vm.max_map_count=160",
        ] {
            assert!(message.contains(part), "`{part}` is not in `{message}`");
        }
        let last = Slab::map(class(), 5, 0, guarding).unwrap();
        assert_eq!(budget.used(), 70);
        drop((slab, last));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_the_process_has_mapped_and_an_eighth_are_left_alone() {
        assert_eq!(Limits::new(Some(65_530), 100).guards, 65_530 - 8191 - 100);
        assert_eq!(Limits::new(Some(64), 100).guards, 0);
        assert!(Limits::new(None, 100).guards > 1 << 40);
    }

    #[test]
    fn more_than_there_are_addresses_is_an_error_that_names_the_bytes() {
        let class = Class::of(1 << 30).unwrap();
        let stacks = 1 << 20;
        let error = Slab::map(class, stacks, 0, Guarding::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        let bytes = (stacks * class.stride()).to_string();
        assert!(error.to_string().contains(&bytes), "{error}");
    }
}
