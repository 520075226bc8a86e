//! Measures a span: wall time, processor time and context switches of the process, counters of the runtime.

use std::time::Instant;

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::adapters::Counts;
use crate::outcome::{Counters, Measured};

/// A span that has begun. The clock is read last at the start and first at the end, so it is the innermost.
#[derive(Debug)]
pub struct Meter {
    whose: UsageWho,
    usage: Usage,
    counters: Counters,
    start: Instant,
}

impl Meter {
    /// Begins a span.
    ///
    /// # Panics
    /// If the kernel refuses getrusage(2) for the own process, which it has no reason to.
    pub fn start<R: Counts>(runtime: &R) -> Self {
        Self::start_of(UsageWho::RUSAGE_SELF, runtime)
    }

    /// The same for the children of this process, and theirs, as far as they end and are waited for within the span.
    ///
    /// # Panics
    /// As [`Meter::start`].
    pub fn start_of_children<R: Counts>(runtime: &R) -> Self {
        Self::start_of(UsageWho::RUSAGE_CHILDREN, runtime)
    }

    fn start_of<R: Counts>(whose: UsageWho, runtime: &R) -> Self {
        let counters = runtime.counters();
        let usage = getrusage(whose).expect("getrusage of the own process");
        Self {
            whose,
            usage,
            counters,
            start: Instant::now(),
        }
    }

    /// Ends the span, in which `ops` operations were done.
    ///
    /// # Panics
    /// As [`Meter::start`].
    pub fn stop<R: Counts>(self, runtime: &R, ops: u64) -> Measured {
        let wall = self.start.elapsed();
        let usage = getrusage(self.whose).expect("getrusage of the own process");
        let mut counters = runtime.counters();
        for (name, after) in &mut counters {
            *after = after.saturating_sub(self.counters.get(name).copied().unwrap_or(0));
        }
        Measured {
            ops,
            wall_ns: u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX),
            user_ns: nanos_between(self.usage.user_time(), usage.user_time()),
            sys_ns: nanos_between(self.usage.system_time(), usage.system_time()),
            vcsw: count_between(
                self.usage.voluntary_context_switches(),
                usage.voluntary_context_switches(),
            ),
            ivcsw: count_between(
                self.usage.involuntary_context_switches(),
                usage.involuntary_context_switches(),
            ),
            longest_wait_ns: None,
            counters,
        }
    }
}

fn count_between(before: i64, after: i64) -> u64 {
    u64::try_from(after - before).unwrap_or(0)
}

fn nanos_between(before: TimeVal, after: TimeVal) -> u64 {
    let micros = |time: TimeVal| time.tv_sec() * 1_000_000 + time.tv_usec();
    count_between(micros(before), micros(after)) * 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_subtract_across_a_second() {
        assert_eq!(nanos_between(TimeVal::new(1, 999_999), TimeVal::new(2, 1)), 2000);
    }

    #[test]
    fn a_clock_that_steps_back_counts_as_nothing() {
        assert_eq!(nanos_between(TimeVal::new(2, 0), TimeVal::new(1, 0)), 0);
    }
}
