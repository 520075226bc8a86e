//! What a stress build (`--cfg quadrille_stress`) changes: random delays where the order of steps matters, small
//! batches, parks that end by themselves, and locks that a sanitizer sees.
//!
//! In an ordinary build the delays are empty, a park ends by a token only, and the locks are those of `primitives`.

#[cfg(not(quadrille_stress))]
mod imp {
    use std::time::Duration;

    pub(crate) use crate::primitives::{Mutex, StaticMutex};

    /// The limit of a batch as configured.
    pub(crate) fn batch(limit: u32) -> usize {
        limit as usize
    }

    /// How long a park without a reason to end may last.
    pub(crate) const PARK_MAX: Option<Duration> = None;

    /// A point between two steps of a protocol.
    #[inline(always)]
    pub(crate) fn delay() {}
}

#[cfg(quadrille_stress)]
mod imp {
    use std::cell::Cell;
    use std::sync::{LockResult, MutexGuard, TryLockError, TryLockResult};
    use std::time::Duration;

    // One type under two names: only loom tells them apart, and it has no stress build.
    use crate::primitives::{Mutex as Plain, Ordering, StaticMutex as PlainStatic, StaticU64, spin_hint};

    pub(crate) fn batch(limit: u32) -> usize {
        limit.min(2) as usize
    }

    pub(crate) const PARK_MAX: Option<Duration> = Some(Duration::from_millis(20));

    thread_local! {
        /// This thread's generator, seeded at its first use.
        static STATE: Cell<u64> = const { Cell::new(0) };
    }

    /// The next number of this thread's xorshift generator. Seeds go by the order of the threads' first delays.
    fn random() -> u64 {
        static SEEDS: StaticU64 = StaticU64::new(1);
        STATE.with(|state| {
            let mut x = state.get();
            if x == 0 {
                // Ordering: Relaxed; only that no two are equal matters.
                x = SEEDS
                    .fetch_add(1, Ordering::Relaxed)
                    .wrapping_mul(0x9E37_79B9_7F4A_7C15);
            }
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            state.set(x);
            x
        })
    }

    /// Mostly nothing; one time in 8 up to 200 pauses, one in 128 the rest of the time slice.
    pub(crate) fn delay() {
        let x = random();
        match x % 128 {
            0 => std::thread::yield_now(),
            1..=16 => (0..(x >> 32) % 200).for_each(|_| spin_hint()),
            _ => {}
        }
    }

    /// `std`'s lock, but who finds it taken tries again later. ThreadSanitizer does not see what a std that was
    /// compiled without it does in its slow path, so it would take every hand-over of a contended lock for a race.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(Plain<T>);

    pub(crate) use Mutex as StaticMutex;

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(PlainStatic::new(value))
        }

        pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
            loop {
                match self.try_lock() {
                    Ok(guard) => return Ok(guard),
                    Err(TryLockError::Poisoned(error)) => return Err(error),
                    Err(TryLockError::WouldBlock) => std::thread::yield_now(),
                }
            }
        }

        pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
            self.0.try_lock()
        }
    }
}

pub(crate) use imp::*;
