//! The one place where atomics, cells and thread parking come from.
//!
//! An ordinary build takes them from `std`; a build with `--cfg quadrille_loom` takes them from loom, which then runs
//! every interleaving of a test. Code that is to be checked names nothing but this module.

/// Declares a function that is `const`, except under loom, whose atomics can't be made at compile time.
macro_rules! const_fn {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident($($argument:ident: $type:ty),*) -> $output:ty $body:block) => {
        $(#[$attribute])*
        #[cfg(not(quadrille_loom))]
        $visibility const fn $name($($argument: $type),*) -> $output $body

        $(#[$attribute])*
        #[cfg(quadrille_loom)]
        $visibility fn $name($($argument: $type),*) -> $output $body
    };
}
pub(crate) use const_fn;

#[cfg(not(quadrille_loom))]
mod imp {
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread::{Thread, current, park};

    /// Tells the processor that this is a spin loop.
    #[inline(always)]
    pub(crate) fn spin_hint() {
        std::hint::spin_loop();
    }

    /// Waits for a notification, at most `limit`.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn wait_on<'a, T>(
        changed: &Condvar,
        guard: std::sync::MutexGuard<'a, T>,
        limit: Option<std::time::Duration>,
    ) -> std::sync::MutexGuard<'a, T> {
        match limit {
            None => changed.wait(guard).unwrap(),
            Some(limit) => changed.wait_timeout(guard, limit).unwrap().0,
        }
    }

    /// `std`'s cell in the shape of loom's: a pointer exists only inside a closure.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// Lends a pointer for reading. The caller answers for nobody writing while `f` uses it.
        #[inline(always)]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        /// Lends a pointer for reading and writing. The caller answers for exclusive access while `f` uses it.
        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }

    /// Whether memory that two sides share is still there: a question for loom, which asks it with each `touch`.
    #[derive(Debug, Default)]
    pub(crate) struct Life;

    impl Life {
        pub(crate) fn new() -> Self {
            Self
        }

        /// Before accesses to the memory.
        #[inline(always)]
        pub(crate) fn touch(&self) {}

        /// After the last. True: it may be freed.
        #[inline(always)]
        pub(crate) fn end(&self) -> bool {
            true
        }
    }

    /// A look at a word before trying to change it, which spares its holder a cache miss. Decides nothing.
    #[inline(always)]
    pub(crate) fn seems_set(word: &AtomicBool) -> bool {
        // Ordering: Relaxed; nothing is read on its strength.
        word.load(Ordering::Relaxed)
    }

    /// Waits a little before the next look at a word that another thread holds: 1 to 64 pauses, then the rest of the
    /// time slice, then 50 µs to 800 µs asleep. Sleeping is what lets a preempted holder of lower priority run.
    pub(crate) fn relax(step: u32) {
        match step {
            0..=6 => (0..1 << step).for_each(|_| std::hint::spin_loop()),
            7..=22 => std::thread::yield_now(),
            _ => std::thread::sleep(std::time::Duration::from_micros(50 << (step - 23).min(4))),
        }
    }
}

#[cfg(quadrille_loom)]
mod imp {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread::{Thread, current, park};

    /// Lets another thread of the model run.
    pub(crate) fn spin_hint() {
        loom::thread::yield_now();
    }

    /// Waits for a notification. Time does not pass in a model: a wait of zero length ends after the others had their
    /// turn, any other one when notified.
    pub(crate) fn wait_on<'a, T>(
        changed: &Condvar,
        guard: MutexGuard<'a, T>,
        limit: Option<std::time::Duration>,
    ) -> Option<MutexGuard<'a, T>> {
        if limit == Some(std::time::Duration::ZERO) {
            drop(guard);
            loom::thread::yield_now();
            return None;
        }
        Some(changed.wait(guard).unwrap())
    }

    /// What stands in for a spin lock.
    #[derive(Debug)]
    pub(crate) struct Modelled(Mutex<()>);

    impl Modelled {
        pub(crate) fn new() -> Self {
            Self(Mutex::new(()))
        }

        pub(crate) fn run<R>(&self, section: impl FnOnce() -> R) -> R {
            let _guard = self.0.lock();
            section()
        }
    }

    /// Memory that two sides share. The model does not free it, so that it can tell an access after the end, or one
    /// that the end is not ordered after, from a good one.
    #[derive(Debug)]
    pub(crate) struct Life(UnsafeCell<Option<loom::alloc::Track<()>>>);

    // SAFETY: loom runs one thread at a time, and fails the model if it is touched and ended without an order.
    unsafe impl Sync for Life {}

    impl Default for Life {
        fn default() -> Self {
            Self::new()
        }
    }

    impl Life {
        pub(crate) fn new() -> Self {
            Self(UnsafeCell::new(Some(loom::alloc::Track::new(()))))
        }

        pub(crate) fn touch(&self) {
            // SAFETY: loom fails the model if it is not ordered after the last `end`.
            self.0
                .with(|life| assert!(unsafe { &*life }.is_some(), "touched after the end"));
        }

        /// A life that never ends is a leak, which fails the model, too.
        pub(crate) fn end(&self) -> bool {
            self.touch();
            // SAFETY: loom fails the model if it is not ordered after every `touch`.
            self.0.with_mut(|life| drop(unsafe { (*life).take() }));
            false
        }
    }

    /// In the model a relaxed look may be stale for ever, so there is none.
    pub(crate) fn seems_set(_word: &AtomicBool) -> bool {
        false
    }

    /// Lets the model run the thread that holds the word.
    pub(crate) fn relax(_step: u32) {
        loom::thread::yield_now();
    }
}

pub(crate) use imp::*;
/// For statics: they outlive every execution of a model, which loom's own may not.
pub(crate) use std::sync::Mutex as StaticMutex;
pub(crate) use std::sync::atomic::{AtomicU64 as StaticU64, AtomicUsize as StaticUsize};
