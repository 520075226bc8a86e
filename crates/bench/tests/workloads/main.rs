//! Every workload, tiny, on every runtime of this process: it ends, and its own verification agrees.

mod broken;
mod faults;

use quadrille_bench::outcome::{Measured, Outcome};
use quadrille_bench::run_one;
use quadrille_bench::spec::{
    Body, ChannelKind, Hackbench, RuntimeName, Schbench, SchbenchRequests, Spec, Transport, Workload,
};

const RUNTIMES: [RuntimeName; 5] = [
    RuntimeName::Quadrille,
    RuntimeName::QuadrilleBaseline,
    RuntimeName::Tokio,
    RuntimeName::Smol,
    RuntimeName::Threads,
];

/// Those that have threads.
const WITH_THREADS: [RuntimeName; 4] = [
    RuntimeName::Quadrille,
    RuntimeName::QuadrilleBaseline,
    RuntimeName::May,
    RuntimeName::Threads,
];

fn hackbench(transport: Transport, capacity: usize, size: usize) -> Hackbench {
    Hackbench {
        groups: 2,
        fds: 3,
        loops: 40,
        size,
        capacity,
        transport,
    }
}

fn run(workload: Workload, runtime: RuntimeName, channel: ChannelKind) -> Outcome {
    run_one::run(&Spec {
        workload,
        body: Body::Tasks,
        runtime: runtime.into(),
        channel,
        workers: 2,
        progress: false,
    })
}

fn run_threads(workload: Workload, runtime: RuntimeName) -> Outcome {
    run_one::run(&Spec {
        workload,
        body: Body::Threads,
        runtime: runtime.into(),
        channel: ChannelKind::Own,
        workers: 2,
        progress: false,
    })
}

/// Runs the workload with threads on each runtime that has some.
fn check_threads(workload: Workload, runtimes: &[RuntimeName], ops: u64) -> Vec<Measured> {
    let mut all = Vec::new();
    for &runtime in runtimes {
        match run_threads(workload, runtime) {
            Outcome::Measured(measured) => {
                assert_eq!(measured.ops, ops, "{workload:?} on {}", runtime.name());
                assert!(measured.wall_ns > 0, "{workload:?} on {}", runtime.name());
                all.push(measured);
            }
            other => panic!("threads: {workload:?} on {}: {other:?}", runtime.name()),
        }
    }
    all
}

fn check(workload: Workload, ops: u64) {
    for runtime in RUNTIMES {
        for channel in [ChannelKind::Shared, ChannelKind::Own] {
            match run(workload, runtime, channel) {
                Outcome::Measured(measured) => {
                    assert_eq!(measured.ops, ops, "{workload:?} on {}", runtime.name());
                    assert!(measured.wall_ns > 0, "{workload:?} on {}", runtime.name());
                }
                other => panic!("{workload:?} on {} with {channel:?}: {other:?}", runtime.name()),
            }
        }
    }
}

#[test]
fn hackbench_by_channel() {
    for capacity in [1, 655] {
        check(Workload::Hackbench(hackbench(Transport::Channel, capacity, 100)), 720);
    }
}

#[test]
fn hackbench_by_stream() {
    for transport in [Transport::Pipe, Transport::Socket] {
        // 5000 bytes exceed what a pipe takes at once: writes are partial, and messages mix.
        for size in [1, 100, 5000] {
            for runtime in RUNTIMES {
                let workload = Workload::Hackbench(hackbench(transport, 1, size));
                match run(workload, runtime, ChannelKind::None) {
                    Outcome::Measured(measured) => assert_eq!(measured.ops, 720),
                    other => panic!("{workload:?} on {}: {other:?}", runtime.name()),
                }
            }
        }
    }
}

#[test]
fn spawn_join() {
    check(Workload::SpawnJoin { tasks: 100, batch: 10 }, 100);
}

#[test]
fn spawn_remote() {
    check(Workload::SpawnRemote { tasks: 100, batch: 10 }, 100);
    check(Workload::SpawnRemote { tasks: 20, batch: 1 }, 20);
}

#[test]
fn block_on() {
    check(Workload::BlockOn { tasks: 20 }, 20);
}

#[test]
fn blocking() {
    check(Workload::Blocking { tasks: 3, jobs: 20 }, 60);
}

#[test]
fn broadcast() {
    check(
        Workload::Broadcast {
            receivers: 5,
            messages: 2000,
            batch: 30,
        },
        10_000,
    );
}

#[test]
fn yields() {
    check(
        Workload::Yield {
            tasks: 10,
            yields: 20,
            rounds: 2,
        },
        400,
    );
}

#[test]
fn ping_pong() {
    check(
        Workload::PingPong {
            pairs: 1,
            round_trips: 50,
        },
        50,
    );
    check(
        Workload::PingPong {
            pairs: 20,
            round_trips: 10,
        },
        200,
    );
}

#[test]
fn skynet() {
    check(Workload::Skynet { leaves: 1 }, 1);
    check(Workload::Skynet { leaves: 100 }, 111);
}

#[test]
fn chains_and_fork_join() {
    check(Workload::Chain { depth: 10, rounds: 5 }, 50);
    check(Workload::Fib { number: 8, rounds: 2 }, 66);
}

#[test]
fn a_number_goes_through_two_pipes() {
    check(Workload::Pipe { round_trips: 50 }, 50);
}

#[test]
fn memory_is_moved_and_shared() {
    check(
        Workload::Stream {
            elements: 1000,
            passes: 3,
        },
        2 * 1000 * 3 * 80 / 64,
    );
    check(Workload::Numa { turns: 25_000 }, 100_000);
}

#[test]
fn sleeps_are_late_but_never_early() {
    let workload = Workload::Timers {
        tasks: 5,
        sleeps: 4,
        from_us: 100,
        to_us: 1000,
    };
    check_latencies(workload, 20);
    for runtime in RUNTIMES {
        match (
            runtime,
            run(Workload::TimeoutDrop { timers: 100 }, runtime, ChannelKind::None),
        ) {
            (RuntimeName::Threads, Outcome::Unsupported(reason)) => assert!(reason.contains("thread"), "{reason}"),
            (_, Outcome::Measured(measured)) => assert_eq!(measured.ops, 100),
            (_, other) => panic!("{}: {other:?}", runtime.name()),
        }
    }
}

fn schbench(tick_us: u64) -> Schbench {
    Schbench {
        messengers: 2,
        workers: 3,
        work_us: 5,
        tick_us,
        rounds: 10,
    }
}

/// Requests of two workers, 12 each.
const REQUESTS: Workload = Workload::SchbenchRequests(SchbenchRequests {
    sleep_us: 200,
    kib: 16,
    operations: 3,
    requests: 12,
});

/// A request sleeps first, so none is shorter than that.
fn check_requests(measured: &Measured) {
    let [p50, p99] = ["request_p50_ns", "request_p99_ns"].map(|name| measured.counters[name]);
    assert!(p50 >= 200_000 && p50 <= p99, "{measured:?}");
    assert!(measured.counters["p50_ns"] > 0, "{measured:?}");
}

#[test]
fn requests_are_served_and_have_latencies_of_their_own() {
    for runtime in RUNTIMES {
        match run(REQUESTS, runtime, ChannelKind::Own) {
            Outcome::Measured(measured) => {
                assert_eq!(measured.ops, 24, "{}", runtime.name());
                check_requests(&measured);
            }
            other => panic!("{}: {other:?}", runtime.name()),
        }
    }
    // Without may, whose heap is damaged in 1 of some 150 such runs of a debug build ("unaligned tcache chunk"): all
    // tests share this process.
    let without_may = WITH_THREADS.iter().copied().filter(|name| *name != RuntimeName::May);
    for measured in check_threads(REQUESTS, &without_may.collect::<Vec<_>>(), 24) {
        check_requests(&measured);
    }
}

#[test]
fn threads_are_woken_by_a_tick_and_in_a_closed_loop() {
    for tick_us in [0, 300] {
        for measured in check_threads(Workload::Schbench(schbench(tick_us)), &WITH_THREADS, 60) {
            check_dues(tick_us, &measured);
            let [p50, p999] = ["p50_ns", "p999_ns"].map(|name| measured.counters[name]);
            assert!(p50 > 0 && p50 <= p999, "{measured:?}");
        }
    }
}

#[test]
fn wake_ups_and_round_trips_have_latencies() {
    for tick_us in [0, 300] {
        for measured in check_latencies(Workload::Schbench(schbench(tick_us)), 60) {
            check_dues(tick_us, &measured);
        }
    }
    let workload = Workload::Mixed {
        pairs: 2,
        round_trips: 10,
        heavy: 2,
        piece_us: 20,
    };
    check_latencies(workload, 20);
    for measured in check_threads(workload, &WITH_THREADS, 20) {
        assert!(measured.counters["p50_ns"] > 0, "{measured:?}");
    }
}

#[test]
fn a_load_is_the_same_for_all() {
    let workload = Workload::Load {
        percent: 50,
        work_us: 100,
        millis: 50,
    };
    let requests = RUNTIMES.map(|runtime| match run(workload, runtime, ChannelKind::None) {
        Outcome::Measured(measured) => {
            assert!(
                measured.counters["p50_ns"] >= 100_000,
                "no request is faster than its work: {measured:?}"
            );
            measured.ops
        }
        other => panic!("{}: {other:?}", runtime.name()),
    });
    assert!(
        requests[0] > 300 && requests.iter().all(|&count| count == requests[0]),
        "{requests:?}"
    );
}

/// A messenger comes to a tick when it is due, or later; in the closed loop nothing is due.
fn check_dues(tick_us: u64, measured: &Measured) {
    let counter = |name| measured.counters.get(name).copied();
    let [p50, p99] = ["p50_ns", "p99_ns"].map(counter);
    let [due_p50, due_p99] = ["due_p50_ns", "due_p99_ns"].map(counter);
    if tick_us == 0 {
        assert_eq!((due_p50, due_p99), (None, None), "{measured:?}");
    } else {
        assert!(due_p50 > p50 && due_p99 > p99, "{measured:?}");
    }
}

/// Quantiles are there and in order, on each runtime; the runs.
fn check_latencies(workload: Workload, ops: u64) -> Vec<Measured> {
    let check = |runtime: RuntimeName| match run(workload, runtime, ChannelKind::Own) {
        Outcome::Measured(measured) => {
            let [p50, p99, p999] = ["p50_ns", "p99_ns", "p999_ns"].map(|name| measured.counters[name]);
            assert_eq!(measured.ops, ops, "{workload:?} on {}", runtime.name());
            assert!(p50 > 0 && p50 <= p99 && p99 <= p999, "{measured:?}");
            assert_eq!(measured.longest_wait_ns, Some(p999), "{measured:?}");
            measured
        }
        other => panic!("{workload:?} on {}: {other:?}", runtime.name()),
    };
    RUNTIMES.into_iter().map(check).collect()
}

#[test]
fn the_bare_work_gives_the_same_results() {
    for (workload, ops) in [
        (Workload::SpawnJoin { tasks: 100, batch: 10 }, 100),
        (Workload::SpawnRemote { tasks: 100, batch: 10 }, 100),
        (Workload::BlockOn { tasks: 30 }, 30),
        (Workload::Chain { depth: 10, rounds: 5 }, 50),
        (Workload::Fib { number: 8, rounds: 2 }, 66),
        (Workload::Skynet { leaves: 100 }, 111),
        (
            Workload::Yield {
                tasks: 10,
                yields: 20,
                rounds: 2,
            },
            400,
        ),
        (
            Workload::PingPong {
                pairs: 20,
                round_trips: 10,
            },
            200,
        ),
        (Workload::Hackbench(hackbench(Transport::Channel, 655, 100)), 720),
        (
            Workload::Stream {
                elements: 1000,
                passes: 3,
            },
            1000 * 3 * 80 / 64,
        ),
        (
            Workload::Timers {
                tasks: 10,
                sleeps: 3,
                from_us: 100,
                to_us: 500,
            },
            30,
        ),
    ] {
        assert!(workload.has_floor(), "{workload:?}");
        match run(workload, RuntimeName::None, ChannelKind::Own) {
            Outcome::Measured(measured) => assert_eq!(measured.ops, ops, "{workload:?}"),
            other => panic!("{workload:?}: {other:?}"),
        }
    }
    let waiting = Workload::Numa { turns: 1 };
    assert!(!waiting.has_floor());
    assert!(matches!(
        run(waiting, RuntimeName::None, ChannelKind::None),
        Outcome::Unsupported(_)
    ));
}

#[test]
fn threads_yield() {
    let workload = Workload::Yield {
        tasks: 10,
        yields: 20,
        rounds: 2,
    };
    for measured in check_threads(workload, &WITH_THREADS, 400) {
        assert!(measured.counters["first_done_permille"] <= 1000, "{measured:?}");
    }
}

#[test]
fn threads_spawn_join() {
    check_threads(Workload::SpawnJoin { tasks: 100, batch: 10 }, &WITH_THREADS, 100);
}

#[test]
fn threads_ping_pong() {
    for (pairs, round_trips, ops) in [(1, 50, 50), (20, 10, 200)] {
        check_threads(Workload::PingPong { pairs, round_trips }, &WITH_THREADS, ops);
    }
}

#[test]
fn threads_skynet() {
    check_threads(Workload::Skynet { leaves: 1 }, &WITH_THREADS, 1);
    check_threads(Workload::Skynet { leaves: 100 }, &WITH_THREADS, 111);
}

#[test]
fn threads_that_sleep_have_three_figures() {
    let workload = Workload::Sleepers { threads: 200 };
    for measured in check_threads(workload, &WITH_THREADS, 200) {
        for metric in workload.metrics() {
            let figure = measured.counter_per_op(metric.name());
            // Memory may have been there before, as these runs share a process.
            let least = if metric.name() == "rss_bytes" { 0.0 } else { 1.0 };
            assert!(figure.is_some_and(|figure| figure >= least), "{metric:?}: {measured:?}");
        }
    }
}

#[test]
fn threads_hackbench() {
    let bounded = [
        RuntimeName::Quadrille,
        RuntimeName::QuadrilleBaseline,
        RuntimeName::Threads,
    ];
    for capacity in [1, 655] {
        let workload = Workload::Hackbench(hackbench(Transport::Channel, capacity, 100));
        check_threads(workload, &bounded, 720);
    }
}

#[test]
fn threads_hackbench_by_stream() {
    let with_streams = [
        RuntimeName::Quadrille,
        RuntimeName::QuadrilleBaseline,
        RuntimeName::Threads,
    ];
    for transport in [Transport::Pipe, Transport::Socket] {
        // As for tasks: the last size exceeds what a pipe takes at once.
        for size in [1, 100, 5000] {
            check_threads(Workload::Hackbench(hackbench(transport, 1, size)), &with_streams, 720);
        }
    }
}

#[test]
fn what_a_runtime_does_not_have_is_no_failure() {
    let [channel, pipe] = [Transport::Channel, Transport::Pipe].map(|transport| hackbench(transport, 1, 100));
    let [channel, pipe] = [channel, pipe].map(Workload::Hackbench);
    let skynet = Workload::Skynet { leaves: 10 };
    for (outcome, expected) in [
        (run_threads(channel, RuntimeName::May), "no bound"),
        (run_threads(pipe, RuntimeName::May), "no pipes"),
        (run_threads(skynet, RuntimeName::Tokio), "tasks only"),
        (run_threads(skynet, RuntimeName::Smol), "tasks only"),
        (run(skynet, RuntimeName::May, ChannelKind::None), "no tasks"),
    ] {
        match outcome {
            Outcome::Unsupported(reason) => assert!(reason.contains(expected), "{reason}"),
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[test]
fn fairness_finds_a_longest_wait() {
    let workloads = [
        Workload::Spin {
            spin_us: 500,
            woken: 4,
            yielders: 0,
        },
        Workload::Spin {
            spin_us: 500,
            woken: 4,
            yielders: 4,
        },
        Workload::Closed {
            tasks: 4,
            work_us: 5,
            turns: 10,
            via_channel: false,
        },
        Workload::Closed {
            tasks: 4,
            work_us: 5,
            turns: 10,
            via_channel: true,
        },
    ];
    for workload in workloads {
        for runtime in RUNTIMES {
            match run(workload, runtime, ChannelKind::Shared) {
                Outcome::Measured(measured) => {
                    assert!(measured.longest_wait_ns > Some(0), "{workload:?} on {}", runtime.name());
                }
                other => panic!("{workload:?} on {}: {other:?}", runtime.name()),
            }
        }
    }
}

#[test]
fn a_size_that_channels_do_not_have_is_a_failure() {
    let workload = Workload::Hackbench(hackbench(Transport::Channel, 1, 99));
    match run(workload, RuntimeName::Tokio, ChannelKind::Shared) {
        Outcome::Failed(message) => assert!(message.contains("99"), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn threads_refuse_what_they_do_not_do() {
    for workload in [
        Workload::Hackbench(hackbench(Transport::Channel, 1, 99)),
        Workload::SpawnRemote { tasks: 1, batch: 1 },
    ] {
        let outcome = run_threads(workload, RuntimeName::Threads);
        assert!(matches!(outcome, Outcome::Failed(_)), "{workload:?}: {outcome:?}");
    }
}
