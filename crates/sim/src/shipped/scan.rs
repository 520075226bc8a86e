//! The search that the idle masks save: one worker after another, as the kernel goes through CPUs.
//!
//! With [`Model::ShippedScan`](crate::Model::ShippedScan) a waker that would ask the summary of a cache whether anybody
//! is idle there, and then claim by the masks, looks at its workers instead, from the one after the task's home worker
//! on, until one is idle. Each look reads the line of a worker's state. The masks remain for what goes to sleep and is
//! claimed, and cost what they cost.

use quadrille_policy::{LlcId, Nanos, TaskPolicy, WakeView};

use super::Shipped;
use crate::world::World;

impl Shipped {
    /// Looks for an idle worker behind `llc`, the task's home cache, if the policy would ask whether there is one.
    pub(super) fn scan(
        &mut self,
        world: &mut World,
        view: &mut WakeView,
        task: &TaskPolicy,
        llc: LlcId,
        t: &mut Nanos,
    ) {
        self.scanned = None;
        let Some(by) = view
            .waker
            .filter(|by| view.home_idle.is_empty() && *by != task.home_worker)
        else {
            return;
        };
        let workers = &world.policy.plan.llcs[llc.index()].workers;
        let home = workers.iter().position(|worker| *worker == task.home_worker);
        let start = home.map_or(0, |home| home + 1);
        let (mut steps, mut found) = (0, None);
        for worker in workers[start..].iter().chain(&workers[..start]) {
            steps += 1;
            t.0 += self.sleepers.read_state(world, *worker, by).0;
            let seat = self.sleepers.seat(*worker);
            if self.sleepers.members(seat.group) & (1 << seat.member) != 0 {
                found = Some(seat);
                break;
            }
        }
        view.llc_has_idle = found.is_some();
        self.scanned = Some((llc, found));
        world.counters(by).search_steps += steps;
    }
}

#[cfg(test)]
mod tests {
    use crate::{Cost, Hackbench, Machine, Model, Nanos, Report, Simulation};

    fn run(model: Model, config: &str, cost: &str) -> Report {
        let machine: Machine = "l2:16 pu:2".parse().unwrap();
        let workload: Hackbench = "g=4,f=8,c=8".parse().unwrap();
        let (cost, config): (Cost, _) = (cost.parse().unwrap(), config.parse().unwrap());
        let simulation = Simulation::new(machine, cost, config, model, workload, 1);
        simulation.unwrap().run(Nanos::from_millis(1))
    }

    #[test]
    fn without_masks_wakers_look_at_workers_and_pay_for_it() {
        let config = "groups=on,filter=off,short-runs=0";
        let scans = run(Model::ShippedScan, config, "default").total();
        let masks = run(Model::Shipped, config, "default").total();
        let steps = |count: &crate::Counters| count.search_steps / count.polls.max(1);
        assert!(steps(&scans) > steps(&masks), "{scans:?} {masks:?}");
        // Only the search reads those lines and takes those steps.
        let dear = "scan_step=1000";
        let done = |model, cost| run(model, config, cost).done;
        assert_eq!(done(Model::Shipped, dear), done(Model::Shipped, "default"));
        assert!(done(Model::ShippedScan, dear) < done(Model::ShippedScan, "default"));
    }
}
