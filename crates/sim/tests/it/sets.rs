//! Coupling sets in the simulated runtime: where they end up, and that nothing is lost on the way.

use std::collections::BTreeMap;

use quadrille_sim::{
    Config, Context, Cost, Hackbench, Kin, Machine, Model, Nanos, NewTask, Report, Setup, Simulation, Step, TaskId,
    Workload,
};

/// Tasks that compute and sleep in turn.
#[derive(Clone, Debug)]
struct Nappers {
    tasks: u32,
    kin: Kin,
    compute: Nanos,
    computes: Vec<bool>,
}

impl Nappers {
    fn new(tasks: u32, kin: Kin, compute_us: u64) -> Self {
        Self {
            tasks,
            kin,
            compute: Nanos::from_micros(compute_us),
            computes: vec![false; tasks as usize],
        }
    }
}

impl Workload for Nappers {
    fn name(&self) -> String {
        "nappers".into()
    }

    fn start(&mut self, setup: &mut Setup<'_>) {
        for _ in 0..self.tasks {
            setup.task(NewTask { kin: self.kin });
        }
    }

    fn step(&mut self, task: TaskId, context: &mut Context<'_>) -> Step {
        let computes = &mut self.computes[task.index()];
        *computes = !*computes;
        context.done(u64::from(*computes));
        if *computes {
            Step::Compute(self.compute)
        } else {
            Step::Sleep(Nanos::from_micros(50))
        }
    }
}

/// One task makes many that run once.
#[derive(Clone, Debug, Default)]
struct Litter {
    spawned: u32,
    ran: Vec<bool>,
}

const LITTER: u32 = 400;

impl Workload for Litter {
    fn name(&self) -> String {
        "litter".into()
    }

    fn start(&mut self, setup: &mut Setup<'_>) {
        setup.task(NewTask::default());
        *self = Self {
            spawned: 0,
            ran: vec![false; LITTER as usize + 1],
        };
    }

    fn step(&mut self, task: TaskId, context: &mut Context<'_>) -> Step {
        if task == TaskId(0) && self.spawned < LITTER {
            self.spawned += 1;
            return Step::Spawn(NewTask::default());
        }
        let ran = &mut self.ran[task.index()];
        if std::mem::replace(ran, true) {
            context.done(1);
            return Step::Exit;
        }
        Step::Compute(Nanos::from_micros(20))
    }
}

fn traced<W: Workload>(machine: &str, config: &str, workload: W, millis: u64) -> (Report, Vec<u16>) {
    traced_by(3, machine, config, workload, millis)
}

fn traced_by<W: Workload>(seed: u64, machine: &str, config: &str, workload: W, millis: u64) -> (Report, Vec<u16>) {
    let machine: Machine = machine.parse().unwrap();
    let config: Config = config.parse().unwrap();
    let simulation = Simulation::new(machine, Cost::default(), config, Model::Shipped, workload, seed).unwrap();
    let workers = &simulation.policy().plan.workers;
    let llcs = workers.iter().map(|worker| worker.llc.0).collect();
    (simulation.with_trace().run(Nanos::from_millis(millis)), llcs)
}

/// How many of the runs in the last fifth of the time were behind each cache.
fn late_runs(report: &Report, llcs: &[u16]) -> BTreeMap<u16, u32> {
    let late = report.time.0 - report.time.0 / 5;
    let mut runs = BTreeMap::new();
    for line in report.trace.as_ref().unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [at, worker, "run", _] = words[..] else {
            continue;
        };
        let worker: usize = worker[1..].parse().unwrap();
        if at.parse::<u64>().unwrap() >= late {
            *runs.entry(llcs[worker]).or_default() += 1;
        }
    }
    runs
}

/// The share of the cache behind which most of the late runs were, in percent.
fn gathered(machine: &str, config: &str, workload: Nappers) -> u32 {
    gathered_by(3, machine, config, workload)
}

fn gathered_by(seed: u64, machine: &str, config: &str, workload: Nappers) -> u32 {
    let (report, llcs) = traced_by(seed, machine, config, workload, 60);
    let runs = late_runs(&report, &llcs);
    runs.values().max().unwrap() * 100 / runs.values().sum::<u32>()
}

#[test]
fn a_set_gathers_behind_one_cache() {
    for kin in [Kin::Declared(1), Kin::Program(1)] {
        let with = gathered("milan-2s", "default", Nappers::new(4, kin, 5));
        assert!(with >= 95, "{kin:?}: {with} %");
        let without = gathered("milan-2s", "aggregation=off", Nappers::new(4, kin, 5));
        assert!(without < 90, "{kin:?}: {without} % without the policy");
    }
}

#[test]
fn tasks_without_kin_stay_where_they_are() {
    let (report, llcs) = traced("milan-2s", "default", Nappers::new(4, Kin::Inherited, 5), 60);
    assert!(late_runs(&report, &llcs).len() > 1);
    assert_eq!(report.total().set_moves, 0);
}

#[test]
fn guards_keep_a_large_set_apart() {
    // The shares of single runs differ by twice.
    let crowd = |config| {
        let nappers = || Nappers::new(20, Kin::Program(1), 50);
        let runs = (1..=8).map(|seed| gathered_by(seed, "node:2 llc:4 l2:4 pu:2", config, nappers()));
        runs.sum::<u32>() / 8
    };
    let guarded = crowd("epoch=2ms");
    let unguarded = crowd("epoch=2ms,sets-guards=false,spread-wakes=0");
    assert!(
        guarded <= 30 && unguarded >= 45,
        "{unguarded} %, {guarded} % with guards"
    );
}

#[test]
fn spread_tasks_have_a_cache_each() {
    let (report, llcs) = traced("milan-2s", "default", Nappers::new(16, Kin::Spread(1), 5), 20);
    assert_eq!(late_runs(&report, &llcs).len(), 16);
}

#[test]
fn what_is_put_up_is_taken_and_nothing_is_lost() {
    let (mut by_others, mut back) = (0, 0);
    for machine in ["llc:2 l2:4", "llc:4 l2:2", "node:2 l2:4", "node:2 l2:2 pu:2"] {
        let (report, _) = traced(machine, "default", Litter::default(), 1_000);
        let total = report.total();
        assert!(report.finished && report.done == u64::from(LITTER) + 1, "{machine}");
        assert!(total.exports > 0, "{machine}");
        by_others += total.export_pops;
        back += total.exports_taken_back;
        let (report, _) = traced(machine, "aggregation=off", Litter::default(), 1_000);
        assert!(report.finished && report.total().exports == 0, "{machine}");
    }
    assert!(
        by_others > 0 && back > 0,
        "{by_others} visits by others, {back} by its own"
    );
}

#[test]
fn the_same_seed_gives_the_same_trace_with_sets() {
    let run = || {
        let workload: Hackbench = "g=4,f=3,sets=groups".parse().unwrap();
        traced("node:2 llc:4 l2:4 pu:2", "epoch=1ms", workload, 4).0
    };
    assert_eq!(run(), run());
}
