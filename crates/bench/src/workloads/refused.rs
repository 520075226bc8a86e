//! Wrong results: the check of a workload refuses them and says what is wrong.
//!
//! Here are those whose check is about one number. The others are beside their workloads; runs on a runtime that gives
//! wrong results are in `tests/workloads/faults.rs`.

use std::iter::repeat_n;
use std::time::Instant;

use super::samples::Samples;
use super::{chain, fib, load, ping_pong, schbench, skynet, spawn_join, spawn_remote, timers};
use crate::outcome::{Measured, Stop};

/// A check.
struct Check {
    /// Of which workload, and of what.
    name: &'static str,
    /// What it says about a number.
    check: fn(usize) -> Result<(), Stop>,
    /// The number that it accepts.
    right: usize,
    /// Numbers that it refuses.
    wrong: &'static [usize],
    /// What it says about those, `#` in place of the number.
    complaint: &'static str,
}

/// A run of so many operations, of which nothing else is known.
fn run_of(ops: u64) -> Measured {
    Measured {
        ops,
        ..Measured::default()
    }
}

/// schbench with so many wake-ups of 20.
fn wake_ups(count: usize) -> Result<(), Stop> {
    let mut latencies = schbench::Latencies::with_capacity(count);
    for _ in 0..count {
        latencies.add(Instant::now().into());
    }
    latencies.finish(run_of(20)).map(drop)
}

/// timers with so many sleeps of 20, some of them early.
fn sleeps(count: usize, early: usize) -> Result<(), Stop> {
    timers::judge(Samples::from_nanos(vec![1; count]), early, run_of(20)).map(drop)
}

const CHECKS: [Check; 11] = [
    Check {
        name: "spawn_join, block_on and blocking: results",
        check: |sum| spawn_join::check(sum as u64, 3, 10),
        right: 135,
        wrong: &[0, 45, 134, 136],
        complaint: "the tasks' results sum up to #, not 135",
    },
    Check {
        name: "spawn_remote: tasks",
        check: |ran| spawn_remote::check(ran, 20),
        right: 20,
        wrong: &[19, 21],
        complaint: "# tasks ran, 20 were spawned",
    },
    Check {
        name: "chain: links",
        check: |links| chain::check(links as u64, 50),
        right: 50,
        wrong: &[0, 49, 51],
        complaint: "# links ran, 50 were asked for",
    },
    Check {
        name: "fib: numbers",
        check: |sum| fib::check(sum as u64, 10, 2),
        right: 110,
        wrong: &[55, 109, 111],
        complaint: "the numbers sum up to #, not 110",
    },
    Check {
        name: "skynet: leaves",
        check: |sum| skynet::check(sum as u64, 100),
        right: 4950,
        wrong: &[4949, 5050],
        complaint: "the leaves sum up to #, not 4950",
    },
    Check {
        name: "ping_pong and pipe: an answer",
        check: |answer| ping_pong::check(6, Some(answer as u64)).map(drop),
        right: 7,
        wrong: &[6, 8],
        complaint: "round trip 6 answered Some(#)",
    },
    Check {
        name: "timers: sleeps",
        check: |count| sleeps(count, 0),
        right: 20,
        wrong: &[0, 19, 21],
        complaint: "# sleeps of 20, 0 of them early",
    },
    Check {
        name: "timers: early sleeps",
        check: |early| sleeps(20, early),
        right: 0,
        wrong: &[1, 20],
        complaint: "20 sleeps of 20, # of them early",
    },
    Check {
        name: "timeout_drop: timers that fired",
        check: |fired| timers::none_fired(fired, 100),
        right: 0,
        wrong: &[1, 100],
        complaint: "# of 100 timers fired ten seconds early",
    },
    Check {
        name: "schbench: wake-ups",
        check: wake_ups,
        right: 20,
        wrong: &[0, 19, 21],
        complaint: "# wake-ups, 20 expected",
    },
    Check {
        name: "load: requests that ran, of three",
        check: |ran| {
            let latencies = repeat_n(200, ran).chain(repeat_n(0, 3 - ran));
            load::judge(latencies, run_of(3)).map(drop)
        },
        right: 3,
        wrong: &[0, 2],
        complaint: "a request was counted twice and another never ran",
    },
];

#[test]
fn a_wrong_number_is_refused_and_named() {
    for Check {
        name,
        check,
        right,
        wrong,
        complaint,
    } in CHECKS
    {
        assert_eq!(check(right), Ok(()), "{name}");
        for &wrong in wrong {
            let expected = complaint.replace('#', &wrong.to_string());
            assert_eq!(check(wrong), Err(Stop::Failed(expected)), "{name}");
        }
    }
}

#[test]
fn a_partner_that_says_nothing_is_refused() {
    assert_eq!(
        ping_pong::check(3, None),
        Err(Stop::failed("round trip 3 answered None"))
    );
    assert_eq!(
        ping_pong::left_early(3),
        Stop::failed("the asker left after 3 round trips")
    );
}
