//! What a simulation takes grows with its events and with nothing else. Counted, because times say little on a machine
//! that is busy; instructions an event are a row of `cargo xtask counts`.

use quadrille_sim::{Hackbench, Machine, Model, Nanos, Report, Schbench, Workload};

use crate::run;

const KERNEL: Model = Model::KernelFaithful { scattered: None };

/// The run for so long, and for four times as long: events enter the queue once each, nearly, and nothing piles up
/// there.
fn check<W: Workload + Clone>(machine: &str, model: Model, workload: &W, us: u64, deferred_percent: u64) {
    let workers = machine.parse::<Machine>().unwrap().topology().pus().len();
    let simulate = |us| run(machine, "default", model, workload.clone(), 1, Nanos(us * 1_000));
    let (short, long) = (simulate(us), simulate(4 * us));
    for report in [&short, &long] {
        let (queue, events) = (report.queue, report.events);
        let which = format!("{model} on {machine}, {}: {events} events, {queue:?}", report.workload);
        let in_vain = queue.entered - events;
        let to_come = u64::try_from(4 * workers).unwrap();
        assert!(in_vain <= to_come + events / 20, "{in_vain} in vain: {which}");
        let deferred = queue.deferred;
        assert!(
            deferred * 100 <= events * deferred_percent,
            "{deferred} deferred: {which}"
        );
        assert!(queue.near_max <= 2 * workers, "{which}");
    }
    let per_event = |report: &Report| report.queue.entered as f64 / report.events as f64;
    assert!(
        per_event(&long) <= per_event(&short) * 1.02,
        "{:?} and {:?}",
        short.queue,
        long.queue
    );
}

#[test]
fn events_of_384_threads_enter_the_queue_once() {
    let channels: Hackbench = "g=32".parse().unwrap();
    check("epyc-9654-2s", Model::Shipped, &channels, 100, 1);
    let pipes: Hackbench = "g=32,via=pipe".parse().unwrap();
    check("epyc-9654-2s", Model::Shipped, &pipes, 250, 2);
    // Ticks of 384 CPUs and wakes of idle ones, of which there are many to begin with.
    check("epyc-9654-2s", KERNEL, &pipes, 250, 25);
}

#[test]
fn sleeping_tasks_enter_the_queue_once_too() {
    // Most of what happens is timers.
    let workload: Schbench = "t=96".parse().unwrap();
    check("milan-2s", Model::Shipped, &workload, 5_000, 60);
}

#[test]
fn twice_the_time_is_twice_the_events() {
    let workload: Hackbench = "g=32".parse().unwrap();
    let events = |us: u64| {
        let simulated = run(
            "epyc-9654-2s",
            "default",
            Model::Shipped,
            workload.clone(),
            1,
            Nanos(us * 1_000),
        );
        simulated.events as f64
    };
    let ratio = events(400) / events(200);
    assert!((1.5..2.5).contains(&ratio), "{ratio}");
}
