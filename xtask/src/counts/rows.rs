//! What `cargo xtask counts` counts.

use Row::{Events, Operations, ThreadOperations};

/// What a row counts.
#[derive(Clone, Copy)]
pub(super) enum Row {
    /// Operations of a workload of `quadrille run-one`, in whose text `#` stands for its length.
    Operations(&'static str),
    /// The same by user-level threads in place of tasks.
    ThreadOperations(&'static str),
    /// Events of `quadrille sim` between two simulated times, us.
    Events([u64; 2]),
}

/// The rows by name.
pub(super) const ROWS: [(&str, Row); 14] = [
    (
        "spawn_join",
        Operations(r#"{"name":"spawn_join","tasks":#000,"batch":1000}"#),
    ),
    ("chain", Operations(r#"{"name":"chain","depth":1000,"rounds":#}"#)),
    ("fib", Operations(r#"{"name":"fib","number":15,"rounds":#}"#)),
    (
        "yield",
        Operations(r#"{"name":"yield","tasks":100,"yields":20,"rounds":#}"#),
    ),
    (
        "wake",
        Operations(r#"{"name":"ping_pong","pairs":1,"round_trips":#000}"#),
    ),
    (
        "wake_pairs",
        Operations(r#"{"name":"ping_pong","pairs":100,"round_trips":#0}"#),
    ),
    ("pipe", Operations(r#"{"name":"pipe","round_trips":#00}"#)),
    (
        "pipe_messages",
        Operations(
            r#"{"name":"hackbench","groups":2,"fds":4,"loops":#0,"size":100,"capacity":655,"transport":"pipe"}"#,
        ),
    ),
    ("timer", Operations(r#"{"name":"timeout_drop","timers":#000}"#)),
    (
        "thread_spawn_join",
        ThreadOperations(r#"{"name":"spawn_join","tasks":#000,"batch":1000}"#),
    ),
    (
        // Ten times as many a thread as a task's, so that little of what it takes to spawn it is in a yield.
        "thread_yield",
        ThreadOperations(r#"{"name":"yield","tasks":100,"yields":200,"rounds":#}"#),
    ),
    (
        "thread_wake",
        ThreadOperations(r#"{"name":"ping_pong","pairs":1,"round_trips":#000}"#),
    ),
    ("sim_event", Events([1_000, 2_000])),
    ("sim_event_later", Events([6_000, 7_000])),
];
