//! Workers whose tasks are not worth stealing are left alone.

use quadrille::policy::{Config, Nanos};
use quadrille::spawn;

use crate::shape::Shape;
use crate::wait::eventually;

const BATCHES: usize = 300;
const BATCH: usize = 100;

/// Two cheap hauls from either worker before it is spared, and now and then one that seems to pay because the thief was
/// preempted.
const SPARED_MAX: u64 = 50;

/// Steals, but for rescues, while one task spawns and joins batches. Every haul is cheap if a move costs more than any
/// task takes; none is if it costs nothing.
fn steals(move_cost: Nanos) -> u64 {
    let mut config = Config::default();
    config.steal.move_cost = move_cost;
    config.steal.pause = Nanos::from_millis(1000);
    let runtime = Shape::flat(2).builder().config(config).build().unwrap();
    let root = runtime.spawn(async {
        for _ in 0..BATCHES {
            let tasks: Vec<_> = (0..BATCH).map(|n| spawn(async move { n })).collect();
            for (n, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.await.unwrap(), n);
            }
        }
    });
    runtime.block_on(root).unwrap();
    let total = runtime.metrics().total();
    (total.steals_group + total.steals_llc).saturating_sub(total.rescues)
}

#[test]
fn a_victim_whose_tasks_end_at_once_is_left_alone() {
    // A worker that the machine does not run steals nothing, so the control may need several runs.
    eventually("more steals than that from a worker that is not spared", || {
        steals(Nanos(0)) > 4 * SPARED_MAX
    });
    let spared = steals(Nanos::from_millis(1));
    assert!(spared <= SPARED_MAX, "{spared} steals from spared workers");
}
