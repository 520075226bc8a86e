//! Which coupling set a task is born into.

use std::collections::BTreeMap;

use quadrille_policy::{Policy, SetId};

use crate::workload::{Kin, TaskId};

/// Numbers of declared sets and of programs are below, those of spawn roots from here on. The runtime takes all of them
/// from one counter; here they are dense of their kind, so that tables can be indexed by them.
pub(crate) const ROOTS: u32 = 1 << 27;

/// A set that a workload has numbered.
#[derive(Debug)]
struct Numbered {
    /// The number that the policies see.
    number: u32,
    /// Tasks that have not ended, and all that were ever made.
    living: u32,
    made: u32,
}

/// The sets of a workload.
#[derive(Debug, Default)]
pub(crate) struct Families {
    declared: BTreeMap<u32, Numbered>,
    programs: BTreeMap<u32, Numbered>,
    numbers: u32,
    /// By task: how it was made, and its number in a set that is spread. Not with the task, which is looked at all the
    /// time.
    births: Vec<(Kin, Option<u32>)>,
}

impl Families {
    /// The set of the new task `id`, the next one; of the set `spawner` is who has spawned it, if a task has.
    pub(crate) fn born(&mut self, kin: Kin, id: TaskId, spawner: Option<SetId>, policy: &Policy) -> SetId {
        let (set, turn) = self.enter(kin, id, spawner, policy);
        self.births.push((kin, turn));
        set
    }

    /// How many tasks of a set that is spread were before this one.
    pub(crate) fn turn(&self, id: TaskId) -> Option<u32> {
        self.births[id.index()].1
    }

    fn enter(&mut self, kin: Kin, id: TaskId, spawner: Option<SetId>, policy: &Policy) -> (SetId, Option<u32>) {
        match kin {
            Kin::Inherited => (spawner.map_or(root(id), SetId::inherited), None),
            Kin::Program(set) => {
                let family = numbered(&mut self.programs, &mut self.numbers, set);
                (SetId::root(family.number.into()), None)
            }
            Kin::Declared(set) => {
                let family = numbered(&mut self.declared, &mut self.numbers, set);
                let set = SetId::declared(family.number.into());
                family.living += 1;
                family.made += 1;
                let is_packed = family.living <= policy.config.numa.small_set;
                (if is_packed { set.packed() } else { set }, None)
            }
            Kin::Spread(set) => {
                let family = numbered(&mut self.declared, &mut self.numbers, set);
                family.living += 1;
                family.made += 1;
                let set = SetId::declared(family.number.into()).spread();
                (set, Some(family.made - 1))
            }
        }
    }

    /// A task has ended.
    pub(crate) fn died(&mut self, id: TaskId) {
        if let Kin::Declared(set) | Kin::Spread(set) = self.births[id.index()].0
            && let Some(family) = self.declared.get_mut(&set)
        {
            family.living -= 1;
        }
    }
}

/// The name of a task in the books of the policies.
pub(crate) fn name(id: TaskId) -> u64 {
    u64::from(ROOTS) + u64::from(id.0)
}

fn root(id: TaskId) -> SetId {
    SetId::root(name(id))
}

fn numbered<'a>(families: &'a mut BTreeMap<u32, Numbered>, numbers: &mut u32, set: u32) -> &'a mut Numbered {
    families.entry(set).or_insert_with(|| {
        *numbers += 1;
        Numbered {
            number: *numbers,
            living: 0,
            made: 0,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Machine};
    use quadrille_policy::Plan;

    fn policy() -> Policy {
        let machine: Machine = "node:2 llc:2 core:4".parse().unwrap();
        let config = Config::default();
        let plan = Plan::compile(machine.topology(), &config.plan_options(None)).unwrap();
        Policy::new(config, plan)
    }

    #[test]
    fn numbers_are_dense_and_sets_of_one_number_are_one() {
        let (policy, mut families) = (policy(), Families::default());
        let mut born = |kin, id, spawner| families.born(kin, TaskId(id), spawner, &policy);
        let program = born(Kin::Program(900), 0, None);
        assert_eq!((program.number(), program.is_declared()), (1, false));
        assert_eq!(born(Kin::Program(900), 1, None), program);
        let declared = born(Kin::Declared(900), 2, None);
        assert_eq!((declared.number(), declared.is_declared()), (2, true));
        let own = born(Kin::Inherited, 3, None);
        assert!(own.is_root(name(TaskId(3))) && own.number() == ROOTS + 3);
        assert_eq!(born(Kin::Inherited, 4, Some(declared)), declared.inherited());
        assert_eq!(born(Kin::Inherited, 5, Some(own)), own);
    }

    #[test]
    fn the_first_few_of_a_declared_set_are_packed() {
        let (policy, mut families) = (policy(), Families::default());
        let small = policy.config.numa.small_set;
        let packed =
            |families: &mut Families, id| families.born(Kin::Declared(1), TaskId(id), None, &policy).is_packed();
        assert!((0..small).all(|id| packed(&mut families, id)) && !packed(&mut families, small));
        (0..2).for_each(|id| families.died(TaskId(id)));
        assert!(packed(&mut families, small + 1));
    }

    #[test]
    fn spread_tasks_take_turns() {
        let (policy, mut families) = (policy(), Families::default());
        for id in 0..3 {
            let set = families.born(Kin::Spread(1), TaskId(id), None, &policy);
            assert!(set.is_spread() && !set.is_packed());
            assert_eq!(families.turn(TaskId(id)), Some(id));
        }
    }
}
