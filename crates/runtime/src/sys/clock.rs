//! The one place where time enters.

#[cfg(target_os = "linux")]
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::primitives::spin_hint;

/// The first time that somebody asked.
#[derive(Clone, Copy)]
struct Origin {
    instant: Instant,
    /// The same by the system's count.
    #[cfg(target_os = "linux")]
    count: u64,
}

static ORIGIN: OnceLock<Origin> = OnceLock::new();

#[inline]
fn origin() -> Origin {
    *ORIGIN.get_or_init(Origin::here)
}

impl Origin {
    #[cfg(target_os = "linux")]
    fn here() -> Self {
        // The closest of some: whoever asks may be held up between two of them.
        let readings = (0..10).map(|_| (count(), now(), count()));
        let (before, instant, after) = readings
            .min_by_key(|(before, _, after)| after - before)
            .expect("there are ten");
        // An instant tells its count only to those who debug. Where it does not, or says what can't be, it is taken for
        // later than it is, so that no timer is early: by as much as two readings of the clock take.
        let told = told(instant).filter(|told| (before..=after).contains(told));
        Self {
            instant,
            count: told.unwrap_or(after),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn here() -> Self {
        Self { instant: now() }
    }
}

/// What the text for debuggers says that an instant is: seconds, and nanoseconds.
#[cfg(target_os = "linux")]
fn told(instant: Instant) -> Option<u64> {
    let text = format!("{instant:?}");
    let mut numbers = text
        .split(|symbol: char| !symbol.is_ascii_digit())
        .filter_map(|digits| digits.parse::<u64>().ok());
    let (seconds, nanos) = (numbers.next()?, numbers.next()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// The current instant of the monotonic clock.
#[inline]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// A part of a time, which is never negative; how wide it is depends on the machine.
#[cfg(target_os = "linux")]
#[inline]
fn unsigned(part: impl TryInto<u64>) -> u64 {
    part.try_into().unwrap_or(0)
}

/// What an [`Instant`] is on Linux, ns. Asked without one, since the difference of two costs an eighth of reading the
/// clock.
#[cfg(target_os = "linux")]
#[inline]
fn count() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: writes to `time`. It can't fail: this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr()) };
    // SAFETY: made of integers, so zeros would be one as well.
    let time = unsafe { time.assume_init() };
    unsigned(time.tv_sec) * 1_000_000_000 + unsigned(time.tv_nsec)
}

/// Spins until `is_over`, but not for longer than `limit`, ns; whether it is.
pub(crate) fn spin(limit: u64, is_over: impl Fn() -> bool) -> bool {
    let until = nanos().saturating_add(limit);
    while !is_over() && nanos() < until {
        for _ in 0..16 {
            if is_over() {
                break;
            }
            spin_hint();
        }
    }
    is_over()
}

/// Nanoseconds since the first call in this process; monotonic, the same origin on every thread.
///
/// Lasts for 584 years.
#[cfg(target_os = "linux")]
#[inline]
pub(crate) fn nanos() -> u64 {
    let origin = origin().count;
    count().saturating_sub(origin)
}

/// The same.
#[cfg(not(target_os = "linux"))]
#[inline]
pub(crate) fn nanos() -> u64 {
    let origin = origin().instant;
    u64::try_from(now().duration_since(origin).as_nanos()).unwrap_or(u64::MAX)
}

/// The instant `duration` from now on, or about 30 years from now if the clock can't express it.
#[inline]
pub(crate) fn after(duration: Duration) -> Instant {
    later(now(), duration)
}

/// The instant `duration` after `start`, or about 30 years after it if the clock can't express it.
#[inline]
pub(crate) fn later(start: Instant, duration: Duration) -> Instant {
    start.checked_add(duration).unwrap_or_else(|| start + FAR_FUTURE)
}

/// The time `by` ns after `start`, both as [`nanos`] counts them, or about 30 years after it, at most [`LAST_NANOS`],
/// if [`from_nanos`] can't express it.
#[inline]
pub(crate) fn later_nanos(start: u64, by: u64) -> u64 {
    let exact = start.checked_add(by).filter(|later| *later <= LAST_NANOS);
    exact.unwrap_or_else(|| start.saturating_add(FAR_NANOS).min(LAST_NANOS))
}

/// The instant in nanoseconds, as [`nanos`] counts them; before their origin they are negative. Lasts for 292 years
/// either way.
#[inline]
pub(crate) fn to_nanos(instant: Instant) -> i64 {
    let start = origin().instant;
    match instant.checked_duration_since(start) {
        Some(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        None => i64::try_from(start.duration_since(instant).as_nanos()).map_or(i64::MIN, |before| -before),
    }
}

/// The instant that is so many nanoseconds from the origin; about 30 years from it if the clock can't express it.
pub(crate) fn from_nanos(nanos: i64) -> Instant {
    let start = origin().instant;
    let distance = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 {
        start.checked_sub(distance).unwrap_or(start)
    } else {
        later(start, distance)
    }
}

/// Longer than any process lives, short enough for every clock and system call.
pub(crate) const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The same in nanoseconds.
pub(crate) const FAR_NANOS: u64 = FAR_FUTURE.as_secs() * 1_000_000_000;

/// The last time that [`from_nanos`] can express.
pub(crate) const LAST_NANOS: u64 = i64::MAX.unsigned_abs();

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
    fn nanos_and_instants_are_one_clock() {
        for _ in 0..1000 {
            let [before, instant, after] = [nanos, || u64::try_from(to_nanos(now())).unwrap(), nanos].map(|ask| ask());
            assert!(before <= instant && instant <= after, "{before}, {instant}, {after}");
        }
    }

    #[test]
    fn instants_survive_the_way_to_nanoseconds_and_back() {
        let origin = from_nanos(0);
        for ns in [0_i64, 1, 999_999_999, 1_000_000_000, 5_000_000_001] {
            let distance = Duration::from_nanos(ns.unsigned_abs());
            assert_eq!(from_nanos(ns), origin + distance);
            assert_eq!(to_nanos(origin + distance), ns);
            // The clock may not reach back that far on a machine that has just started.
            if let Some(before) = origin.checked_sub(distance) {
                assert_eq!((to_nanos(before), from_nanos(-ns)), (-ns, before));
            }
        }
        assert!(from_nanos(i64::MAX) >= origin + FAR_FUTURE);
        assert!(from_nanos(i64::MIN) <= origin);
    }

    #[test]
    fn later_is_exact_while_that_can_be_expressed() {
        let far = LAST_NANOS - FAR_NANOS;
        for (start, by, later) in [
            (1, 2, 3),
            (1, FAR_NANOS + 1, FAR_NANOS + 2),
            (1, LAST_NANOS - 1, LAST_NANOS),
            (1, LAST_NANOS, FAR_NANOS + 1),
            (1, u64::MAX, FAR_NANOS + 1),
            (far, u64::MAX, LAST_NANOS),
            (far + 1, u64::MAX, LAST_NANOS),
            (LAST_NANOS, 1, LAST_NANOS),
        ] {
            assert_eq!(later_nanos(start, by), later, "{by} after {start}");
        }
    }

    #[test]
    fn after_never_overflows() {
        let start = now();
        assert!(after(Duration::ZERO) >= start);
        assert!(after(Duration::from_secs(1)) >= start + Duration::from_secs(1));
        assert!(after(Duration::MAX) >= start + FAR_FUTURE);
    }
}
