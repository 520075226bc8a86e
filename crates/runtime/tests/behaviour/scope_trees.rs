//! Scopes of threads and tasks inside of one another, at random: whatever becomes of those inside, and of who waits for
//! them, nobody leaves a scope before they have ended.
//!
//! Threads wait, panic, block in place, spend their budget and are aborted; at some time the runtime ends.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quadrille::task::{self, block_in_place};
use quadrille::time::sleep;
use quadrille::{JoinSet, Wait as _, coop, thread};

use crate::count::Count;
use crate::gate::Gate;
use crate::rng::Rng;
use crate::shape::{Shape, for_each_shape_if};

/// What all have.
#[derive(Clone, Default)]
struct World {
    gate: Gate,
    begun: Count,
    ended: Count,
    /// Who has left a scope too early, or was there too long.
    wrong: Count,
    /// Whether some wait at the gate.
    waits: bool,
}

/// In the number of those inside of a scope, once it was left.
const LEFT: usize = 1 << 32;

/// Somebody inside of a scope, which must not be left before this is dropped.
struct Inside<'a>(&'a AtomicUsize, &'a World);

impl<'a> Inside<'a> {
    fn new(inside: &'a AtomicUsize, world: &'a World) -> Self {
        inside.fetch_add(1, Ordering::SeqCst);
        world.begun.add();
        Self(inside, world)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if self.0.fetch_sub(1, Ordering::SeqCst) >= LEFT {
            self.1.wrong.add();
        }
        self.1.ended.add();
    }
}

/// Dropped when the scope was left, in whatever way.
struct Outside<'a>(&'a AtomicUsize, &'a World);

impl Drop for Outside<'_> {
    fn drop(&mut self) {
        if self.0.swap(LEFT, Ordering::SeqCst) != 0 {
            self.1.wrong.add();
        }
    }
}

/// Something that a thread does.
fn act(rng: &mut Rng, world: &World) {
    match rng.below(12) {
        0 => (0..rng.below(5)).for_each(|_| thread::yield_now()),
        1 if world.waits => world.gate.pass().wait(),
        2 => sleep(Duration::from_micros(rng.below(300))).wait(),
        // Without a message.
        3 => resume_unwind(Box::new(())),
        4 => (0..200).for_each(|_| coop::consume_budget().wait()),
        5 => block_in_place(std::thread::yield_now),
        6 => {
            let gate = world.gate.clone();
            let other = thread::spawn(move || gate.pass().wait());
            other.abort();
            _ = other.join();
        }
        7 => _ = catch_unwind(|| thread::park_timeout(Duration::from_micros(50))),
        _ => {}
    }
}

/// Something that a task does.
async fn act_as_task(rng: &mut Rng, world: &World) {
    match rng.below(10) {
        0 => task::yield_now().await,
        1 if world.waits => world.gate.pass().await,
        2 => sleep(Duration::from_micros(rng.below(300))).await,
        3 => resume_unwind(Box::new(())),
        4 => {
            for _ in 0..200 {
                coop::consume_budget().await;
            }
        }
        5 => block_in_place(std::thread::yield_now),
        6 => {
            let mut set = JoinSet::new();
            (0..rng.below(4)).for_each(|_| drop(set.spawn(world.gate.pass())));
            if rng.one_in(2) {
                set.shutdown().await;
            }
        }
        _ => {}
    }
}

/// A scope of threads, each of which may have scopes.
fn of_threads(inside: &AtomicUsize, mut rng: Rng, world: &World, depth: u64) {
    thread::scope(|scope| {
        let mut joined = Vec::new();
        for _ in 0..rng.below(4) {
            let (own, counted, depth) = (rng.fork(), Inside::new(inside, world), rng.below(depth));
            let handle = scope.spawn(move || {
                let _counted = counted;
                node(own, world, depth);
            });
            if rng.one_in(3) {
                joined.push(handle);
            }
        }
        scope.spawn(move || {
            thread::yield_now();
            let counted = Inside::new(inside, world);
            scope.spawn(move || drop(counted));
        });
        act(&mut rng, world);
        joined.into_iter().for_each(|handle| drop(handle.join()));
    });
}

/// A scope of tasks, each of which may spawn another into it.
fn of_tasks(inside: &AtomicUsize, mut rng: Rng, world: &World) {
    task::scope(|scope| {
        let mut joined = Vec::new();
        for _ in 0..rng.below(4) {
            let (mut own, counted) = (rng.fork(), Inside::new(inside, world));
            let handle = scope.spawn(async move {
                let _counted = counted;
                act_as_task(&mut own, world).await;
                let (mut other, counted) = (own.fork(), Inside::new(inside, world));
                drop(scope.spawn(async move {
                    let _counted = counted;
                    act_as_task(&mut other, world).await;
                }));
                act_as_task(&mut own, world).await;
            });
            match rng.below(4) {
                0 => joined.push(handle),
                1 => handle.abort(),
                _ => drop(handle),
            }
        }
        act(&mut rng, world);
        joined.into_iter().for_each(|handle| drop(handle.wait()));
    });
}

/// What a thread does, with a scope in the middle if it is not too deep.
fn node(mut rng: Rng, world: &World, depth: u64) {
    act(&mut rng, world);
    if depth == 0 {
        return;
    }
    let inside = AtomicUsize::new(0);
    let _outside = Outside(&inside, world);
    let (own, threads) = (rng.fork(), rng.one_in(2));
    let scope = || {
        if threads {
            of_threads(&inside, own, world, depth);
        } else {
            of_tasks(&inside, own, world);
        }
    };
    if rng.one_in(3) {
        _ = catch_unwind(AssertUnwindSafe(scope));
    } else {
        scope();
    }
    act(&mut rng, world);
}

/// Some trees, of whose roots some are aborted.
fn trees(shape: &Shape, seed: u64) {
    let mut rng = Rng::new(seed);
    let world = World {
        waits: seed.is_multiple_of(2),
        ..World::default()
    };
    let runtime = shape.runtime();
    let mut roots = Vec::new();
    for _ in 0..6 {
        let (own, world) = (rng.fork(), world.clone());
        roots.push(runtime.spawn_thread(move || node(own, &world, 4)));
    }
    for root in &roots {
        if rng.one_in(3) {
            root.abort();
        }
    }
    if rng.one_in(2) {
        world.gate.open();
        roots.drain(..3).for_each(|root| drop(root.join()));
    }
    drop(runtime);
    roots.into_iter().for_each(|root| drop(root.join()));
    let outcome = (world.wrong.get(), world.begun.get() - world.ended.get());
    assert_eq!(outcome, (0, 0), "seed {seed}");
}

#[test]
fn nobody_leaves_before_those_inside_have_ended() {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        |shape| (0..30).for_each(|seed| trees(shape, seed)),
    );
}
