//! Processes, signals and files, through the public interface.

mod budget;
#[path = "../../src/child.rs"]
#[expect(dead_code, reason = "shared with the unit tests, who need more of it")]
mod child;
mod fs;
mod fs_held_up;
#[path = "../behaviour/greedy.rs"]
mod greedy;
mod process;
mod scratch;
mod signal;
#[path = "../../src/skipped.rs"]
mod skipped;
mod stdio;
#[path = "../behaviour/wait.rs"]
#[expect(dead_code, reason = "what the other binary needs of it")]
mod wait;
