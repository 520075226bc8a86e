//! What must hold of the workers on the machine that the tests run on, whatever its shape:
//! `cargo xtask emulate --check` runs this program on machines that nobody here has.

mod cpus;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use quadrille::policy::{Config, Plan, PlanOptions};
use quadrille::topology::{PuSet, discover};
use quadrille::{Pinning, Runtime, task};

use cpus::{cpus_of, wait_for};

#[test]
fn strict_pinning_puts_every_worker_on_the_cpu_of_its_plan() {
    let runtime = Runtime::builder()
        .pinning(Pinning::Strict)
        .thread_name("strict")
        .build()
        .unwrap();
    let workers = runtime.handle().worker_count();
    let machine = discover().topology;
    // Fewer workers than CPUs begin in the cache where the runtime was built, and nobody knows any more which that was.
    let plans: Vec<Vec<u32>> = (machine.llcs().iter())
        .map(|llc| {
            let options = PlanOptions {
                near: machine.os_set_of(llc.pus).first(),
                ..Config::default().plan_options(Some(u16::try_from(workers).unwrap()))
            };
            let plan = Plan::compile(&machine, &options).unwrap();
            plan.workers.iter().map(|worker| worker.os_cpu).collect()
        })
        .collect();
    let pinned = || -> Option<Vec<u32>> {
        let cpus = (0..workers).map(|index| cpus_of(&format!("strict-{index}")));
        let cpus: Option<Vec<PuSet>> = cpus.collect();
        cpus?
            .iter()
            .map(|cpus| cpus.first().filter(|_| cpus.len() == 1))
            .collect()
    };
    // A worker names and pins itself.
    let found = wait_for(pinned, Option::is_some).expect("every worker has one CPU");
    assert!(plans.contains(&found), "{found:?}, expected one of {plans:?}");
    let distinct: PuSet = found.iter().copied().collect();
    assert_eq!(distinct.len(), workers, "two workers on one CPU");
    assert_eq!(runtime.metrics().pin_failures, 0);
}

#[test]
fn a_start_hook_runs_where_its_worker_is_pinned() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let hook = {
        let seen = seen.clone();
        move || {
            let name = std::thread::current().name().unwrap().to_owned();
            // A listing of threads may end early while another one ends.
            let cpus = wait_for(|| cpus_of(&name), Option::is_some).expect("it runs");
            seen.lock().unwrap().push((name, cpus));
        }
    };
    let runtime = Runtime::builder()
        .pinning(Pinning::Strict)
        .thread_name("hook")
        .on_thread_start(hook)
        .build()
        .unwrap();
    let workers = runtime.handle().worker_count();
    let seen = wait_for(
        || seen.lock().unwrap().clone(),
        |seen: &Vec<(String, PuSet)>| seen.len() == workers,
    );
    assert_eq!(seen.len(), workers, "{seen:?}");
    assert!(seen.iter().all(|(_, cpus)| cpus.len() == 1), "{seen:?}");
}

/// Keeps four tasks a worker busy until every worker has run some of them.
fn check_every_worker_runs(name: &str, config: Config) {
    let runtime = Runtime::builder().config(config).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..4 * runtime.handle().worker_count())
        .map(|_| {
            let stop = stop.clone();
            runtime.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    task::yield_now().await;
                }
            })
        })
        .collect();
    let idle = || {
        let metrics = runtime.metrics();
        let workers = metrics.workers.iter().enumerate();
        workers
            .filter(|(_, worker)| worker.polls == 0)
            .map(|(index, _)| index)
            .collect::<Vec<_>>()
    };
    let starved = wait_for(idle, Vec::is_empty);
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    assert!(starved.is_empty(), "{name}: workers {starved:?} ran nothing");
}

#[test]
fn no_worker_starves_beside_others_that_have_work() {
    check_every_worker_runs("default", Config::default());
    check_every_worker_runs("baseline", Config::baseline());
}
