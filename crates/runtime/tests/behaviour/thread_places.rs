//! Where the threads of one spawner go: a thread stays where it begins, so they must not all begin with it.

use std::collections::BTreeMap;

use quadrille::thread::ThreadState;
use quadrille::{Handle, Runtime, Wait, task};

use crate::count::Count;
use crate::gate::Gate;
use crate::wait::eventually;

/// Threads that are spawned in one go.
const THREADS: usize = 64;

/// The most that there are at a time.
const THREADS_MAX: usize = 16 * THREADS;

/// A runtime with so many workers, whatever this machine has.
fn runtime(workers: usize) -> Runtime {
    let machine = quadrille::topology::Topology::flat(u16::try_from(workers).unwrap());
    Runtime::builder()
        .worker_threads(workers)
        .topology(machine)
        .build()
        .unwrap()
}

/// By worker: threads that have begun there and have not ended, as the list has them.
fn places(handle: &Handle) -> BTreeMap<usize, usize> {
    let mut places = BTreeMap::new();
    for thread in handle.threads() {
        if let ThreadState::Ready { worker } | ThreadState::Running { worker } | ThreadState::Suspended { worker, .. } =
            thread.state
        {
            *places.entry(worker).or_default() += 1;
        }
    }
    places
}

/// Threads which say that they have begun, and stay until the gate is open.
fn spawn_threads(handle: &Handle, begun: &Count, gate: &Gate) -> Vec<quadrille::thread::JoinHandle<()>> {
    let thread = |_| {
        let (begun, gate) = (begun.clone(), gate.clone());
        handle.spawn_thread(move || {
            begun.add();
            gate.pass().wait();
        })
    };
    (0..THREADS).map(thread).collect()
}

/// The spawner does not give way until they all have begun: none is with it, and none waits for it.
#[test]
fn threads_of_a_spawner_that_goes_on_begin_elsewhere() {
    for workers in [2, 3, 5] {
        let runtime = runtime(workers);
        let (begun, gate, spawned, goes_on) = (Count::default(), Gate::default(), Gate::default(), Gate::default());
        let (handle, has_spawned, held) = (runtime.handle().clone(), spawned.clone(), goes_on.clone());
        let (count, stay) = (begun.clone(), gate.clone());
        let spawner = runtime.handle().spawn_pinned_on(0, move || async move {
            let threads = spawn_threads(&handle, &count, &stay);
            has_spawned.open();
            held.block();
            threads
        });
        spawned.block();
        eventually("all have begun", || begun.get() == THREADS);
        let places = places(runtime.handle());
        goes_on.open();
        gate.open();
        let threads = runtime.block_on(spawner).unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(places.values().sum::<usize>(), THREADS, "{workers} workers: {places:?}");
        assert_eq!(places.get(&0), None, "{workers} workers: {places:?}");
    }
}

/// Whether each of two workers has a fourth of all threads.
fn is_shared(places: &BTreeMap<usize, usize>) -> bool {
    let all: usize = places.values().sum();
    (0..2).all(|worker| places.get(&worker).is_some_and(|count| *count >= all / 4))
}

/// Spawns threads from worker 0, which runs them itself as soon as it likes, until they are shared or there are many;
/// what the list says then.
async fn round(handle: Handle) -> BTreeMap<usize, usize> {
    let (begun, gate) = (Count::default(), Gate::default());
    let mut threads = Vec::new();
    let places = loop {
        threads.extend(spawn_threads(&handle, &begun, &gate));
        while begun.get() < threads.len() {
            task::yield_now().await;
        }
        let places = places(&handle);
        assert_eq!(places.values().sum::<usize>(), threads.len(), "{places:?}");
        if is_shared(&places) || threads.len() >= THREADS_MAX {
            break places;
        }
    };
    gate.open();
    for thread in threads {
        thread.await.unwrap();
    }
    places
}

/// The spawner gives way at once, and its worker could have them all. The other one needs a processor to take its
/// share: where it gets one late, which a loaded machine is free to do, another round shows it.
#[test]
fn threads_of_a_spawner_that_gives_way_are_shared() {
    let runtime = runtime(2);
    eventually("of one spawner's threads each worker has a fourth", || {
        let handle = runtime.handle().clone();
        let spawner = runtime.handle().spawn_pinned_on(0, move || round(handle));
        is_shared(&runtime.block_on(spawner).unwrap())
    });
}
