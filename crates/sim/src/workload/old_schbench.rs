//! schbench as it was until 2022: messengers that wake many workers at once.

use std::fmt;
use std::str::FromStr;

use quadrille_policy::Nanos;

use super::{Context, Kin, NewTask, Setup, Step, TaskId, Workload, text};

/// All tasks are one program.
const PROGRAM: Kin = Kin::Program(1);

/// Messengers with workers. A worker computes, puts itself on its messenger's list, wakes it and waits. The messenger
/// sleeps for `sleep` and up to a quarter more, takes one time stamp and wakes its whole list. Samples are the times
/// from that stamp until a worker runs; they include the wake loop. Units of work are wake-ups.
///
/// There is no preemption: with more workers than hardware threads, waits are multiples of `spin` by construction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldSchbench {
    /// Messengers. Default 2.
    pub messengers: u32,
    /// Workers of all messengers together. Default 32.
    pub workers: u32,
    /// What a worker computes, ns. Default 200 us; the program's 30 ms need simulated minutes.
    pub spin: u32,
    /// What a messenger sleeps, ns. Default 200 us.
    pub sleep: u32,
    state: State,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    messengers: Vec<Messenger>,
    workers: Vec<Phase>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Messenger {
    list: Vec<TaskId>,
    /// Those that it wakes now, last first.
    waking: Vec<TaskId>,
    stamp: Nanos,
    has_slept: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    New,
    Woken,
    Posts,
    Waits,
}

impl Default for OldSchbench {
    fn default() -> Self {
        Self {
            messengers: 2,
            workers: 32,
            spin: 200_000,
            sleep: 200_000,
            state: State::default(),
        }
    }
}

impl OldSchbench {
    fn messenger_step(&mut self, messenger: u32, context: &mut Context<'_>) -> Step {
        let Some(state) = self.state.messengers.get_mut(messenger as usize) else {
            return Step::Exit;
        };
        if let Some(worker) = state.waking.pop() {
            return Step::Wake(worker);
        }
        if state.list.is_empty() {
            return Step::Wait;
        }
        if !state.has_slept {
            state.has_slept = true;
            let more = context.random(self.sleep / 4);
            return Step::Sleep(Nanos(u64::from(self.sleep) + u64::from(more)));
        }
        state.has_slept = false;
        state.stamp = context.now();
        state.waking = std::mem::take(&mut state.list);
        state.waking.reverse();
        state.waking.pop().map_or(Step::Wait, Step::Wake)
    }

    fn worker_step(&mut self, task: TaskId, context: &mut Context<'_>) -> Step {
        let worker = task.0 - self.messengers;
        let messenger = worker % self.messengers;
        let (Some(phase), Some(state)) = (
            self.state.workers.get_mut(worker as usize),
            self.state.messengers.get_mut(messenger as usize),
        ) else {
            return Step::Exit;
        };
        match *phase {
            Phase::New => {
                // Not all at once: they start somewhere in their first round.
                *phase = Phase::Posts;
                Step::Compute(Nanos(u64::from(context.random(self.spin.max(1)))))
            }
            Phase::Woken => {
                *phase = Phase::Posts;
                context.done(1);
                context.sample(context.now().since(state.stamp));
                Step::Compute(Nanos(u64::from(self.spin)))
            }
            Phase::Posts => {
                *phase = Phase::Waits;
                state.list.push(task);
                Step::Wake(TaskId(messenger))
            }
            Phase::Waits => {
                *phase = Phase::Woken;
                Step::Wait
            }
        }
    }
}

impl Workload for OldSchbench {
    fn name(&self) -> String {
        format!("old-schbench:{self}")
    }

    fn start(&mut self, setup: &mut Setup<'_>) {
        for _ in 0..self.messengers + self.workers {
            setup.task(NewTask { kin: PROGRAM });
        }
        self.state = State {
            messengers: vec![Messenger::default(); self.messengers as usize],
            workers: vec![Phase::New; self.workers as usize],
        };
    }

    fn step(&mut self, task: TaskId, context: &mut Context<'_>) -> Step {
        if task.0 < self.messengers {
            self.messenger_step(task.0, context)
        } else {
            self.worker_step(task, context)
        }
    }

    fn unit(&self) -> &'static str {
        "wake-ups"
    }
}

impl FromStr for OldSchbench {
    type Err = String;

    /// `name=value,…` with `m` (messengers), `t` (workers of all together), `spin` and `sleep` (ns).
    fn from_str(text: &str) -> Result<Self, String> {
        let mut made = Self::default();
        text::read("old-schbench", text, "m, t, spin or sleep", |name, value| {
            match name {
                "m" => made.messengers = value,
                "t" => made.workers = value,
                "spin" => made.spin = value,
                "sleep" => made.sleep = value,
                _ => return false,
            }
            true
        })?;
        text::within("old-schbench", "m", made.messengers, 1..=text::TASKS_MAX / 2)?;
        text::within("old-schbench", "t", made.workers, 1..=text::TASKS_MAX / 2)?;
        Ok(made)
    }
}

impl fmt::Display for OldSchbench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            messengers,
            workers,
            spin,
            sleep,
            ..
        } = self;
        write!(f, "m={messengers},t={workers},spin={spin},sleep={sleep}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Cost, Machine, Model, Simulation};

    fn run(text: &str) -> crate::Report {
        let machine: Machine = "llc:2 l2:4".parse().unwrap();
        let workload: OldSchbench = text.parse().unwrap();
        let simulation = Simulation::new(machine, Cost::default(), Config::default(), Model::Shipped, workload, 1);
        simulation.unwrap().run(Nanos::from_millis(20))
    }

    #[test]
    fn workers_take_turns_with_their_messengers() {
        for (text, workers) in [("m=1,t=1", 1), ("m=2,t=6", 6), ("m=2,t=40", 40)] {
            let report = run(text);
            assert_eq!(report.stalled, 0, "{text}");
            // A round takes spin and sleep and a quarter more, and with too many workers several spins.
            assert!(report.done >= 3 * workers, "{text}: {} wake-ups", report.done);
            assert_eq!(report.samples.count(), report.done, "{text}");
        }
    }

    #[test]
    fn crowded_workers_wait_for_each_other() {
        let spare = run("m=1,t=2").samples.quantile(0.99);
        let crowded = run("m=1,t=64").samples.quantile(0.99);
        assert!(spare < Nanos::from_micros(50), "{spare:?}");
        assert!(crowded > Nanos::from_micros(200), "{crowded:?}");
    }

    #[test]
    fn a_messenger_may_sleep_for_as_long_as_can_be_written() {
        let report = run("m=1,t=1,spin=1,sleep=4294967295");
        assert_eq!(
            (report.stalled, report.done),
            (0, 0),
            "it sleeps for longer than the run takes"
        );
    }

    #[test]
    fn texts_round_trip() {
        let text = "m=3,t=4,spin=5,sleep=6";
        assert_eq!(text.parse::<OldSchbench>().unwrap().to_string(), text);
        assert!("t=0".parse::<OldSchbench>().is_err() && "m=0".parse::<OldSchbench>().is_err());
    }
}
