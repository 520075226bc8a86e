//! A machine on which the test decides what every worker does: each is held by a puppet that does what it is told,
//! until the test lets it go; and on each lives a task, its resident, that waits to be woken.
//!
//! So a wake-up has the waker, the home and the idle workers that a test needs, on two processors as on two hundred,
//! and the counters say what became of it. Nothing depends on how fast anything runs.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Poll, Waker};
use std::thread;

use quadrille::metrics::{LlcMetrics, WorkerMetrics};
use quadrille::topology::Topology;
use quadrille::{Runtime, spawn};

use crate::wait::eventually;

type Job = Box<dyn FnOnce() + Send>;

/// The machine, all workers held.
pub(crate) struct Stage {
    /// By worker: what tells its puppet what to do; `None`: the worker is free. Dropped first, so that the puppets end.
    strings: Vec<Option<Sender<Job>>>,
    runtime: Runtime,
    /// By worker: the task whose home it is.
    residents: Vec<Arc<Resident>>,
}

/// A task that waits, and notes where it ran.
#[derive(Debug, Default)]
struct Resident(Mutex<Life>);

#[derive(Debug, Default)]
struct Life {
    waker: Option<Waker>,
    ran_on: Vec<usize>,
}

/// The number of the calling worker, from its thread's name.
fn here() -> usize {
    let thread = thread::current();
    let number = thread.name().and_then(|name| name.rsplit('-').next());
    number.and_then(|number| number.parse().ok()).expect("a worker's name")
}

/// Runs on a worker: its number and its strings to `ready`, and then what comes down the strings.
fn puppet(ready: &Sender<(usize, Sender<Job>)>) {
    let (strings, jobs): (_, Receiver<Job>) = channel();
    ready.send((here(), strings)).unwrap();
    for job in jobs {
        job();
    }
}

/// A resident's life: waits, and notes where it ran. `settled` is called in its first run.
fn reside(settled: impl FnOnce(Arc<Resident>) + Send + 'static) -> impl Future<Output = ()> + Send {
    let (resident, mut settled) = (Arc::new(Resident::default()), Some(settled));
    std::future::poll_fn(move |cx| {
        let mut life = resident.0.lock().unwrap();
        life.ran_on.push(here());
        life.waker = Some(cx.waker().clone());
        drop(life);
        if let Some(settled) = settled.take() {
            settled(resident.clone());
        }
        Poll::Pending
    })
}

impl Stage {
    pub(crate) fn new(machine: &str, config: &str) -> Self {
        let topology: Topology = machine.parse().unwrap();
        let workers = topology.pus().len();
        let runtime = Runtime::builder()
            .worker_threads(workers)
            .topology(topology)
            .config(config.parse().unwrap())
            .build()
            .unwrap();
        let mut stage = Self {
            runtime,
            strings: (0..workers).map(|_| None).collect(),
            residents: Vec::new(),
        };
        stage.settle_residents(workers);
        for _ in 0..workers {
            stage.hold_any();
        }
        stage
    }

    /// One task a worker: all meet, so that no worker runs two of them.
    fn settle_residents(&mut self, workers: usize) {
        let (all, (settled, places)) = (Arc::new(Barrier::new(workers)), channel());
        for _ in 0..workers {
            let (all, settled) = (all.clone(), settled.clone());
            drop(self.runtime.spawn(reside(move |resident| {
                settled.send((here(), resident)).unwrap();
                all.wait();
            })));
        }
        let mut residents: Vec<_> = places.iter().take(workers).collect();
        residents.sort_by_key(|(worker, _)| *worker);
        self.residents = residents.into_iter().map(|(_, resident)| resident).collect();
    }

    /// While all are held: `count` more residents on `worker`. Their numbers.
    pub(crate) fn settle(&mut self, worker: usize, count: usize) -> Vec<usize> {
        let (settled, places) = channel();
        self.on(worker, move || {
            for _ in 0..count {
                let settled = settled.clone();
                drop(spawn(reside(move |resident| settled.send((here(), resident)).unwrap())));
            }
        });
        self.let_go(&[worker]);
        let first = self.residents.len();
        for (at, resident) in places.iter().take(count) {
            assert_eq!(at, worker, "nobody else is free");
            self.residents.push(resident);
        }
        self.hold(&[worker]);
        (first..first + count).collect()
    }

    /// A held worker makes `count` tasks that end at once; what is returned says when all have.
    pub(crate) fn make(&self, worker: usize, count: usize) -> Made {
        let (alive, made) = channel();
        self.on(worker, move || {
            for _ in 0..count {
                let alive = alive.clone();
                drop(spawn(async move { drop(alive) }));
            }
        });
        Made(made)
    }

    /// While all are held: the worker makes `count` tasks that end at once, and runs them.
    pub(crate) fn work(&mut self, worker: usize, count: usize) {
        let made = self.make(worker, count);
        self.let_go(&[worker]);
        made.all_ended();
        self.hold(&[worker]);
    }

    /// Does something on a held worker, and waits until it is done.
    fn on(&self, worker: usize, job: impl FnOnce() + Send + 'static) {
        let (done, finished) = channel();
        let job = move || {
            job();
            done.send(()).unwrap();
        };
        self.strings[worker].as_ref().unwrap().send(Box::new(job)).unwrap();
        finished.recv().unwrap();
    }

    /// Holds a free worker, whichever comes.
    fn hold_any(&mut self) -> usize {
        let (ready, puppets) = channel();
        drop(self.runtime.spawn(async move { puppet(&ready) }));
        let (worker, strings) = puppets.recv().unwrap();
        self.strings[worker] = Some(strings);
        worker
    }

    /// Holds these workers, which are free.
    pub(crate) fn hold(&mut self, wanted: &[usize]) {
        let mut others = Vec::new();
        while wanted.iter().any(|worker| self.strings[*worker].is_none()) {
            let worker = self.hold_any();
            others.extend(Some(worker).filter(|worker| !wanted.contains(worker)));
        }
        self.let_go(&others);
    }

    /// Lets these workers do what they want, and waits until every free worker is idle.
    pub(crate) fn let_go(&mut self, workers: &[usize]) {
        for worker in workers {
            self.strings[*worker] = None;
        }
        self.settled();
    }

    /// Waits until every free worker is idle.
    pub(crate) fn settled(&self) {
        let free = self.strings.iter().filter(|strings| strings.is_none()).count();
        eventually("free workers are idle", || {
            self.runtime.metrics().idle_workers as usize == free
        });
    }

    /// Lets all go but these.
    pub(crate) fn let_go_but(&mut self, held: &[usize]) {
        let free: Vec<usize> = (0..self.strings.len())
            .filter(|worker| !held.contains(worker))
            .collect();
        self.let_go(&free);
    }

    /// Wakes the resident of `home` by the held worker `waker`. Returns what that worker's counters say happened.
    pub(crate) fn wake(&self, waker: usize, home: usize) -> Wake {
        let before = self.runtime.metrics().workers[waker];
        let resident = self.residents[home].0.lock().unwrap().waker.clone().unwrap();
        self.on(waker, || resident.wake());
        Wake {
            before,
            after: self.runtime.metrics().workers[waker],
        }
    }

    /// Waits until the resident of `home` has run `times` times, its first included; where it ran last.
    pub(crate) fn ran(&self, home: usize, times: usize) -> usize {
        let life = || self.residents[home].0.lock().unwrap();
        eventually("the task runs", || life().ran_on.len() >= times);
        let life = life();
        assert_eq!(life.ran_on.len(), times, "it ran once a wake-up");
        *life.ran_on.last().unwrap()
    }

    /// Waits until what is sampled of a last-level cache satisfies `settled`.
    pub(crate) fn load(&self, llc: usize, settled: impl Fn(&LlcMetrics) -> bool) {
        eventually("the load is sampled", || settled(&self.runtime.metrics().llcs[llc]));
    }

    /// The counters of all workers.
    pub(crate) fn total(&self) -> WorkerMetrics {
        self.runtime.metrics().total()
    }
}

/// Tasks that were made, each of which has an end of this.
pub(crate) struct Made(Receiver<()>);

impl Made {
    /// Waits until all have ended.
    pub(crate) fn all_ended(self) {
        assert!(self.0.recv().is_err(), "nothing is sent");
    }
}

/// The waker's counters around a wake-up.
pub(crate) struct Wake {
    before: WorkerMetrics,
    after: WorkerMetrics,
}

impl Wake {
    /// How much a counter grew by.
    pub(crate) fn counted(&self, counter: impl Fn(&WorkerMetrics) -> u64) -> u64 {
        counter(&self.after) - counter(&self.before)
    }
}
