//! The cache lines that workers share and a wake-up touches: told by the code that touches them, counted by a unit test
//! (`sched/wake_lines.rs`), and nothing at all in any other build.

#[cfg(not(all(test, not(quadrille_loom))))]
mod imp {
    /// What follows touches this.
    #[inline(always)]
    pub(crate) fn touch<T: ?Sized>(_shared: &T) {}
}

#[cfg(all(test, not(quadrille_loom)))]
mod imp {
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::ptr;

    /// What a processor fetches: two lines of 64 bytes.
    const LINE: usize = 128;

    thread_local! {
        /// The numbers of the lines touched so far; `None`: nobody counts.
        static TOUCHED: RefCell<Option<BTreeSet<usize>>> = const { RefCell::new(None) };
    }

    /// What follows touches this.
    pub(crate) fn touch<T: ?Sized>(shared: &T) {
        TOUCHED.with_borrow_mut(|touched| {
            if let Some(lines) = touched {
                lines.insert(ptr::from_ref(shared).addr() / LINE);
            }
        });
    }

    /// The number of lines that `f` touches.
    pub(crate) fn count(f: impl FnOnce()) -> usize {
        TOUCHED.set(Some(BTreeSet::new()));
        f();
        TOUCHED.take().map_or(0, |lines| lines.len())
    }
}

pub(crate) use imp::*;
