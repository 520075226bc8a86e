//! What a description must keep to before it is run. Those of `compare` do by themselves, but for what workers make of
//! a rate; one that is typed by hand may ask for a tree that never ends, or for a part of nothing.

use std::time::Duration;

use super::{Hackbench, Schbench, SchbenchRequests, Serve, Service, Spec, Transport, Workload};
use crate::sizes::CHANNEL_SIZES;
use crate::workloads::broadcast::BATCH_MAX;
use crate::workloads::load::gap;

/// The most tasks at a time, of hackbench, of others that make them all at once, and of a batch.
const TASKS_MAX: usize = 1 << 20;

/// The most tasks one after another whose results, their numbers, are added up in 64 bits.
const RESULTS_MAX: usize = 1 << 32;

/// The most connections at a time: as many files as Linux lets a process open unless told otherwise (fs.nr_open).
pub(crate) const CONNECTIONS_MAX: usize = 1 << 20;

/// The most memory that the channels of hackbench may need, in bytes.
const CHANNEL_BYTES_MAX: usize = 8 << 30;

/// The most elements of an array of `stream`: its three take 24 GiB then.
const ELEMENTS_MAX: usize = 1 << 30;

/// Operations are counted in floating-point numbers, too, which have 53 bits for it.
const OPERATIONS_MAX: usize = 1 << 53;

/// The longest time, in microseconds: an hour.
const MICROS_MAX: u64 = 3_600_000_000;

/// Requests of a schedule: it is made before the first one, and each keeps its latency.
const REQUESTS_MAX: u128 = 10_000_000;

/// The least time between requests of a schedule, on average: less than it takes to spawn one, so nobody keeps to it.
const GAP_MIN: Duration = Duration::from_nanos(100);

/// The largest Fibonacci number whose calls can be counted, and waited for.
const FIBONACCI_MAX: usize = 50;

/// What a buffer of an echo server takes.
const ECHO_BYTES_MAX: usize = 4096;

/// Requests a second that one generator can send, and more.
const RATE_MAX: u32 = 1_000_000;

type Checked = Result<(), String>;

impl Spec {
    /// Checks what its types cannot.
    ///
    /// # Errors
    /// One line: what the parameter is, and what was expected.
    pub fn check(&self) -> Checked {
        counts(&[("workers", self.workers)])?;
        self.runtime.check_workers(self.workers)?;
        match self.workload {
            Workload::Load {
                percent,
                work_us,
                millis,
            } => check_load(self.workers, percent, work_us, millis),
            workload => workload.check(),
        }
    }
}

impl Workload {
    fn check(self) -> Checked {
        match self {
            Self::Hackbench(params) => params.check(),
            Self::SpawnJoin { tasks, batch } | Self::SpawnRemote { tasks, batch } => {
                within("tasks", tasks, RESULTS_MAX)?;
                within("batch", batch, TASKS_MAX)
            }
            Self::BlockOn { tasks } => within("tasks", tasks, RESULTS_MAX),
            Self::Blocking { tasks, jobs } => {
                within("tasks", tasks, TASKS_MAX)?;
                product(&[("tasks", tasks), ("jobs", jobs)])
            }
            Self::Broadcast {
                receivers,
                messages,
                batch,
            } => {
                let expected = format!("1 to {BATCH_MAX}");
                expect((1..=BATCH_MAX).contains(&batch), "batch", batch, &expected)?;
                within("receivers", receivers, TASKS_MAX)?;
                product(&[("receivers", receivers), ("messages", messages)])
            }
            Self::Yield { tasks, yields, rounds } => {
                within("tasks", tasks, TASKS_MAX)?;
                product(&[("tasks", tasks), ("yields", yields), ("rounds", rounds)])
            }
            Self::PingPong { pairs, round_trips } => {
                product(&[("pairs", pairs), ("round_trips", round_trips)])?;
                check_pairs(pairs, 0)
            }
            Self::Skynet { leaves } => {
                let is_tree = (0..=9).any(|power| leaves == 10_usize.pow(power));
                expect(is_tree, "leaves", leaves, "a power of ten up to 1000000000")
            }
            Self::Sleepers { threads } => within("threads", threads, TASKS_MAX),
            Self::Chain { depth, rounds } => product(&[("depth", depth), ("rounds", rounds)]),
            Self::Fib { number, rounds } => {
                let expected = format!("1 to {FIBONACCI_MAX}");
                expect((1..=FIBONACCI_MAX).contains(&number), "number", number, &expected)?;
                product(&[("rounds", rounds)])
            }
            Self::Pipe { round_trips } => product(&[("round_trips", round_trips)]),
            Self::Numa { turns } => product(&[("turns", turns)]),
            Self::Stream { elements, passes } => {
                within("elements", elements, ELEMENTS_MAX)?;
                product(&[("elements", elements), ("passes", passes)])
            }
            other => other.check_waits(),
        }
    }

    /// [`Workload::check`] for those that wait.
    fn check_waits(self) -> Checked {
        match self {
            Self::Spin {
                spin_us,
                woken,
                yielders,
            } => {
                within("woken and yielders together", woken.saturating_add(yielders), TASKS_MAX)?;
                micros(&[("spin_us", spin_us)])
            }
            Self::Closed {
                tasks, work_us, turns, ..
            } => {
                micros(&[("work_us", work_us)])?;
                within("tasks", tasks, TASKS_MAX)?;
                product(&[("tasks", tasks), ("turns", turns)])
            }
            Self::Timers {
                tasks,
                sleeps,
                from_us,
                to_us,
            } => {
                micros(&[("to_us", to_us)])?;
                let expected = format!("at most to_us, which is {to_us}");
                expect(from_us <= to_us, "from_us", from_us, &expected)?;
                within("tasks", tasks, TASKS_MAX)?;
                product(&[("tasks", tasks), ("sleeps", sleeps)])
            }
            Self::TimeoutDrop { timers } => product(&[("timers", timers)]),
            Self::Schbench(params) => params.check(),
            Self::SchbenchRequests(params) => params.check(),
            Self::Mixed {
                pairs,
                round_trips,
                heavy,
                piece_us,
            } => {
                micros(&[("piece_us", piece_us)])?;
                product(&[("pairs", pairs), ("round_trips", round_trips)])?;
                check_pairs(pairs, heavy)
            }
            Self::Serve(params) => params.check(),
            Self::Idle { connections, millis } => {
                within("connections", connections, CONNECTIONS_MAX)?;
                check_millis(millis)
            }
            _ => Ok(()),
        }
    }
}

impl Hackbench {
    /// Checks what its types cannot.
    ///
    /// # Errors
    /// One line about what cannot be run.
    pub fn check(&self) -> Checked {
        let Self {
            groups,
            fds,
            loops,
            size,
            capacity,
            transport,
        } = *self;
        counts(&[
            ("groups", groups),
            ("fds", fds),
            ("loops", loops),
            ("size", size),
            ("capacity", capacity),
        ])?;
        if transport == Transport::Channel && !CHANNEL_SIZES.contains(&size) {
            return Err(format!(
                "messages over channels have 4, 16, 64, 100, 256, 1024 or 4096 bytes, not {size}"
            ));
        }
        let receivers = groups.checked_mul(fds).filter(|receivers| *receivers <= TASKS_MAX / 2);
        let Some(receivers) = receivers else {
            return Err(format!(
                "{groups} groups of {fds} senders and receivers are more than {TASKS_MAX} tasks"
            ));
        };
        let messages = receivers.checked_mul(fds).and_then(|pairs| pairs.checked_mul(loops));
        if messages.is_none_or(|all| all >= OPERATIONS_MAX) {
            return Err(format!(
                "{groups} groups x {fds} x {fds} x {loops} loops are more messages than can be counted"
            ));
        }
        let bytes = receivers
            .checked_mul(capacity)
            .and_then(|messages| messages.checked_mul(size));
        if transport == Transport::Channel && bytes.is_none_or(|bytes| bytes > CHANNEL_BYTES_MAX) {
            return Err(format!(
                "{receivers} channels of {capacity} messages of {size} bytes are more than 8 GiB"
            ));
        }
        Ok(())
    }
}

impl Schbench {
    fn check(&self) -> Checked {
        micros(&[("work_us", self.work_us), ("tick_us", self.tick_us)])?;
        product(&[
            ("messengers", self.messengers),
            ("workers", self.workers),
            ("rounds", self.rounds),
        ])
    }
}

impl SchbenchRequests {
    fn check(&self) -> Checked {
        micros(&[("sleep_us", self.sleep_us)])?;
        let expected = format!("at most {}", CHANNEL_BYTES_MAX >> 10);
        expect(self.kib <= CHANNEL_BYTES_MAX >> 10, "kib", self.kib, &expected)?;
        counts(&[("kib", self.kib), ("operations", self.operations)])?;
        product(&[("requests", self.requests)])
    }
}

impl Serve {
    fn check(&self) -> Checked {
        within("connections", self.connections, CONNECTIONS_MAX)?;
        if matches!(self.service, Service::TcpEcho | Service::UdpEcho) {
            let expected = format!("1 to {ECHO_BYTES_MAX}");
            expect((1..=ECHO_BYTES_MAX).contains(&self.size), "size", self.size, &expected)?;
        }
        expect(self.rate <= RATE_MAX, "rate", self.rate, &format!("at most {RATE_MAX}"))?;
        check_millis(self.millis)
    }
}

fn check_load(workers: usize, percent: u32, work_us: u64, millis: u64) -> Checked {
    expect(percent > 0, "percent", percent, "at least 1")?;
    expect(work_us > 0, "work_us", work_us, "at least 1")?;
    micros(&[("work_us", work_us)])?;
    check_millis(millis)?;
    let work_done_us = u128::from(millis) * 1000 * workers as u128 * u128::from(percent) / 100;
    let requests = work_done_us / u128::from(work_us);
    if requests > REQUESTS_MAX {
        return Err(format!(
            "{percent} % of what {workers} workers can do with {work_us} us of work each are {requests} requests in {millis} ms, \
             expected at most {REQUESTS_MAX}"
        ));
    }
    let gap = gap(workers, percent, Duration::from_micros(work_us));
    if gap < GAP_MIN {
        return Err(format!(
            "{percent} % of what {workers} workers can do with {work_us} us of work each are requests {} ns apart, expected at least {}",
            gap.as_nanos(),
            GAP_MIN.as_nanos()
        ));
    }
    Ok(())
}

/// Two tasks a pair, and those beside them.
fn check_pairs(pairs: usize, heavy: usize) -> Checked {
    let tasks = pairs.checked_mul(2).and_then(|tasks| tasks.checked_add(heavy));
    if tasks.is_some_and(|tasks| tasks <= TASKS_MAX) {
        return Ok(());
    }
    let beside = match heavy {
        0 => String::new(),
        heavy => format!(" and {heavy} heavy ones"),
    };
    Err(format!(
        "{pairs} pairs of tasks{beside} are more than {TASKS_MAX} tasks"
    ))
}

fn check_millis(millis: u64) -> Checked {
    let max = MICROS_MAX / 1000;
    expect((1..=max).contains(&millis), "millis", millis, &format!("1 to {max}"))
}

/// Names and values, in a list that an error can be made of.
type Named<'a, T> = &'a [(&'a str, T)];

/// Numbers that may not be 0.
fn counts(values: Named<'_, usize>) -> Checked {
    values
        .iter()
        .try_for_each(|&(name, value)| expect(value > 0, name, value, "at least 1"))
}

/// A number that may not be 0.
fn within(name: &str, value: usize, max: usize) -> Checked {
    counts(&[(name, value)])?;
    expect(value <= max, name, value, &format!("at most {max}"))
}

/// Numbers that may not be 0, and of which the product is the number of operations.
fn product(values: Named<'_, usize>) -> Checked {
    counts(values)?;
    let product = values
        .iter()
        .try_fold(1_usize, |all, (_, value)| all.checked_mul(*value));
    if product.is_some_and(|all| all < OPERATIONS_MAX) {
        return Ok(());
    }
    let factors: Vec<String> = values.iter().map(|(name, value)| format!("{value} {name}")).collect();
    Err(format!(
        "{} are more operations than can be counted",
        factors.join(" x ")
    ))
}

/// Times that may be 0.
fn micros(values: Named<'_, u64>) -> Checked {
    let expected = format!("at most {MICROS_MAX}");
    values
        .iter()
        .try_for_each(|&(name, value)| expect(value <= MICROS_MAX, name, value, &expected))
}

fn expect(holds: bool, name: &str, value: impl std::fmt::Display, expected: &str) -> Checked {
    if holds {
        Ok(())
    } else {
        Err(format!("{name} is {value}, expected {expected}"))
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;
    use crate::catalogue::{WorkloadName, rows};
    use crate::spec::{Contender, RuntimeName};

    fn check(workload: &str, expected: &str) {
        let json = format!(r#"{{"workload":{workload},"runtime":"tokio","channel":"none","workers":300000}}"#);
        let spec: Spec = serde_json::from_str(&json).unwrap();
        let message = spec.check().expect_err(workload);
        assert!(message.contains(expected), "{workload}: {message}");
        assert!(!message.contains('\n'), "{message}");
    }

    #[test]
    fn what_cannot_be_run_is_named_with_its_value_and_what_was_expected() {
        for (workload, expected) in [
            (
                r#"{"name":"skynet","leaves":5}"#,
                "leaves is 5, expected a power of ten",
            ),
            (r#"{"name":"skynet","leaves":0}"#, "leaves is 0"),
            (
                r#"{"name":"spawn_join","tasks":5,"batch":0}"#,
                "batch is 0, expected at least 1",
            ),
            (r#"{"name":"spawn_remote","tasks":0,"batch":1}"#, "tasks is 0"),
            (r#"{"name":"chain","depth":0,"rounds":1}"#, "depth is 0"),
            (
                r#"{"name":"fib","number":93,"rounds":1}"#,
                "number is 93, expected 1 to 50",
            ),
            (r#"{"name":"numa","turns":0}"#, "turns is 0"),
            (r#"{"name":"stream","elements":0,"passes":1}"#, "elements is 0"),
            (
                r#"{"name":"ping_pong","pairs":4294967296,"round_trips":4294967296}"#,
                "4294967296 pairs x 4294967296 round_trips are more operations",
            ),
            (
                r#"{"name":"timers","tasks":1,"sleeps":1,"from_us":9,"to_us":8}"#,
                "from_us is 9, expected at most to_us, which is 8",
            ),
            (
                r#"{"name":"timers","tasks":1,"sleeps":1,"from_us":0,"to_us":18446744073709551615}"#,
                "to_us is 18446744073709551615, expected at most 3600000000",
            ),
            (
                r#"{"name":"load","percent":0,"work_us":200,"millis":1}"#,
                "percent is 0, expected at least 1",
            ),
            (
                r#"{"name":"load","percent":10,"work_us":200,"millis":2000}"#,
                "10 % of what 300000 workers can do with 200 us of work each are 300000000 requests in 2000 ms",
            ),
            (
                r#"{"name":"spin","spin_us":1,"woken":0,"yielders":0}"#,
                "woken and yielders together is 0",
            ),
            (
                r#"{"name":"schbench_requests","sleep_us":1,"kib":0,"operations":1,"requests":1}"#,
                "kib is 0",
            ),
            (
                r#"{"name":"serve","service":"tcp_echo","connections":1,"size":4097,"rate":0,"spinner":false,"millis":1}"#,
                "size is 4097, expected 1 to 4096",
            ),
            (
                r#"{"name":"serve","service":"http","connections":1,"size":0,"rate":2000000,"spinner":false,"millis":1}"#,
                "rate is 2000000, expected at most 1000000",
            ),
            (
                r#"{"name":"hackbench","groups":1,"fds":1,"loops":1,"size":4,"capacity":0,"transport":"channel"}"#,
                "capacity is 0",
            ),
        ] {
            check(workload, expected);
        }
    }

    #[test]
    fn what_would_wrap_or_cannot_be_held_is_refused() {
        for (workload, expected) in [
            (
                r#"{"name":"sleepers","threads":1000000000000}"#,
                "threads is 1000000000000, expected at most 1048576",
            ),
            (
                r#"{"name":"yield","tasks":1000000000000,"yields":1,"rounds":1}"#,
                "tasks is 1000000000000, expected at most 1048576",
            ),
            (
                r#"{"name":"stream","elements":1000000000000,"passes":1}"#,
                "elements is 1000000000000, expected at most 1073741824",
            ),
            (
                r#"{"name":"spawn_join","tasks":1,"batch":18446744073709551615}"#,
                "batch is 18446744073709551615, expected at most 1048576",
            ),
            (
                r#"{"name":"spawn_remote","tasks":18446744073709551615,"batch":1}"#,
                "tasks is 18446744073709551615, expected at most 4294967296",
            ),
            (
                r#"{"name":"block_on","tasks":4294967297}"#,
                "tasks is 4294967297, expected at most 4294967296",
            ),
            (
                r#"{"name":"ping_pong","pairs":524289,"round_trips":1}"#,
                "524289 pairs of tasks are more than 1048576 tasks",
            ),
            (
                r#"{"name":"mixed","pairs":16,"round_trips":1,"heavy":18446744073709551600,"piece_us":1}"#,
                "16 pairs of tasks and 18446744073709551600 heavy ones are more than 1048576 tasks",
            ),
            (
                r#"{"name":"idle","connections":18446744073709551615,"millis":1}"#,
                "connections is 18446744073709551615, expected at most 1048576",
            ),
            (
                r#"{"name":"serve","service":"http","connections":1048577,"size":0,"rate":0,"spinner":false,"millis":1}"#,
                "connections is 1048577, expected at most 1048576",
            ),
        ] {
            check(workload, expected);
        }
    }

    #[test]
    fn requests_come_one_after_another() {
        let load = |percent: u32| {
            let json = format!(
                r#"{{"workload":{{"name":"load","percent":{percent},"work_us":1,"millis":1}},"runtime":"tokio","channel":"none","workers":1}}"#
            );
            serde_json::from_str::<Spec>(&json).unwrap().check()
        };
        for (percent, apart) in [(1_000_000, 0), (1001, 99)] {
            let expected = format!(
                "{percent} % of what 1 workers can do with 1 us of work each are requests {apart} ns apart, expected at least 100"
            );
            assert_eq!(load(percent), Err(expected));
        }
        assert_eq!(load(1000), Ok(()));
    }

    #[test]
    fn nobody_works_for_no_workers() {
        let json = r#"{"workload":{"name":"numa","turns":1},"runtime":"tokio","channel":"none","workers":0}"#;
        let spec: Spec = serde_json::from_str(json).unwrap();
        assert_eq!(spec.check(), Err("workers is 0, expected at least 1".to_owned()));
    }

    #[test]
    fn a_run_has_no_more_workers_than_quadrille_takes() {
        let json = r#"{"workload":{"name":"numa","turns":1},"runtime":"quadrille","channel":"none","workers":4097}"#;
        let spec: Spec = serde_json::from_str(json).unwrap();
        let expected = "workers is 4097, expected 1 to 4096 for `quadrille`";
        assert_eq!(spec.check(), Err(expected.to_owned()));
    }

    #[test]
    fn every_row_of_a_comparison_can_be_run_and_so_can_its_warm_up() {
        let names = [RuntimeName::Quadrille, RuntimeName::Threads, RuntimeName::May].map(Contender::new);
        for name in WorkloadName::value_variants() {
            for workload in name.workloads() {
                let specs = [false, true].map(|quick| rows(workload, name.body(), &names, 256, quick));
                for spec in specs.iter().flatten() {
                    assert_eq!(spec.check(), Ok(()), "{spec:?}");
                    let workload = spec.workload.warm_up().unwrap_or(spec.workload);
                    assert_eq!(
                        Spec {
                            workload,
                            ..spec.clone()
                        }
                        .check(),
                        Ok(()),
                        "{spec:?}"
                    );
                }
            }
        }
    }
}
