//! The policy fields of a task, and the cap on its group changes in a window.

use crate::{GroupId, Tick, WorkerId};

/// What a task carries for the policies. It belongs to the task's current owner and passes on with the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskPolicy {
    /// The group that the task was last deliberately placed in.
    pub home: GroupId,
    /// The member of it that ran the task last.
    pub home_worker: WorkerId,
    /// The window that `used` counts in.
    pub window: Tick,
    /// Coupling set: tasks that share data; 0 is none.
    pub set: u32,
    /// Group changes in this window.
    pub used: u8,
    /// Group changes allowed in this window.
    pub quota: u8,
}
