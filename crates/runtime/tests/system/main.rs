//! Processes, signals and files, through the public interface.

mod budget;
mod fs;
mod fs_held_up;
#[path = "../behaviour/greedy.rs"]
mod greedy;
mod process;
mod scratch;
mod signal;
mod stdio;
#[path = "../behaviour/wait.rs"]
#[expect(dead_code, reason = "what the other binary needs of it")]
mod wait;
