//! stream: every task goes through arrays of its own that no cache holds.

use std::fmt;
use std::str::FromStr;

use super::{Context, Kin, MemoryId, MemorySpec, NewTask, Setup, Step, TaskId, Touch, Workload, text};

/// Tasks that copy, scale, add or triad arrays of their own, without end; they are one program. After each pass they
/// meet at a barrier, as the threads of an OpenMP loop do. Units of work are KiB moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Tasks; 0: one a hardware thread. Default 0.
    pub tasks: u32,
    /// Arrays that are read: 1 for copy and scale, 2 for add and triad. Default 1.
    pub reads: u32,
    /// Size of an array, MiB. Default 256: four times the last-level cache or more.
    pub array: u32,
    /// What a task moves in a pass, MiB; 0: it goes on without meeting the others. Default 0.
    pub pass: u32,
    /// Whether they are declared to want a cache each. Default no.
    pub spread: bool,
    state: State,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    /// By task.
    streamers: Vec<Streamer>,
    /// Those that wait at the barrier, and those that are still to be woken since the last one has arrived.
    waiting: Vec<TaskId>,
    waking: Vec<TaskId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Streamer {
    /// Accesses done.
    steps: u32,
    /// Of these in this pass.
    in_pass: u32,
}

/// Bytes of an access. Long enough for few events, short enough for tasks to share a node's channels fairly.
const CHUNK_KIB: u32 = 64;

/// As many tasks as a machine has hardware threads, each with so many arrays, of a TiB: a memory is made for each.
const TASKS_MAX: u32 = u16::MAX as u32;
const READS_MAX: u32 = 15;
const MIB_MAX: u32 = 1 << 20;

impl Default for Stream {
    fn default() -> Self {
        Self {
            tasks: 0,
            reads: 1,
            array: 256,
            pass: 0,
            spread: false,
            state: State::default(),
        }
    }
}

impl Stream {
    const fn arrays(&self) -> u32 {
        self.reads + 1
    }
}

impl Workload for Stream {
    fn name(&self) -> String {
        format!("stream:{self}")
    }

    fn start(&mut self, setup: &mut Setup<'_>) {
        if self.tasks == 0 {
            self.tasks = u32::try_from(setup.workers()).unwrap_or(u32::MAX);
        }
        let kin = if self.spread { Kin::Spread(1) } else { Kin::Program(1) };
        for _ in 0..self.tasks {
            setup.task(NewTask { kin });
        }
        for _ in 0..self.tasks * self.arrays() {
            setup.memory(MemorySpec {
                bytes: u64::from(self.array) << 20,
            });
        }
        self.state = State {
            streamers: vec![Streamer::default(); self.tasks as usize],
            ..State::default()
        };
    }

    fn step(&mut self, task: TaskId, context: &mut Context<'_>) -> Step {
        let arrays = self.arrays();
        let streamers = self.state.streamers.len();
        let Some(state) = self.state.streamers.get_mut(task.index()) else {
            return Step::Exit;
        };
        if self.pass > 0 && state.in_pass == self.pass * (1024 / CHUNK_KIB) {
            state.in_pass = 0;
            self.state.waiting.push(task);
            if self.state.waiting.len() < streamers {
                return Step::Wait;
            }
            // The last to arrive wakes the others, who help it.
            self.state.waking = std::mem::take(&mut self.state.waiting);
            self.state.waking.pop();
        }
        if state.in_pass == 0
            && let Some(other) = self.state.waking.pop()
        {
            return Step::Wake(other);
        }
        let array = state.steps % arrays;
        context.done(u64::from(if state.steps == 0 { 0 } else { CHUNK_KIB }));
        state.steps = state.steps.wrapping_add(1).max(1);
        state.in_pass += 1;
        Step::Touch(Touch {
            memory: MemoryId(task.0 * arrays + array),
            bytes: u64::from(CHUNK_KIB) << 10,
            write: array == arrays - 1,
        })
    }

    fn unit(&self) -> &'static str {
        "KiB"
    }
}

impl FromStr for Stream {
    type Err = String;

    /// `name=value,…` with `t` (tasks), `reads` (arrays that are read), `array` and `pass` (MiB),
    /// `spread` (0 or 1).
    fn from_str(text: &str) -> Result<Self, String> {
        let mut made = Self::default();
        text::read(
            "stream",
            text,
            "t, reads, array, pass or spread (0 or 1)",
            |name, value| {
                match name {
                    "t" => made.tasks = value,
                    "reads" => made.reads = value,
                    "array" => made.array = value,
                    "pass" => made.pass = value,
                    "spread" if value <= 1 => made.spread = value == 1,
                    _ => return false,
                }
                true
            },
        )?;
        text::within("stream", "t", made.tasks, 0..=TASKS_MAX)?;
        text::within("stream", "reads", made.reads, 1..=READS_MAX)?;
        text::within("stream", "array", made.array, 1..=MIB_MAX)?;
        text::within("stream", "pass", made.pass, 0..=MIB_MAX)?;
        Ok(made)
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tasks,
            reads,
            array,
            pass,
            ..
        } = self;
        let spread = u8::from(self.spread);
        write!(f, "t={tasks},reads={reads},array={array},pass={pass},spread={spread}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Cost, Machine, Model, Nanos, Simulation};

    fn kib_per_ms(machine: &str, text: &str) -> u64 {
        let machine: Machine = machine.parse().unwrap();
        let workload: Stream = text.parse().unwrap();
        let simulation = Simulation::new(machine, Cost::default(), Config::default(), Model::Shipped, workload, 1);
        let report = simulation.unwrap().run(Nanos::from_millis(4));
        report.done / 4
    }

    #[test]
    fn a_node_has_so_much_bandwidth_and_no_more() {
        let cost = Cost::default();
        let thread = 1_000_000 * cost.thread_bandwidth / 1024 / 1024;
        let node = 1_000_000 * cost.node_bandwidth / 1024 / 1024;
        let one = kib_per_ms("llc:2 l2:4", "t=1");
        assert!(
            one.abs_diff(thread) < thread / 5,
            "{one} KiB a ms, a thread has {thread}"
        );
        let crowd = kib_per_ms("llc:4 l2:16", "");
        assert!(crowd <= node + node / 20, "{crowd} KiB a ms, the node has {node}");
        assert!(crowd > node * 3 / 4, "{crowd} KiB a ms, the node has {node}");
    }

    #[test]
    fn texts_round_trip() {
        let text = "t=3,reads=2,array=64,pass=8,spread=1";
        assert_eq!(text.parse::<Stream>().unwrap().to_string(), text);
        assert!("reads=0".parse::<Stream>().is_err());
    }
}
