//! What each step answers, by tables.

mod busy;
mod coupled;
mod home;
mod spawn;

use super::*;
use crate::{
    LlcView, Nanos, NodeId, Plan, PlanOptions, SetId, Tick,
    testing::{LARGE, NODES, ONE, PAIR, SIBLINGS, UNEVEN, VIEW, drawn, policy, random_view, task},
};
use alloc::{format, string::String};

fn check(machine: &str, config: &str, home_worker: u16, view: WakeView, expected: &str) {
    let policy = policy(machine, config);
    let mut task = task(&policy, home_worker);
    let (answer, _) = policy.place_wake(&view, &mut task, &mut Rng::new(1));
    assert_eq!(
        drawn(answer),
        expected,
        "{machine}, {config}, home {home_worker}, {view:?}"
    );
}
