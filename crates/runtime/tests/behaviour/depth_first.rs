//! What a worker begins while a task waits for another: the newest first, and not for ever.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quadrille::task::{JoinSet, yield_now};
use quadrille::{Runtime, spawn, thread};

use crate::streaks::compute;
use crate::wait::watched;

/// Children of a task that is no leaf.
const CHILDREN: usize = 10;

fn one_worker(config: &str) -> Runtime {
    Runtime::builder()
        .worker_threads(1)
        .config(format!("slot-time=1s,overtake=off,{config}").parse().unwrap())
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

/// The same of threads, whose scope waits for them: nobody takes their handles.
fn tree_of_threads(levels: u32, counted: &Counted) {
    if levels > 0 {
        thread::scope(|scope| {
            for _ in 0..CHILDREN {
                let child = Counted::new(&counted.0);
                scope.spawn(move || tree_of_threads(levels - 1, &child));
            }
        });
    }
}

/// The most that a tree has alive at once of which `grow` makes the root.
fn most_alive(config: &str, grow: impl FnOnce(&Runtime, Counted)) -> usize {
    let runtime = one_worker(config);
    let census = Arc::new(Census::default());
    grow(&runtime, Counted::new(&census));
    census.most.load(Ordering::SeqCst)
}

/// A tree has few alive at once, and thousands if the oldest go first.
fn is_grown_depth_first(leaves: usize, grow: impl Fn(&Runtime, Counted)) {
    let (depth, breadth) = (most_alive("join-polls=64", &grow), most_alive("join-polls=0", &grow));
    assert!(depth < leaves / 6, "{depth} were alive at once");
    assert!(breadth > leaves / 2, "the oldest first: {breadth}");
}

#[test]
fn a_tree_has_few_tasks_alive() {
    watched("a tree of tasks", || {
        for by_set in [false, true] {
            is_grown_depth_first(CHILDREN.pow(4), |runtime, root| {
                let root = runtime.spawn(tree(4, root, by_set));
                assert_eq!(runtime.block_on(root).unwrap(), CHILDREN.pow(4));
            });
        }
    });
}

#[test]
fn a_tree_has_few_threads_alive() {
    watched("a tree of threads", || {
        is_grown_depth_first(CHILDREN.pow(3), |runtime, root| {
            runtime.spawn_thread(move || tree_of_threads(3, &root)).join().unwrap();
        });
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
        let [never, few, usual, all] = ["join-polls=0", "join-polls=4", "join-polls=64", "join-polls=4294967295"];
        assert_eq!(ended_before_a_witness(never), 0);
        for (config, newest) in [(few, 4), (usual, 64)] {
            let ended = ended_before_a_witness(config);
            // Those that began, but those who wait for others; and who had waited for what ended.
            assert!((newest / 4..=newest + 4).contains(&ended), "{config}: {ended}");
        }
        // Within 1 s, which is the longest that can be asked for: a busy machine may need another try.
        assert!((0..10).any(|_| ended_before_a_witness(all) >= 11_110));
    });
}

/// Runs `scenario` in a task on one worker, with what makes a note: the notes.
fn notes<F: Future<Output = ()> + Send + 'static>(
    config: &'static str,
    scenario: impl FnOnce(Arc<dyn Fn(&'static str) + Send + Sync>) -> F + Send + 'static,
) -> Vec<&'static str> {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let noted = notes.clone();
    watched("the order of tasks", move || {
        let note: Arc<dyn Fn(&'static str) + Send + Sync> = Arc::new(move |what| noted.lock().unwrap().push(what));
        let runtime = one_worker(config);
        runtime.block_on(runtime.spawn(scenario(note))).unwrap();
    });
    let notes = notes.lock().unwrap();
    notes.clone()
}

/// What was in the deque before the streak began waits in the order in which it came.
#[test]
fn what_was_there_before_keeps_its_place() {
    let order = notes("join-polls=64", |note| async move {
        let task = |what: &'static str| {
            let note = note.clone();
            spawn(async move { note(what) })
        };
        let joins = {
            let note = note.clone();
            spawn(async move {
                let [first, second] = ["first child", "second child"].map(|what| {
                    let note = note.clone();
                    spawn(async move { note(what) })
                });
                first.await.unwrap();
                second.await.unwrap();
            })
        };
        let others = ["b", "c", "d"].map(task);
        // Not by waiting for one of them.
        while !joins.is_finished() || !others.iter().all(quadrille::JoinHandle::is_finished) {
            yield_now().await;
        }
    });
    assert_eq!(order, ["second child", "first child", "b", "c", "d"]);
}

/// What has run and gives way keeps its place too, though it was spawned in this streak and lies behind what has not
/// begun.
#[test]
fn what_gives_way_keeps_its_place() {
    let order = notes("join-polls=64", |note| async move {
        let [first, yields, last] = ["first", "yields", "last"].map(|what| {
            let note = note.clone();
            spawn(async move {
                note(what);
                if what == "yields" {
                    yield_now().await;
                    note("goes on");
                }
            })
        });
        first.await.unwrap();
        yields.await.unwrap();
        last.await.unwrap();
    });
    // The last goes first, then the one that gives way: at the back it is no longer new, and the front has its turn.
    assert_eq!(order, ["last", "yields", "first", "goes on"]);
}

/// Tasks that compute for a millisecond go first for 10 us, not 64 times.
#[test]
fn time_ends_it_too() {
    let children = |config| {
        notes(config, |note| async move {
            let witness = note.clone();
            let joins = spawn(async move {
                let children: Vec<_> = (0..64)
                    .map(|_| {
                        let note = note.clone();
                        spawn(async move {
                            compute(Duration::from_millis(1));
                            note("child");
                        })
                    })
                    .collect();
                for child in children {
                    child.await.unwrap();
                }
            });
            let witness = spawn(async move { witness("witness") });
            while !joins.is_finished() || !witness.is_finished() {
                yield_now().await;
            }
        })
        .iter()
        .position(|what| *what == "witness")
    };
    // The clock is read before every eighth.
    assert!(children("slot-time=10us").is_some_and(|before| before <= 8));
    // A busy machine may take that for them.
    assert!((0..10).any(|_| children("slot-time=1s") == Some(64)));
}
