//! Four threads on one cache line: Barry Song's program.

use std::fmt;
use std::str::FromStr;

use quadrille_policy::Nanos;

use super::{Context, Kin, MemoryId, MemorySpec, NewTask, Setup, Step, TaskId, Touch, Workload, text};

/// One task makes the others. Half of them read a field of one struct, half increment another, `rounds` times each; the
/// struct is one cache line. The time of the whole is [`Report::time`](crate::Report::time). Units of work are
/// accesses.
///
/// The increments are a load and a store, as the compiler would make them, not an atomic addition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Tasks. Default 4.
    pub tasks: u32,
    /// Rounds of each. Default 20,000; the program's 1e9 take no other turn.
    pub rounds: u32,
    /// Whether they are declared to share data, as `quadrille::TaskGroup` does. Default no.
    pub declared: bool,
    /// What the first task does after it has made one, ns: making a thread of the kernel takes 10 to 20 us. Default 0.
    pub gap: u32,
    state: State,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    has_begun: bool,
    /// The gap comes before the next task is made.
    rests: bool,
    spawned: u32,
    /// By task, without the first: accesses done.
    accesses: Vec<u32>,
}

const MAIN: TaskId = TaskId(0);
/// What the first task does before it makes the others: meanwhile all other workers have gone to sleep.
const PROLOGUE: Nanos = Nanos::from_micros(100);
const LINE: MemoryId = MemoryId(0);

impl Default for Sharing {
    fn default() -> Self {
        Self {
            tasks: 4,
            rounds: 20_000,
            declared: false,
            gap: 0,
            state: State::default(),
        }
    }
}

impl Sharing {
    fn new_task(&self) -> NewTask {
        NewTask {
            kin: if self.declared {
                Kin::Declared(1)
            } else {
                Kin::Inherited
            },
        }
    }
}

impl Workload for Sharing {
    fn name(&self) -> String {
        format!("sharing:{self}")
    }

    fn start(&mut self, setup: &mut Setup<'_>) {
        setup.memory(MemorySpec { bytes: 8 });
        setup.task(self.new_task());
        self.state = State {
            accesses: vec![0; self.tasks as usize],
            ..State::default()
        };
    }

    fn step(&mut self, task: TaskId, context: &mut Context<'_>) -> Step {
        if task == MAIN {
            if self.state.spawned == self.tasks {
                return Step::Exit;
            }
            if !std::mem::replace(&mut self.state.has_begun, true) {
                return Step::Compute(PROLOGUE);
            }
            if std::mem::replace(&mut self.state.rests, false) {
                return Step::Compute(Nanos(u64::from(self.gap)));
            }
            self.state.rests = self.gap > 0;
            self.state.spawned += 1;
            return Step::Spawn(self.new_task());
        }
        let Some(accesses) = self.state.accesses.get_mut(task.index() - 1) else {
            return Step::Exit;
        };
        let past = *accesses;
        context.done(u64::from(past > 0));
        let increments = task.0.is_multiple_of(2);
        let a_round = if increments { 2 } else { 1 };
        if past == self.rounds.saturating_mul(a_round) {
            return Step::Exit;
        }
        *accesses += 1;
        Step::Touch(Touch {
            memory: LINE,
            bytes: 4,
            write: increments && past % 2 == 1,
        })
    }

    fn unit(&self) -> &'static str {
        "accesses"
    }
}

impl FromStr for Sharing {
    type Err = String;

    /// `name=value,…` with `t` (tasks), `rounds`, `declared` (0 or 1), `gap` (ns).
    fn from_str(text: &str) -> Result<Self, String> {
        let mut made = Self::default();
        text::read("sharing", text, "t, rounds, declared (0 or 1) or gap", |name, value| {
            match (name, value) {
                ("t", _) => made.tasks = value,
                ("rounds", _) => made.rounds = value,
                ("declared", 0 | 1) => made.declared = value == 1,
                ("gap", _) => made.gap = value,
                _ => return false,
            }
            true
        })?;
        text::within("sharing", "t", made.tasks, 1..=text::TASKS_MAX)?;
        text::within("sharing", "rounds", made.rounds, 1..=u32::MAX)?;
        Ok(made)
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let declared = u8::from(self.declared);
        write!(f, "t={},rounds={},declared={declared}", self.tasks, self.rounds)?;
        match self.gap {
            0 => Ok(()),
            gap => write!(f, ",gap={gap}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Cost, Machine, Model, Simulation};

    #[test]
    fn it_ends_after_all_accesses() {
        let machine: Machine = "node:2 l2:4".parse().unwrap();
        let workload: Sharing = "rounds=100".parse().unwrap();
        let simulation = Simulation::new(machine, Cost::default(), Config::default(), Model::Shipped, workload, 1);
        let report = simulation.unwrap().run(Nanos::from_millis(100));
        assert!(report.finished);
        assert_eq!(report.done, 2 * 100 + 2 * 200);
    }

    #[test]
    fn a_gap_lies_between_tasks() {
        let time = |text: &str| {
            let machine: Machine = "node:2 l2:4".parse().unwrap();
            let workload: Sharing = text.parse().unwrap();
            let simulation = Simulation::new(machine, Cost::default(), Config::default(), Model::Shipped, workload, 1);
            simulation.unwrap().run(Nanos::from_millis(100)).time.0
        };
        let added = time("rounds=1,gap=50000") - time("rounds=1");
        assert!((150_000..250_000).contains(&added), "{added}");
    }

    #[test]
    fn texts_round_trip() {
        for text in ["t=3,rounds=4,declared=1", "t=3,rounds=4,declared=0,gap=5"] {
            assert_eq!(text.parse::<Sharing>().unwrap().to_string(), text);
        }
        assert!("declared=2".parse::<Sharing>().is_err());
    }
}
