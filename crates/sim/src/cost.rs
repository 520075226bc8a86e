//! What things cost, in nanoseconds, and where each number comes from.
//!
//! The numbers are those of a current x86 server unless said otherwise. They are one value each, not distributions.
//! Sources:
//!
//! - *quoted*: the latencies quoted with the series that the policies come from
//!   (20230822113133.643238-4-mathieu.desnoyers@efficios.com): L1 4 to 5 cycles, L2 14 cycles, L3 50 ns, memory about
//!   120 ns;
//! - *c2c*: published core-to-core measurements of a compare-exchange that bounces between two cores, EPYC 9654
//!   (25 to 50 ns inside a last-level cache, 100 to 120 ns across, about 200 ns between sockets);
//! - *calibrated*: set so that the kernel-faithful model meets row A (hackbench with direct wake-ups in units of 1, 2,
//!   4, 8, 16 threads: times, switches and moves a message), once; no other published figure was looked at for a cost;
//! - *measured*: by `quadrille`'s own benchmarks on the machine of the authors, a virtual one with two threads;
//! - *assumed*: an order of magnitude, to be swept.

use std::fmt;
use std::str::FromStr;

use quadrille_policy::Nanos;
use quadrille_topology::Distance;

macro_rules! costs {
    ($($(#[$doc:meta])* $field:ident = $default:literal;)+) => {
        /// Every cost, in ns unless said otherwise.
        ///
        /// Written and read as `name=value,…`, which changes some of the defaults. Values go up to 10,000,000. `poll`,
        /// lines on their way from any distance, bandwidths and `cold_overlap` are at least 1, `smt_slowdown` at least
        /// 1024: with less, simulated time may stand still, and a simulation never ends.
        ///
        /// ```
        /// use quadrille_sim::Cost;
        ///
        /// let cost: Cost = "unpark_call=4000,parked_latency=20000".parse()?;
        /// assert_eq!(cost, Cost { unpark_call: 4_000, parked_latency: 20_000, ..Cost::default() });
        /// assert_eq!(cost.to_string(), "unpark_call=4000,parked_latency=20000");
        /// # Ok::<(), quadrille_sim::CostError>(())
        /// ```
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Cost {
            $($(#[$doc])* pub $field: u64,)+
        }

        impl Default for Cost {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl Cost {
            /// Every cost with its name, in the order of declaration.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field),)+].into_iter()
            }

            fn set(&mut self, name: &str, value: u64) -> bool {
                match name {
                    $(stringify!($field) => self.$field = value,)+
                    _ => return false,
                }
                true
            }
        }
    };
}

costs! {
    /// A cache line that the thread has itself. Quoted.
    line_same = 1;
    /// A cache line from the sibling's side of the core. Quoted (L1).
    line_core = 5;
    /// A cache line from a thread that shares the L2 but not the core. Quoted (L2), and the tag look-up on the way.
    line_l2 = 20;
    /// A modified cache line from another core of the last-level cache. Quoted (L3), c2c.
    line_llc = 50;
    /// A modified cache line from another last-level cache of the node. C2c.
    line_node = 110;
    /// A modified cache line from another node. C2c.
    line_remote = 210;
    /// A cache line from memory. Quoted.
    line_memory = 120;
    /// By how much a thread slows down, in 1/1024, while its SMT sibling runs: two siblings together do 1.25 times the
    /// work of one. Assumed; usual figures are 1.2 to 1.3.
    smt_slowdown = 1638;
    /// Memory bandwidth of a node, bytes per 1024 ns. 12 channels of DDR5-4800 give 460 bytes/ns; streams reach
    /// three quarters. Assumed for machines other than the EPYC 9654.
    node_bandwidth = 358_400;
    /// Memory bandwidth of one thread, bytes per 1024 ns: 20 bytes/ns. Assumed.
    thread_bandwidth = 20_480;

    /// Bandwidth of one thread out of its last-level cache, bytes per 1024 ns: 40 bytes/ns. Assumed.
    cache_bandwidth = 40_960;

    /// Lines that a task finds cold after it ran elsewhere: its stack, its data, what it reads often. Assumed: 3 KiB.
    cold_lines = 48;
    /// How many of these are on their way at the same time. Assumed.
    cold_overlap = 4;

    /// Handing a contended lock to the next of its waiters, beside the transfer of its line, for each waiter beyond the
    /// first: they all read the word, or their own node of a queue, and are served by the same cache. Assumed.
    lock_waiter = 12;

    /// Switching from one task of the runtime to another: state word, bookkeeping, return. Assumed, with what a small
    /// poll takes besides; `calibrate` has a bare yield.
    poll = 40;
    /// Pushing to or taking from the own slot or deque. Assumed: one locked operation, or some loads and stores.
    local_queue = 8;
    /// What a critical section of a group's queue takes. Assumed: a few instructions on lines that its lock brings
    /// along.
    group_hold = 20;
    /// Looking at one queue of somebody else, beside the transfer of its line. Assumed.
    search_step = 3;
    /// The lock-free steps of a channel operation between tasks of the runtime, beside the transfer of lines. Assumed,
    /// with the entry of a waiter; `calibrate` has one where nobody waits.
    channel_op = 40;
    /// The system call of who wakes a parked worker. Assumed (futex wake with a thread to wake; 1 to 2 us).
    unpark_call = 1_500;
    /// From there to the first instruction of the parked worker: interrupt, exit from a light idle state, switch.
    /// Assumed for bare metal; tens of microseconds on virtual machines.
    parked_latency = 4_000;
    /// The system call of who parks. Assumed.
    park_call = 1_000;

    /// Writing 100 bytes into a pipe, beside lock and lines: entry, checks, copy, exit. Calibrated: with it and the
    /// next, 384 threads pass about 180 messages a us in units of one CPU, where 6.1e9 in 33 s (185 a us) were
    /// published.
    pipe_write = 480;
    /// Reading them. Calibrated, as above.
    pipe_read = 440;
    /// What of either is spent under the pipe's lock. Assumed.
    pipe_hold = 120;
    /// Waiting for a pipe's mutex in sight of its holder, at most; then the waiter sleeps, and the holder wakes it. The
    /// kernel's limit is no time but its holder's or its own need to be rescheduled. Calibrated: 0.07 switches a
    /// message were published (445M of 6.1e9 messages), and 0.06 are seen.
    pipe_spin = 300;
    /// Lines of a pipe or channel that every operation writes: lock and heads. Assumed.
    channel_lines = 2;

    /// A context switch of the kernel, without refilling caches. Assumed (1 to 1.5 us with mitigations).
    kernel_switch = 1_200;
    /// Work under a run queue's lock to enqueue or dequeue a task, all lines at hand. Assumed.
    queue_hold = 250;
    /// Lines of a run queue that an enqueue writes, which a waker elsewhere must fetch while it holds the lock.
    /// Calibrated with `contended_add`: a wake-up in a far queue is dear because of both, and the curve of row A bends
    /// where the one makes waiting for the other longer.
    queue_lines = 38;
    /// An atomic addition to a line that all CPUs add to. Calibrated; about a transfer between nodes.
    contended_add = 170;
    /// Looking at one CPU in a search for an idle one, beside the transfer of its line, if it has changed. Assumed.
    scan_step = 8;
    /// Sending an interrupt to another CPU. Assumed (0.3 to 1 us).
    interrupt_send = 300;
    /// Being interrupted by another CPU while a task runs, without what is then done. Assumed.
    interrupt_handle = 500;
    /// From the interrupt to the first instruction of the idle CPU's handler, out of a light idle state. Assumed.
    interrupt_latency = 1_200;
    /// Going idle and coming back: timers, accounting. Assumed.
    idle_enter = 600;
    /// Choosing whether and where to pull a task before going idle, without looking. Assumed.
    newidle_base = 500;
}

/// What a cost may be at most: ten milliseconds, or as many lines. The product of two costs, as of a line and how many
/// there are, is a day: of those a hundred thousand can be added up.
const COST_MAX: u64 = 10_000_000;

/// What a cost must be at least.
///
/// Time goes on if it takes some to begin a task and to touch a line. The shipped model pays `poll` whenever a task
/// begins. The kernel model takes a lock then, whose line comes from some distance. What a task does without end (a
/// message, a wake-up, a look at memory) and what a worker without one does (a search, an announcement) touch lines or
/// kibibytes. Siblings that made each other faster could make up for all of it.
fn least(name: &str) -> u64 {
    match name {
        "poll" | "line_same" | "line_core" | "line_l2" | "line_llc" | "line_node" | "line_remote" => 1,
        // These are divided by.
        "node_bandwidth" | "thread_bandwidth" | "cache_bandwidth" | "cold_overlap" => 1,
        "smt_slowdown" => 1024,
        _ => 0,
    }
}

impl Cost {
    /// Whether every cost is in the range that is named above: 10,000,000 at most, and what keeps time going at least.
    ///
    /// # Errors
    /// One line: the first that is not, and what was expected.
    ///
    /// ```
    /// use quadrille_sim::Cost;
    ///
    /// let stands_still = Cost { poll: 0, ..Cost::default() };
    /// assert_eq!(stands_still.validate().unwrap_err().to_string(), "poll=0: expected at least 1");
    /// ```
    pub fn validate(&self) -> Result<(), CostError> {
        for (name, value) in self.iter() {
            if value > COST_MAX {
                return Err(CostError(format!("{name}={value}: expected at most {COST_MAX}")));
            }
            if value < least(name) {
                return Err(CostError(format!("{name}={value}: expected at least {}", least(name))));
            }
        }
        Ok(())
    }

    /// Moving one modified cache line over a distance.
    #[inline]
    #[must_use]
    pub fn line(&self, distance: Distance) -> Nanos {
        Nanos(match distance {
            Distance::Same => self.line_same,
            Distance::Core => self.line_core,
            Distance::Group => self.line_l2,
            Distance::Llc => self.line_llc,
            Distance::Node => self.line_node,
            Distance::Remote => self.line_remote,
        })
    }

    /// Refilling a task's working set after it moved over a distance.
    #[inline]
    #[must_use]
    pub fn refill(&self, distance: Distance) -> Nanos {
        match distance {
            // Siblings share all that is refilled.
            Distance::Same | Distance::Core => Nanos(0),
            _ => Nanos(self.line(distance).0 * self.cold_lines / self.cold_overlap.max(1)),
        }
    }
}

impl FromStr for Cost {
    type Err = CostError;

    fn from_str(text: &str) -> Result<Self, CostError> {
        let mut cost = Self::default();
        for item in text
            .split(',')
            .map(str::trim)
            .filter(|item| !matches!(*item, "" | "default"))
        {
            let (name, value) = item
                .split_once('=')
                .ok_or_else(|| CostError(format!("`{item}`: expected name=nanoseconds")))?;
            let value = value
                .parse()
                .map_err(|_| CostError(format!("{name}={value}: expected a whole number of nanoseconds")))?;
            if !cost.set(name, value) {
                let names: Vec<_> = cost.iter().map(|(name, _)| name).collect();
                return Err(CostError(format!(
                    "cost `{name}`: expected one of {}",
                    names.join(", ")
                )));
            }
        }
        cost.validate()?;
        Ok(cost)
    }
}

impl fmt::Display for Cost {
    /// What differs from the defaults, `default` if nothing does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for ((name, value), (_, default)) in self.iter().zip(Self::default().iter()) {
            if value != default {
                write!(f, "{separator}{name}={value}")?;
                separator = ",";
            }
        }
        if separator.is_empty() {
            f.write_str("default")?;
        }
        Ok(())
    }
}

/// A text that names no costs; says which word and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostError(String);

impl fmt::Display for CostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CostError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn farther_is_dearer() {
        let cost = Cost::default();
        for near_and_far in Distance::ALL.windows(2) {
            assert!(cost.line(near_and_far[0]) < cost.line(near_and_far[1]));
            assert!(cost.refill(near_and_far[0]) <= cost.refill(near_and_far[1]));
        }
    }

    #[test]
    fn the_greatest_costs_can_be_reckoned_with() {
        let cost: Cost = "line_remote=10000000,cold_lines=10000000,cold_overlap=1"
            .parse()
            .unwrap();
        assert_eq!(cost.refill(Distance::Remote), Nanos(COST_MAX * COST_MAX));
    }

    /// Every cost at its least, and bandwidths at their most.
    fn cheapest() -> Cost {
        let costs = Cost::default();
        let texts = costs.iter().map(|(name, _)| {
            let is_rate = name.ends_with("_bandwidth");
            format!("{name}={}", if is_rate { COST_MAX } else { least(name) })
        });
        texts.collect::<Vec<_>>().join(",").parse().unwrap()
    }

    #[test]
    fn time_goes_on_where_everything_costs_as_little_as_it_may() {
        use crate::{Config, Machine, Model, Simulation, parse_workload};

        for model in [
            "shipped",
            "shipped-scan",
            "kernel",
            "kernel-fits-previous",
            "kernel-prop",
        ] {
            for workload in [
                "hackbench:g=1,f=1",
                "hackbench:g=2,f=3,via=pipe",
                "schbench:t=3,sleep=0,compute=0,footprint=0",
                "old-schbench:m=2,t=2,spin=0,sleep=0",
                "rpc:pairs=2,think=0,work=0",
                "stream:t=2",
                "sharing:t=3",
            ] {
                for machine in ["core:1", "core:2", "node:2 llc:2 l2:2 core:1 pu:2"] {
                    let (model, machine): (Model, Machine) = (model.parse().unwrap(), machine.parse().unwrap());
                    let workload = parse_workload(workload).unwrap();
                    let simulation = Simulation::new(machine, cheapest(), Config::default(), model, workload, 1);
                    assert_eq!(simulation.unwrap().run(Nanos::from_micros(5)).stalled, 0);
                }
            }
        }
    }

    #[test]
    fn texts_that_are_none_are_answered_in_one_line() {
        for (text, expected) in [
            ("poll", "name=nanoseconds"),
            ("poll=-1", "whole number"),
            ("pol=1", "line_same, "),
            ("poll=10000001", "poll=10000001: expected at most 10000000"),
            ("poll=0", "poll=0: expected at least 1"),
            ("line_same=0", "line_same=0: expected at least 1"),
            ("line_remote=0", "line_remote=0: expected at least 1"),
            ("smt_slowdown=0", "smt_slowdown=0: expected at least 1024"),
            ("smt_slowdown=1023", "smt_slowdown=1023: expected at least 1024"),
            ("node_bandwidth=0", "node_bandwidth=0: expected at least 1"),
            ("cold_overlap=0", "cold_overlap=0: expected at least 1"),
            (
                "cold_lines=18446744073709551615",
                "cold_lines=18446744073709551615: expected at most 10000000",
            ),
        ] {
            let message = text.parse::<Cost>().unwrap_err().to_string();
            assert!(message.contains(expected) && !message.contains('\n'), "{message}");
        }
        assert_eq!("".parse(), Ok(Cost::default()));
        assert_eq!("default".parse(), Ok(Cost::default()));
        assert_eq!(Cost::default().to_string(), "default");
    }
}
