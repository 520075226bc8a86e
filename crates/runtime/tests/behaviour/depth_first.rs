//! What a worker begins while a task waits for another: the newest first, and not for ever.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use quadrille::task::{JoinSet, yield_now};
use quadrille::{Runtime, spawn};

use crate::wait::watched;

/// Children of a task that is no leaf.
const CHILDREN: usize = 10;

fn one_worker(config: &str) -> Runtime {
    Runtime::builder()
        .worker_threads(1)
        .config(format!("{config},slot-time=1s").parse().unwrap())
        .build()
        .unwrap()
}

/// Tasks that are alive, having been made.
#[derive(Debug, Default)]
struct Census {
    alive: AtomicUsize,
    most: AtomicUsize,
    ended: AtomicUsize,
}

/// Counts while it lives.
struct Counted(Arc<Census>);

impl Counted {
    fn new(census: &Arc<Census>) -> Self {
        // Ordering: SeqCst; a test.
        let alive = census.alive.fetch_add(1, Ordering::SeqCst) + 1;
        census.most.fetch_max(alive, Ordering::SeqCst);
        Self(census.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

/// A tree of tasks: how many leaves it has.
fn tree(levels: u32, counted: Counted, by_set: bool) -> Pin<Box<dyn Future<Output = usize> + Send>> {
    Box::pin(async move {
        if levels == 0 {
            return 1;
        }
        let child = || tree(levels - 1, Counted::new(&counted.0), by_set);
        let mut leaves = 0;
        if by_set {
            let mut children = JoinSet::new();
            (0..CHILDREN).for_each(|_| drop(children.spawn(child())));
            while let Some(child) = children.join_next().await {
                leaves += child.unwrap();
            }
        } else {
            let children: Vec<_> = (0..CHILDREN).map(|_| spawn(child())).collect();
            for child in children {
                leaves += child.await.unwrap();
            }
        }
        leaves
    })
}

/// The most tasks that a tree of 10,000 leaves has alive at once.
fn most_alive(config: &str, by_set: bool) -> usize {
    let runtime = one_worker(config);
    let census = Arc::new(Census::default());
    let root = runtime.spawn(tree(4, Counted::new(&census), by_set));
    assert_eq!(runtime.block_on(root).unwrap(), CHILDREN.pow(4));
    census.most.load(Ordering::SeqCst)
}

#[test]
fn a_tree_has_few_tasks_alive() {
    watched("a tree of tasks", || {
        for by_set in [false, true] {
            let (depth, breadth) = (most_alive("default", by_set), most_alive("join-polls=0", by_set));
            assert!(depth < 1_500, "{depth} were alive at once, by a set: {by_set}");
            assert!(breadth > 5_000, "the oldest first: {breadth}, by a set: {by_set}");
        }
    });
}

/// How many tasks of a tree of 11,111 have ended before a task has its turn that was spawned after the root.
fn ended_before_a_witness(config: &str) -> usize {
    let runtime = one_worker(config);
    let census = Arc::new(Census::default());
    let ended = runtime.spawn(async move {
        let tree = spawn(tree(4, Counted::new(&census), false));
        let witness = spawn(async move { census.ended.load(Ordering::SeqCst) });
        // By a turn of its own, so that nobody waits for the two but the runtime.
        while !tree.is_finished() || !witness.is_finished() {
            yield_now().await;
        }
        assert_eq!(tree.await.unwrap(), CHILDREN.pow(4));
        witness.await.unwrap()
    });
    runtime.block_on(ended).unwrap()
}

#[test]
fn a_tree_lets_others_have_their_turn() {
    watched("a tree beside a task", || {
        let [never, few, usual, all] = ["join-polls=0", "join-polls=4", "default", "join-polls=4294967295"];
        assert_eq!(ended_before_a_witness(never), 0);
        for (config, newest) in [(few, 4), (usual, 64)] {
            let ended = ended_before_a_witness(config);
            // Those that began, but those who wait for others; and who had waited for what ended.
            assert!((newest / 4..=newest + 4).contains(&ended), "{config}: {ended}");
        }
        assert!(ended_before_a_witness(all) >= 11_110);
    });
}

/// What was there before waits in its order, as does what comes from outside, and what has run before.
#[test]
fn only_what_was_just_spawned_goes_first() {
    watched("the order of tasks", || {
        let runtime = one_worker("default");
        let order = Arc::new(Mutex::new(Vec::new()));
        let said = order.clone();
        let say = move |what: &'static str| {
            let said = said.clone();
            move || said.lock().unwrap().push(what)
        };
        let all = runtime.spawn(async move {
            let task = |what| {
                let say = say(what);
                spawn(async move { say() })
            };
            let yields = {
                let (begins, goes_on) = (say("yields"), say("goes on"));
                spawn(async move {
                    begins();
                    yield_now().await;
                    goes_on();
                })
            };
            let old = task("old");
            // The oldest has its turn, and another streak begins.
            yield_now().await;
            let (first, second) = (task("first"), task("second"));
            first.await.unwrap();
            second.await.unwrap();
            old.await.unwrap();
            yields.await.unwrap();
        });
        runtime.block_on(all).unwrap();
        // "first" and "second" were spawned by the task that waits; what gave way has its place before them, and is no obstacle.
        assert_eq!(*order.lock().unwrap(), ["yields", "old", "second", "first", "goes on"]);
    });
}
