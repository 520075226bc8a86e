//! What things cost on this machine, under the names that the simulator's costs have.
//!
//! A simulator is as good as its costs. Those it comes with are for a current server; `quadrille calibrate` measures
//! the same things here, so that a simulation can be told about another machine. What cannot be measured here (there is
//! one CPU, or no second node) says so, and the simulator keeps its default.
//!
//! How: each measurement but those of the runtime has threads of its own, pinned to the hardware threads it is about,
//! and is repeated in batches; the least batch counts where nothing but disturbance can make it longer (lines, calls),
//! the median where the spread belongs to the thing (being woken). Take figures on an idle machine.
//!
//! | module | measures |
//! |---|---|
//! | [`places`] | which hardware threads stand for which distance |
//! | [`lines`] | a cache line on its way, a lock handed over, a working set fetched again |
//! | [`wakes`] | waking parked and spinning threads, the futex call |
//! | [`kernel`] | pipes and context switches |
//! | [`memory`] | latency and bandwidth of memory |
//! | [`runtime`] | what the runtime takes for each task and message |

pub mod kernel;
pub mod lines;
pub mod memory;
pub mod places;
pub mod runtime;
pub mod wakes;

use std::fmt;
use std::time::{Duration, Instant};

use quadrille_topology::{Topology, pin_current_thread};

use places::Places;

/// One cost, or why there is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The name in the simulator's costs; for information only if it has none, see [`Measured::is_cost`].
    pub name: String,
    /// The value in the unit of the cost, or what is missing on this machine.
    pub value: Result<u64, String>,
    /// What was measured, and how.
    pub how: String,
    /// Whether the simulator has a cost of this name.
    pub is_cost: bool,
}

impl Measured {
    fn cost(name: &str, value: Result<u64, String>, how: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            value,
            how: how.into(),
            is_cost: true,
        }
    }

    fn note(name: impl Into<String>, value: Result<u64, String>, how: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value,
            how: how.into(),
            is_cost: false,
        }
    }
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Batches of each measurement.
    pub batches: u32,
    /// Operations in a batch of short ones; long ones (wake-ups, switches) take a hundredth.
    pub operations: u32,
    /// Bytes of the largest working set of a thread, where the last-level cache does not call for more.
    pub bytes_max: usize,
    /// Bytes of the largest working set of all threads together, where it takes more to get past a last-level cache. A
    /// quarter of the memory that is available is a limit, too.
    pub bytes_max_past_llc: usize,
}

impl Effort {
    /// Some seconds.
    pub const FULL: Self = Self {
        batches: 25,
        operations: 100_000,
        bytes_max: 256 << 20,
        bytes_max_past_llc: usize::MAX,
    };
    /// For a first look, and for tests: whether it works, not what comes out. Where the caches are larger than half of
    /// these bytes nothing is said about memory that one thread reads.
    pub const QUICK: Self = Self {
        batches: 3,
        operations: 2_000,
        bytes_max: 4 << 20,
        bytes_max_past_llc: 4 << 20,
    };

    fn long_operations(self) -> u32 {
        (self.operations / 100).max(10)
    }
}

/// Measures everything that this machine has.
#[must_use]
pub fn measure(machine: &Topology, effort: Effort) -> Vec<Measured> {
    let places = Places::of(machine);
    let mut all = lines::transfers(&places, effort);
    all.push(memory::latency(machine, &places, effort));
    all.push(lines::smt_slowdown(&places, effort));
    all.extend(memory::bandwidths(machine, &places, effort));
    all.extend(lines::refills(&places, effort));
    all.push(lines::lock_waiter(&places, effort));
    all.extend(wakes::measure(&places, effort));
    all.extend(kernel::measure(&places, effort));
    all.extend(runtime::measure(effort));
    all
}

/// The costs in the form that the simulator reads: `name=value,…`.
#[must_use]
pub fn cost_text(all: &[Measured]) -> String {
    let costs = all.iter().filter(|measured| measured.is_cost);
    let known = costs.filter_map(|measured| {
        let value = measured.value.as_ref().ok()?;
        Some(format!("{}={value}", measured.name))
    });
    known.collect::<Vec<_>>().join(",")
}

/// Writes the measurements for people: name, value, what it is.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a>(pub &'a [Measured]);

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(all) = self;
        let name_width = all.iter().map(|measured| measured.name.len()).max().unwrap_or(0);
        for measured in *all {
            let value = measured.value.as_ref().map_or("-".to_owned(), u64::to_string);
            write!(f, "  {:name_width$}  {value:>8}  {}", measured.name, measured.how)?;
            match &measured.value {
                Ok(_) => writeln!(f)?,
                Err(missing) => writeln!(f, ": not measured, {missing}")?,
            }
        }
        Ok(())
    }
}

/// Runs `body` on a thread of its own that is pinned to `cpu`, a number of the operating system.
fn pinned<T: Send>(cpu: u32, body: impl FnOnce() -> T + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            pin_current_thread(cpu).map_err(|error| error.to_string())?;
            Ok(body())
        });
        thread.join().map_err(|_| format!("the thread on CPU {cpu} panicked"))?
    })
}

/// Runs `first` and `second` at the same time, each pinned to its CPU, and returns what `first` returns. If one cannot
/// be pinned neither runs.
fn pinned_pair<T: Send>(
    cpus: [u32; 2],
    first: impl FnOnce() -> T + Send,
    second: impl FnOnce() + Send,
) -> Result<T, String> {
    // Both pin themselves before either begins: a partner that never comes would be waited for for ever.
    for cpu in cpus {
        pinned(cpu, || ())?;
    }
    std::thread::scope(|scope| {
        let partner = scope.spawn(|| {
            let pinned = pin_current_thread(cpus[1]);
            second();
            pinned.map_err(|error| error.to_string())
        });
        let leader = scope.spawn(|| {
            let pinned = pin_current_thread(cpus[0]);
            let result = first();
            pinned.map(|()| result).map_err(|error| error.to_string())
        });
        let result = leader.join().map_err(|_| "the measuring thread panicked".to_owned())?;
        partner
            .join()
            .map_err(|_| "the measuring thread's partner panicked".to_owned())??;
        result
    })
}

/// Nanoseconds of one of `operations`, rounded.
fn each(total: Duration, operations: u32) -> u64 {
    let operations = u128::from(operations.max(1));
    u64::try_from((total.as_nanos() + operations / 2) / operations).unwrap_or(u64::MAX)
}

/// The least over batches of what one operation takes.
fn least(effort: Effort, operations: u32, mut batch: impl FnMut()) -> u64 {
    let times = (0..effort.batches).map(|_| {
        let start = Instant::now();
        batch();
        each(start.elapsed(), operations)
    });
    times.min().unwrap_or(0)
}

/// The middle of many values; zero if there are none.
fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// Lets the other hardware thread get on, and after a long time whoever else wants this one.
fn pause(round: &mut u32) {
    *round += 1;
    if round.is_multiple_of(1 << 14) {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_what_was_measured() {
        let all = [
            Measured::cost("line_llc", Ok(52), "a line"),
            Measured::cost("line_node", Err("there is one".to_owned()), "a line"),
            Measured::note("clock", Ok(20), "reading it"),
            Measured::cost("pipe_read", Ok(440), "a read"),
        ];
        assert_eq!(cost_text(&all), "line_llc=52,pipe_read=440");
        let listing = Listing(&all).to_string();
        assert!(listing.contains("  line_llc         52  a line\n"), "{listing}");
        assert!(
            listing.contains("  line_node         -  a line: not measured, there is one\n"),
            "{listing}"
        );
    }

    #[test]
    fn one_operation_is_rounded() {
        assert_eq!(each(Duration::from_nanos(149), 10), 15);
        assert_eq!(each(Duration::from_nanos(144), 10), 14);
        assert_eq!(median(vec![9, 1, 5]), 5);
        assert_eq!(median(Vec::new()), 0);
    }

    #[test]
    fn a_cpu_that_there_is_not_is_an_error() {
        let none = 4_000_000_000;
        assert!(pinned(none, || ()).is_err());
        assert!(pinned_pair([none, none], || (), || ()).is_err());
    }

    /// Whatever the machine: each name once, and every one measured or explained.
    #[test]
    fn every_measurement_works_or_says_why_not() {
        let machine = quadrille_topology::discover().topology;
        let all = measure(&machine, Effort::QUICK);
        let mut names: Vec<&str> = all.iter().map(|measured| measured.name.as_str()).collect();
        names.sort_unstable();
        let len = names.len();
        names.dedup();
        assert_eq!(names.len(), len, "{names:?}");
        for name in [
            "line_llc",
            "line_memory",
            "unpark_call",
            "parked_latency",
            "pipe_write",
            "kernel_switch",
            "yield",
            "channel_free",
        ] {
            assert!(names.contains(&name), "{name}");
        }
        for measured in &all {
            match &measured.value {
                Ok(_) => {}
                Err(missing) => assert!(!missing.is_empty(), "{}", measured.name),
            }
        }
    }
}
