//! schbench as it is since 2023: requests with a sleep and a matrix in them.

use std::fmt;
use std::str::FromStr;

use quadrille_policy::Nanos;

use super::{Context, Kin, MemoryId, MemorySpec, NewTask, Setup, Step, TaskId, Touch, Workload, text};

/// All tasks are one program.
const PROGRAM: Kin = Kin::Program(1);

/// One messenger and many workers. A worker posts and waits, and the messenger answers at once. Then the request
/// begins: the worker sleeps, goes through its memory and computes. Samples are times of requests, units of work are
/// requests; the program's wake-up latency is [`Report::ready_to_run`](crate::Report::ready_to_run).
///
/// Left out is the program's lock of the CPU: tasks are not preempted while they compute, so nobody would wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schbench {
    /// Workers; 0: one a hardware thread. Default 0.
    pub workers: u32,
    /// What a request sleeps, ns. Default 100 us.
    pub sleep: u32,
    /// What a request computes, ns. Default 300 us; the program's five matrices take about ten times as long.
    pub compute: u32,
    /// Memory of each worker, KiB. Default 256.
    pub footprint: u32,
    state: State,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    list: Vec<TaskId>,
    workers: Vec<Worker>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Worker {
    phase: Phase,
    began_at: Nanos,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Posts,
    Waits,
    Sleeps,
    Touches,
    Computes,
    Finishes,
}

const MESSENGER: TaskId = TaskId(0);

impl Default for Schbench {
    fn default() -> Self {
        Self {
            workers: 0,
            sleep: 100_000,
            compute: 300_000,
            footprint: 256,
            state: State::default(),
        }
    }
}

impl Schbench {
    fn worker_step(&mut self, task: TaskId, context: &mut Context<'_>) -> Step {
        let Some(worker) = self.state.workers.get_mut(task.index() - 1) else {
            return Step::Exit;
        };
        if worker.phase == Phase::Finishes {
            context.done(1);
            context.sample(context.now().since(worker.began_at));
            worker.phase = Phase::Posts;
        }
        match worker.phase {
            Phase::Posts | Phase::Finishes => {
                worker.phase = Phase::Waits;
                self.state.list.push(task);
                Step::Wake(MESSENGER)
            }
            Phase::Waits => {
                worker.phase = Phase::Sleeps;
                Step::Wait
            }
            Phase::Sleeps => {
                worker.phase = Phase::Touches;
                worker.began_at = context.now();
                Step::Sleep(Nanos(u64::from(self.sleep)))
            }
            Phase::Touches => {
                worker.phase = Phase::Computes;
                Step::Touch(Touch {
                    memory: MemoryId(task.0 - 1),
                    bytes: u64::from(self.footprint) << 10,
                    write: true,
                })
            }
            Phase::Computes => {
                worker.phase = Phase::Finishes;
                Step::Compute(Nanos(u64::from(self.compute)))
            }
        }
    }
}

impl Workload for Schbench {
    fn name(&self) -> String {
        format!("schbench:{self}")
    }

    fn start(&mut self, setup: &mut Setup<'_>) {
        if self.workers == 0 {
            self.workers = u32::try_from(setup.workers()).unwrap_or(u32::MAX);
        }
        setup.task(NewTask { kin: PROGRAM });
        for _ in 0..self.workers {
            setup.task(NewTask { kin: PROGRAM });
            setup.memory(MemorySpec {
                bytes: u64::from(self.footprint.max(1)) << 10,
            });
        }
        self.state = State {
            list: Vec::new(),
            workers: vec![Worker::default(); self.workers as usize],
        };
    }

    fn step(&mut self, task: TaskId, context: &mut Context<'_>) -> Step {
        if task == MESSENGER {
            // In the order in which they posted, near enough: the list is short.
            return self.state.list.pop().map_or(Step::Wait, Step::Wake);
        }
        self.worker_step(task, context)
    }

    fn unit(&self) -> &'static str {
        "requests"
    }
}

impl FromStr for Schbench {
    type Err = String;

    /// `name=value,…` with `t` (workers), `sleep` and `compute` (ns), `footprint` (KiB).
    fn from_str(text: &str) -> Result<Self, String> {
        let mut made = Self::default();
        text::read("schbench", text, "t, sleep, compute or footprint", |name, value| {
            match name {
                "t" => made.workers = value,
                "sleep" => made.sleep = value,
                "compute" => made.compute = value,
                "footprint" => made.footprint = value,
                _ => return false,
            }
            true
        })?;
        text::within("schbench", "t", made.workers, 0..=text::TASKS_MAX - 1)?;
        // A GiB: what is cached of it is multiplied by what is touched.
        text::within("schbench", "footprint", made.footprint, 0..=1 << 20)?;
        Ok(made)
    }
}

impl fmt::Display for Schbench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            workers,
            sleep,
            compute,
            footprint,
            ..
        } = self;
        write!(f, "t={workers},sleep={sleep},compute={compute},footprint={footprint}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Cost, Machine, Model, Simulation};

    #[test]
    fn requests_are_served() {
        let machine: Machine = "llc:2 l2:4".parse().unwrap();
        for (text, workers) in [("t=1", 1), ("", 8), ("t=24", 24)] {
            let workload: Schbench = text.parse().unwrap();
            let simulation = Simulation::new(
                machine.clone(),
                Cost::default(),
                Config::default(),
                Model::Shipped,
                workload,
                1,
            );
            let report = simulation.unwrap().run(Nanos::from_millis(20));
            assert_eq!(report.stalled, 0, "{text}");
            assert!(report.done > 5 * workers, "{text}: {} requests", report.done);
            assert!(
                report.samples.quantile(0.0) >= Nanos(380_000),
                "{text}: sleep and computation"
            );
        }
    }

    #[test]
    fn texts_round_trip() {
        let text = "t=3,sleep=4,compute=5,footprint=6";
        assert_eq!(text.parse::<Schbench>().unwrap().to_string(), text);
        assert!("x=1".parse::<Schbench>().is_err());
    }
}
