//! The one place where time enters.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The origin of [`nanos`]: the first time that somebody asked.
static START: OnceLock<Instant> = OnceLock::new();

/// The current instant of the monotonic clock.
#[inline]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Nanoseconds since the first call in this process; monotonic, the same origin on every thread.
///
/// Lasts for 584 years and stays at the maximum then.
#[inline]
pub(crate) fn nanos() -> u64 {
    let start = *START.get_or_init(now);
    u64::try_from(now().duration_since(start).as_nanos()).unwrap_or(u64::MAX)
}

/// The instant `duration` from now on, or about 30 years from now if the clock can't express it.
#[inline]
pub(crate) fn after(duration: Duration) -> Instant {
    let now = now();
    now.checked_add(duration).unwrap_or_else(|| now + FAR_FUTURE)
}

/// Longer than any process lives, short enough for every clock and system call.
pub(crate) const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_go_back_between_threads() {
        let mut last = nanos();
        for _ in 0..100 {
            let next = std::thread::spawn(nanos).join().unwrap();
            assert!(next >= last);
            last = next;
        }
    }

    #[test]
    fn nanos_and_instants_advance_together() {
        let (before, instant) = (nanos(), now());
        while now() == instant {}
        let elapsed = u64::try_from(instant.elapsed().as_nanos()).unwrap();
        assert!(nanos() >= before);
        assert!(elapsed > 0);
    }

    #[test]
    fn after_never_overflows() {
        let start = now();
        assert!(after(Duration::ZERO) >= start);
        assert!(after(Duration::from_secs(1)) >= start + Duration::from_secs(1));
        assert!(after(Duration::MAX) >= start + FAR_FUTURE);
    }
}
