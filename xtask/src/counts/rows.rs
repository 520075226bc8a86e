//! What `cargo xtask counts` counts.

use Body::{Outside, Shared, Tasks, Threads};
use Row::{Events, Operations};

/// What a row counts.
#[derive(Clone, Copy)]
pub(super) enum Row {
    /// Operations of a workload of `quadrille run-one`, in whose text `#` stands for its length.
    Operations(Body, &'static str),
    /// Events of `quadrille sim` between two simulated times, us.
    Events([u64; 2]),
}

/// Who does the operations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// Tasks, by our own channels.
    Tasks,
    /// Tasks, over async-channel, which all runtimes of tasks can use.
    Shared,
    /// Tasks and the thread outside that spawns them: what both take is counted.
    Outside,
    /// User-level threads.
    Threads,
}

/// The rows by name.
pub(super) const ROWS: [(&str, Row); 16] = [
    (
        "spawn_join",
        Operations(Tasks, r#"{"name":"spawn_join","tasks":#000,"batch":1000}"#),
    ),
    (
        "spawn_remote",
        Operations(Outside, r#"{"name":"spawn_remote","tasks":#000,"batch":1000}"#),
    ),
    (
        "chain",
        Operations(Tasks, r#"{"name":"chain","depth":1000,"rounds":#}"#),
    ),
    ("fib", Operations(Tasks, r#"{"name":"fib","number":15,"rounds":#}"#)),
    (
        // So many, that little of what it takes to spawn a task is in a yield: to put it into the deque, to take it out
        // again, and to poll it.
        "yield",
        Operations(Tasks, r#"{"name":"yield","tasks":100,"yields":200,"rounds":#}"#),
    ),
    (
        "wake",
        Operations(Tasks, r#"{"name":"ping_pong","pairs":1,"round_trips":#000}"#),
    ),
    (
        "wake_shared",
        Operations(Shared, r#"{"name":"ping_pong","pairs":1,"round_trips":#000}"#),
    ),
    (
        "wake_pairs",
        Operations(Tasks, r#"{"name":"ping_pong","pairs":100,"round_trips":#0}"#),
    ),
    ("pipe", Operations(Tasks, r#"{"name":"pipe","round_trips":#00}"#)),
    (
        "pipe_messages",
        Operations(
            Tasks,
            r#"{"name":"hackbench","groups":2,"fds":4,"loops":#0,"size":100,"capacity":655,"transport":"pipe"}"#,
        ),
    ),
    ("timer", Operations(Tasks, r#"{"name":"timeout_drop","timers":#000}"#)),
    (
        "thread_spawn_join",
        Operations(Threads, r#"{"name":"spawn_join","tasks":#000,"batch":1000}"#),
    ),
    (
        "thread_yield",
        Operations(Threads, r#"{"name":"yield","tasks":100,"yields":200,"rounds":#}"#),
    ),
    (
        "thread_wake",
        Operations(Threads, r#"{"name":"ping_pong","pairs":1,"round_trips":#000}"#),
    ),
    ("sim_event", Events([1_000, 2_000])),
    ("sim_event_later", Events([6_000, 7_000])),
];
