//! What the table of a workload is called.

use crate::spec::{Body, Hackbench, Metric, Schbench, SchbenchRequests, Serve, Transport, Workload};
use crate::table::thousands;

/// The heading of a workload's table of one figure.
#[must_use]
pub fn title(workload: &Workload, body: Body, metric: Metric) -> String {
    let (name, bodies) = (workload.name(body), body.name());
    let one = bodies.trim_end_matches('s');
    match *workload {
        Workload::Hackbench(h) => hackbench_title(&h, body),
        Workload::SpawnJoin { batch, .. } => {
            format!("{name}: batches of {batch} from inside a {one}; ns a {one}")
        }
        Workload::SpawnRemote { batch: 1, .. } => {
            "spawn_remote1: one task at a time from outside, then wait for it; ns a task".to_owned()
        }
        Workload::SpawnRemote { batch, .. } => {
            format!("spawn_remote: batches of {batch} from outside; ns a task")
        }
        Workload::BlockOn { .. } => {
            "block_on: a thread outside spawns one task and blocks until it is done; ns a task".to_owned()
        }
        Workload::Blocking { tasks, .. } => {
            format!("blocking: tasks {tasks}, which may not block; ns a closure that may")
        }
        Workload::Broadcast { receivers, batch, .. } => {
            format!(
                "broadcast: {receivers} {bodies} receive each message, {batch} sent at a time; ns a message received"
            )
        }
        Workload::Yield { tasks, yields, .. } => {
            format!("{name}: {tasks} {bodies}, {yields} yields each; ns a yield")
        }
        Workload::PingPong { pairs, .. } => {
            format!("{name}: pairs {pairs}, capacity 1; ns a round trip")
        }
        Workload::Skynet { leaves } => format!(
            "{name}: a tree of {bodies} with {} leaves, 10 children each; ns a {one}",
            thousands(&leaves.to_string())
        ),
        Workload::Sleepers { threads } => format!(
            "{name}: {} threads sleep; {}",
            thousands(&threads.to_string()),
            match metric {
                Metric::MemoryEach => "resident bytes each",
                Metric::WakeJoinEach => "ns to wake and join each",
                _ => "ns to create each",
            }
        ),
        Workload::Chain { depth, .. } => format!("chain: {depth} tasks, each spawns the next; ns a task"),
        Workload::Fib { number, .. } => format!("fib: fork and join, n = {number}; ns a task"),
        Workload::Pipe { .. } => "pipe: a number there and back through two pipes; ns a round trip".to_owned(),
        Workload::Stream { elements, .. } => format!(
            "stream: copy, scale, add, triad, 3 arrays of {} elements a worker; ns a cache line",
            thousands(&elements.to_string())
        ),
        Workload::Numa { .. } => "numa: two readers and two writers of one cache line; ns a turn".to_owned(),
        ref other => title_of_waits(other, body, metric),
    }
}

/// The heading of a workload whose figures are waits.
fn title_of_waits(workload: &Workload, body: Body, metric: Metric) -> String {
    let name = workload.name(body);
    let figure = match metric {
        Metric::P50 | Metric::DueP50 | Metric::RequestP50 => "the median, in ns",
        Metric::P99 | Metric::DueP99 | Metric::RequestP99 => "what 1 in 100 exceeds, in ns",
        Metric::P999 => "what 1 in 1000 exceeds, in ns",
        Metric::LongestWait => "the longest, in ns",
        Metric::Cpu => "CPU ns an operation",
        _ => "ns an operation",
    };
    match *workload {
        Workload::Timers {
            tasks, from_us, to_us, ..
        } => {
            let (from, to) = (from_us / 1000, to_us / 1000);
            match metric {
                Metric::Cpu => format!("timers: {tasks} tasks sleep {from} to {to} ms; CPU ns a sleep"),
                _ => format!("timers: {tasks} tasks sleep {from} to {to} ms; how late: {figure}"),
            }
        }
        Workload::TimeoutDrop { .. } => "timeout_drop: a timeout of 10 s is armed and dropped; ns a timeout".to_owned(),
        Workload::Schbench(Schbench {
            messengers,
            workers,
            work_us,
            tick_us,
            ..
        }) => {
            let when = match tick_us {
                0 => "that ask again at once".to_owned(),
                tick_us => format!("every {} ms on average", tick_us / 1000),
            };
            let latency = match metric {
                Metric::DueP50 | Metric::DueP99 => "latency from when the tick was due",
                _ => "wake-up latency",
            };
            format!(
                "{name}: {messengers} messengers wake {workers} workers each {when}, {work_us} us of work; {latency}: {figure}"
            )
        }
        Workload::SchbenchRequests(params) => title_of_requests(&params, name, metric, figure),
        Workload::Mixed {
            pairs, heavy, piece_us, ..
        } => format!(
            "{name}: {pairs} pairs beside {heavy} {} that compute {piece_us} us at a time; a round trip: {figure}",
            body.name()
        ),
        Workload::Serve(serve) => title_of_server(&serve, name, metric),
        Workload::Idle { connections, millis } => title_of_idle(connections, millis, metric),
        Workload::Load { percent, work_us, .. } => title_of_load(percent, work_us, metric, figure),
        Workload::Spin {
            spin_us,
            woken,
            yielders,
        } => format!(
            "fairness, spin: a task spins {} ms; the longest wait of {woken} it woke and {yielders} that yield, in ns",
            spin_us / 1000
        ),
        Workload::Closed {
            tasks,
            work_us,
            via_channel,
            ..
        } => format!(
            "fairness, closed: {tasks} tasks, {work_us} us of work, then {}; the longest wait, in ns",
            if via_channel { "ask a messenger" } else { "yield" }
        ),
        _ => format!("{figure} of {workload:?}"),
    }
}

fn title_of_server(serve: &Serve, name: &str, metric: Metric) -> String {
    let load = match serve.rate {
        0 => "each asks again at once".to_owned(),
        rate => format!("{} requests/s are due", thousands(&rate.to_string())),
    };
    let spinner = if serve.spinner {
        ", beside a task that spins 20 ms every 100 ms"
    } else {
        ""
    };
    let figure = match metric {
        Metric::Cpu if serve.spinner => "CPU ns of the server a request, that task's included",
        Metric::Cpu => "CPU ns of the server a request",
        Metric::PerOperation => "ns a request",
        Metric::P50 => "half take more than, in ns",
        Metric::P99 => "1 in 100 takes more than, in ns",
        _ => "1 in 1000 takes more than, in ns",
    };
    format!("{name}: {} connections, {load}{spinner}; {figure}", serve.connections)
}

fn title_of_requests(params: &SchbenchRequests, name: &str, metric: Metric, figure: &str) -> String {
    let SchbenchRequests {
        sleep_us,
        kib,
        operations,
        ..
    } = params;
    let what = match metric {
        Metric::P50 | Metric::P99 => format!("wake-up latency: {figure}"),
        Metric::RequestP50 | Metric::RequestP99 => format!("a request: {figure}"),
        _ => "ns a request, of all workers".to_owned(),
    };
    format!("{name}: {sleep_us} us of sleep, {operations} products of matrices in {kib} KiB, one a worker; {what}")
}

fn title_of_load(percent: u32, work_us: u64, metric: Metric, figure: &str) -> String {
    let figure = match metric {
        Metric::Throughput => "requests a second".to_owned(),
        Metric::Cpu => "CPU ns a request".to_owned(),
        Metric::Moves(distance) => format!("moves a second {}", distance.name()),
        _ => format!("from when it was due: {figure}"),
    };
    format!("load: {percent} % of full load, {work_us} us of work a request; {figure}")
}

fn title_of_idle(connections: usize, millis: u64, metric: Metric) -> String {
    let connections = thousands(&connections.to_string());
    let figure = match metric {
        Metric::MemoryEach => "resident bytes of the server each",
        _ => "wake-ups of the server",
    };
    format!("idle: {connections} connections, over which nothing comes for {millis} ms; {figure}")
}

fn hackbench_title(h: &Hackbench, body: Body) -> String {
    let Hackbench {
        groups,
        fds,
        size,
        capacity,
        ..
    } = h;
    let wire = match h.transport {
        Transport::Channel => format!("channels of {capacity}"),
        Transport::Pipe => "pipes".to_owned(),
        Transport::Socket => "AF_UNIX sockets".to_owned(),
    };
    let (command, bodies) = match body {
        Body::Tasks => ("hackbench", "tasks"),
        Body::Threads => ("hackbench --threads", "threads"),
    };
    format!("{command}: groups {groups}, {fds} x {fds} {bodies} each, {size} bytes, {wire}; ns a message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Service;

    #[test]
    fn what_a_sleep_costs_is_no_lateness() {
        let timers = Workload::Timers {
            tasks: 10,
            sleeps: 5,
            from_us: 1000,
            to_us: 10_000,
        };
        for (metric, expected) in [
            (Metric::P50, "how late: the median, in ns"),
            (Metric::Cpu, "CPU ns a sleep"),
        ] {
            let title = title(&timers, Body::Tasks, metric);
            assert_eq!(title, format!("timers: 10 tasks sleep 1 to 10 ms; {expected}"));
        }
    }

    #[test]
    fn whose_processor_time_is_counted_beside_a_task_that_spins_is_said() {
        let cpu = |spinner| {
            let serve = Serve {
                service: Service::TcpEcho,
                connections: 64,
                size: 64,
                rate: 0,
                spinner,
                millis: 1000,
            };
            title(&Workload::Serve(serve), Body::Tasks, Metric::Cpu)
        };
        assert!(
            cpu(false).ends_with("; CPU ns of the server a request"),
            "{}",
            cpu(false)
        );
        let expected =
            ", beside a task that spins 20 ms every 100 ms; CPU ns of the server a request, that task's included";
        assert!(cpu(true).ends_with(expected), "{}", cpu(true));
    }
}
