//! The shapes that scenarios run on: numbers of workers, machines, policies.

use std::fmt::Debug;
use std::sync::Arc;

use quadrille::policy::{Adversary, Config};
use quadrille::task::block_in_place;
use quadrille::topology::Topology;
use quadrille::{Builder, JoinHandle, Runtime};

use crate::count::Count;
use crate::gate::Gate;
use crate::wait::{comes_to_rest, eventually, watched};

/// A kind of runtime.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) name: String,
    pub(crate) workers: usize,
    topology: Option<Topology>,
    config: Config,
}

impl Shape {
    /// So many workers on a machine without structure.
    pub(crate) fn flat(workers: usize) -> Self {
        let cpus = u16::try_from(workers).expect("shapes are small");
        Self {
            name: format!("{workers} workers"),
            workers,
            topology: Some(Topology::flat(cpus)),
            config: Config::default(),
        }
    }

    /// A worker a hardware thread of a machine that is written down.
    fn machine(text: &str) -> Self {
        let topology: Topology = text.parse().unwrap();
        Self {
            name: text.to_owned(),
            workers: topology.pus().len(),
            topology: Some(topology),
            config: Config::default(),
        }
    }

    fn config(mut self, name: &str, config: Config) -> Self {
        self.name = format!("{}, {name}", self.name);
        self.config = config;
        self
    }

    /// A builder with this shape's settings.
    pub(crate) fn builder(&self) -> Builder {
        let builder = Runtime::builder()
            .worker_threads(self.workers)
            .config(self.config.clone());
        match &self.topology {
            None => builder,
            Some(topology) => builder.topology(topology.clone()),
        }
    }

    /// A runtime of this shape.
    pub(crate) fn runtime(&self) -> Runtime {
        self.builder().build().unwrap()
    }
}

/// Every shape: counts of workers, structured machines, plain work stealing, and policies that answer nonsense (W4).
pub(crate) fn all() -> Vec<Shape> {
    let mut shapes: Vec<Shape> = [1, 2, 4, 16, 64].into_iter().map(Shape::flat).collect();
    shapes.push(Shape {
        topology: None,
        name: "this machine".to_owned(),
        ..Shape::flat(2)
    });
    shapes.push(Shape::machine("node:2 llc:2 core:4"));
    shapes.push(Shape::machine("llc:3 core:2 pu:2"));
    shapes.push(Shape::flat(4).config("baseline", Config::baseline()));
    // Groups of three over caches and nodes, whose lock is waited for.
    let scattered = "contention=spin,group-map=0+4+8/1+5+12/2+9+13/3+6-7/10-11+14-15";
    shapes.push(Shape::machine("node:2 llc:2 core:4").config("scattered", scattered.parse().unwrap()));
    let answering = |adversary| Config {
        adversary,
        ..Config::default()
    };
    for adversary in [Adversary::AlwaysWorkerZero, Adversary::Random, Adversary::Farthest] {
        let config = answering(adversary);
        shapes.push(Shape::machine("node:2 llc:2 core:2").config(&format!("{adversary:?}"), config.clone()));
        // Several groups behind one cache.
        shapes.push(Shape::machine("l2:4 core:2").config(&format!("{adversary:?}"), config));
    }
    // One that is small enough for every scenario.
    shapes.push(Shape::machine("llc:2 core:2").config("Random", answering(Adversary::Random)));
    shapes
}

/// Runs `scenario` on every shape that `wanted` picks, each under the watchdog.
pub(crate) fn for_each_shape_if(wanted: impl Fn(&Shape) -> bool, scenario: impl Fn(&Shape) + Send + Sync + 'static) {
    let scenario = Arc::new(scenario);
    for shape in all().into_iter().filter(|shape| wanted(shape)) {
        let scenario = scenario.clone();
        watched(&shape.name.clone(), move || scenario(&shape));
    }
}

/// Runs `scenario` on every shape.
pub(crate) fn for_each_shape(scenario: impl Fn(&Shape) + Send + Sync + 'static) {
    for_each_shape_if(|_| true, scenario);
}

/// Waits until the runtimes, of a shape each, rest: what `count` counts stays as it is. All at the same time, because
/// that takes a second.
pub(crate) fn come_to_rest<T: PartialEq + Debug>(runtimes: &[(Shape, Runtime)], count: impl Fn(&Runtime) -> T) {
    comes_to_rest(|| {
        let count = |(shape, runtime): &(Shape, Runtime)| (shape.name.clone(), count(runtime));
        runtimes.iter().map(count).collect()
    });
}

/// A runtime of every shape.
pub(crate) fn runtimes() -> Vec<(Shape, Runtime)> {
    let runtimes = all().into_iter().map(|shape| {
        let runtime = shape.runtime();
        (shape, runtime)
    });
    runtimes.collect()
}

/// Runs `scenario` on a user-level thread and on an ordinary one that has entered the runtime, on small shapes.
pub(crate) fn on_both_kinds(scenario: impl Fn() + Clone + Send + Sync + 'static) {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        move |shape| {
            let runtime = shape.runtime();
            runtime.spawn_thread(scenario.clone()).join().unwrap();
            let _guard = runtime.enter();
            scenario();
        },
    );
}

/// Workers that are held up, each by a task that blocks its thread. Dropping it releases them.
#[must_use]
pub(crate) struct Occupied {
    gate: Gate,
    tasks: Vec<JoinHandle<()>>,
}

impl Occupied {
    /// Lets the workers go on.
    pub(crate) fn release(mut self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.tasks)
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        self.gate.open();
    }
}

/// Holds up every worker of `runtime`: nothing runs there until they are released. Returns once all are held, which
/// also shows that every worker lives and gets work while others are stuck.
pub(crate) fn occupy(runtime: &Runtime) -> Occupied {
    hold_up(runtime, runtime.handle().worker_count())
}

/// Holds up so many workers of `runtime`.
pub(crate) fn hold_up(runtime: &Runtime, workers: usize) -> Occupied {
    hold_up_by(runtime, workers, |block| block())
}

/// Blocks in place on every worker of `runtime`.
pub(crate) fn occupy_in_place(runtime: &Runtime) -> Occupied {
    hold_up_by(runtime, runtime.handle().worker_count(), |block| block_in_place(block))
}

/// By tasks that let `call` call what blocks.
fn hold_up_by(runtime: &Runtime, workers: usize, call: fn(&mut dyn FnMut())) -> Occupied {
    let (gate, held) = (Gate::default(), Count::default());
    let tasks = (0..workers)
        .map(|_| {
            let (gate, held) = (gate.clone(), held.clone());
            runtime.spawn(async move {
                call(&mut || {
                    held.add();
                    gate.block();
                });
            })
        })
        .collect();
    let occupied = Occupied { gate, tasks };
    eventually("each of the workers is held up by one task", || held.get() == workers);
    occupied
}
