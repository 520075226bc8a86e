//! Time as it travels through the policies.

use core::{fmt, str::FromStr, time::Duration};

/// Nanoseconds on a monotonic clock, or a span of them.
///
/// The text form is a number with a unit (`ns`, `us`, `ms`, `s`), without a fraction; `Display` takes the largest unit
/// that is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// A span of `us` microseconds.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// A span of `ms` milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// The span since `earlier`, zero if that lies in the future.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

/// Largest first; `ns` divides everything.
const UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// What is longer than 584 years is as long.
impl From<Duration> for Nanos {
    fn from(span: Duration) -> Self {
        Self(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = UNITS.iter().find(|(_, len)| self.0 != 0 && self.0.is_multiple_of(*len));
        let (unit, len) = exact.unwrap_or(&("ns", 1));
        write!(f, "{}{unit}", self.0 / len)
    }
}

impl FromStr for Nanos {
    type Err = InvalidSpan;

    fn from_str(text: &str) -> Result<Self, InvalidSpan> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let len = UNITS.iter().find(|(name, _)| *name == unit);
        let (_, len) = len.ok_or(InvalidSpan)?;
        let number: u64 = number.parse().map_err(|_| InvalidSpan)?;
        number.checked_mul(*len).map(Self).ok_or(InvalidSpan)
    }
}

/// A text that is no span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidSpan;

impl fmt::Display for InvalidSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a number and a unit (ns, us, ms, s), such as 50us")
    }
}

impl core::error::Error for InvalidSpan {}

/// The number of a window of the migration cap, one millisecond unless configured otherwise. Wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tick(pub u32);

impl From<Nanos> for Tick {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "ticks wrap by design; only equality is asked"
    )]
    #[inline]
    fn from(now: Nanos) -> Self {
        Self((now.0 / 1_000_000) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn spans_round_trip() {
        for (text, ns) in [
            ("0ns", 0),
            ("1ns", 1),
            ("1500ns", 1_500),
            ("50us", 50_000),
            ("1ms", 1_000_000),
            ("2s", 2_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Nanos(ns)), "{text}");
            assert_eq!(Nanos(ns).to_string(), text);
        }
    }

    #[test]
    fn spans_that_are_none() {
        for text in [
            "",
            "1",
            "ms",
            "-1ms",
            "1.5ms",
            "1 ms",
            "1m",
            "18446744073709551615s",
            "1msx",
        ] {
            assert_eq!(text.parse::<Nanos>(), Err(InvalidSpan), "{text}");
        }
    }

    #[test]
    fn ticks_are_milliseconds_and_wrap() {
        assert_eq!(Tick::from(Nanos::from_millis(7)), Tick(7));
        assert_eq!(Tick::from(Nanos(7_999_999)), Tick(7));
        assert_eq!(Tick::from(Nanos::from_millis(1 << 32)), Tick(0));
    }
}
