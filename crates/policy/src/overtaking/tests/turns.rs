//! A worker that has two queues and does what the policy says: who has how many turns, and how long one waits.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::{format, vec};

use super::*;
use crate::Rng;

/// A worker's queues, and what has run of them.
struct Model {
    overtaking: Overtaking,
    deque: VecDeque<u64>,
    /// The index of its front.
    front: u64,
    bound: VecDeque<u64>,
    bound_first: bool,
    now: u64,
    looked_up: u64,
    ran: BTreeMap<u64, u64>,
    /// Those that are marked as long.
    marked: BTreeSet<u64>,
}

impl Model {
    fn new(tasks: impl IntoIterator<Item = u64>, bound: impl IntoIterator<Item = u64>) -> Self {
        Self {
            overtaking: on(),
            deque: tasks.into_iter().collect(),
            front: 0,
            bound: bound.into_iter().collect(),
            bound_first: false,
            now: 0,
            looked_up: 0,
            ran: BTreeMap::new(),
            marked: BTreeSet::new(),
        }
    }

    fn pop(&mut self, is_bound: bool) -> Option<u64> {
        if is_bound {
            return self.bound.pop_front();
        }
        let popped = self.deque.pop_front();
        self.front += u64::from(popped.is_some());
        popped
    }

    fn push(&mut self, task: u64, is_bound: bool) {
        if is_bound {
            self.bound.push_back(task);
        } else {
            self.deque.push_back(task);
        }
    }

    fn meets(&mut self, task: u64) {
        if self.overtaking.meets(task, self.marked.contains(&task)) {
            self.marked.insert(task);
        } else {
            self.marked.remove(&task);
        }
    }

    fn looks_up(&mut self) {
        let elapsed = self.now - core::mem::replace(&mut self.looked_up, self.now);
        self.overtaking.looks_up(us(elapsed), LOOK_UP, self.front);
    }

    /// The next task, which takes that many microseconds, and whether it is bound, as a worker goes on.
    fn next(&mut self, took: impl Fn(u64) -> u64) -> (u64, bool) {
        if self.overtaking.needs_time() {
            self.overtaking.ended(us(self.now));
        }
        let mut is_bound = !self.bound.is_empty() && (self.bound_first || self.deque.is_empty());
        let mut task = self.pop(is_bound).unwrap();
        if self.overtaking.is_on() {
            self.meets(task);
        }
        let mut left = [self.deque.len(), self.bound.len()];
        while self.overtaking.is_on() && self.overtaking.may_pass(task) {
            self.overtaking.ended(us(self.now));
            let at = (!is_bound).then_some(self.front + self.deque.len() as u64);
            if !self.overtaking.passes(task, us(self.now), self.front, at) {
                break;
            }
            self.push(task, is_bound);
            if left[usize::from(is_bound)] == 0 {
                is_bound = !is_bound;
            }
            if left == [0, 0] {
                self.overtaking.nobody_else();
                left = [self.deque.len(), self.bound.len()];
                is_bound = left[0] == 0;
            }
            left[usize::from(is_bound)] -= 1;
            task = self.pop(is_bound).unwrap();
            self.meets(task);
        }
        self.bound_first = !is_bound && !self.bound.is_empty();
        if self.overtaking.is_on() {
            self.overtaking.begins(task);
        }
        self.now += took(task);
        *self.ran.entry(task).or_default() += 1;
        (task, is_bound)
    }
}

fn piece(task: u64) -> u64 {
    50 + 37 * task % 150
}

/// Microseconds.
const SIMULATED: u64 = 60_000;

/// All of them give way, and of the long ones and of the short ones each so manieth is bound: how often each ran, and
/// how long one waited at most.
fn simulate((long, short): (u64, u64), bound: [u64; 2], seed: u64) -> (BTreeMap<u64, u64>, Nanos) {
    let mut rng = Rng::new(seed);
    let is_bound = |task: &u64| task.is_multiple_of(bound[usize::from(*task > long)]);
    let all = 1..=long + short;
    let mut model = Model::new(all.clone().filter(|task| !is_bound(task)), all.clone().filter(is_bound));
    let mut since = vec![0; usize::try_from(long + short + 1).unwrap()];
    let mut longest = 0;
    while model.now < SIMULATED {
        // One is stolen, loses its place, and comes back.
        if rng.below(64) == 0 && !model.deque.is_empty() {
            let stolen = model.pop(false).unwrap();
            since[usize::try_from(stolen).unwrap()] = model.now;
            model.push(stolen, false);
        }
        let (task, is_bound) = model.next(|task| if task <= long { piece(task) } else { 1 });
        let since = &mut since[usize::try_from(task).unwrap()];
        longest = longest.max(model.now - *since);
        *since = model.now;
        model.push(task, is_bound);
    }
    (model.ran, us(longest))
}

#[test]
fn each_has_its_turn_and_short_ones_sooner() {
    const NONE: u64 = 1_000;
    for (long, short) in [(1, 1), (2, 1), (4, 4), (8, 2), (8, 0), (30, 3)] {
        for (bound, seed) in [[NONE, NONE], [2, 2], [1, NONE], [3, 1]]
            .into_iter()
            .flat_map(|bound| (0..2).map(move |seed| (bound, seed)))
        {
            let case = format!("{long} {short} {bound:?} {seed}");
            let (ran, longest) = simulate((long, short), bound, seed);
            let round: u64 = (1..=long).map(piece).sum();
            let limit = us(2 * round + 100 * (long + short));
            assert!(longest <= limit, "{case}: {longest:?} of {limit:?}");
            let long_ran = ran.range(..=long).map(|(_, ran)| ran);
            let (least, most) = (long_ran.clone().min().unwrap(), long_ran.max().unwrap());
            assert!(most - least <= 2 + most / 10, "{case}: {ran:?}");
            if short > 0 {
                let all_short: u64 = ran.range(long + 1..).map(|(_, ran)| ran).sum();
                assert!(all_short > SIMULATED / 3, "{case}: {ran:?}");
            }
        }
    }
}

/// Others that are long and unknown have no turns, and nobody waits for as long as they take.
#[test]
fn a_long_task_has_its_turn_beside_new_ones_that_compute() {
    const SPAWNS: u64 = 1;
    const LONG: u64 = 2;
    let mut model = Model::new([SPAWNS, LONG], []);
    let mut new = 3;
    for _ in 0..3_000 {
        match model.next(|task| if task == SPAWNS { 1 } else { 200 }).0 {
            SPAWNS => {
                new += 1;
                model.deque.extend([new, SPAWNS]);
            }
            LONG => model.deque.push_back(LONG),
            _ => {}
        }
    }
    assert!(model.ran[&LONG] > 400, "{} of 3,000", model.ran[&LONG]);
}

#[test]
fn a_hundred_long_ones_all_wait_for_their_turn() {
    let (ran, longest) = simulate((100, 4), [1_000, 1_000], 0);
    assert!((1..=100).all(|task| ran[&task] >= 2), "{ran:?}");
    let short: u64 = (101..=104).map(|task| ran[&task]).sum();
    // Two rounds of 12 ms pass before all are known.
    assert!(short > SIMULATED / 5, "{short} in {longest:?}");
}

/// They have come to it marked, so that each time that it was on they were known, and passed over.
#[test]
fn long_ones_have_turns_where_it_takes_very_long_to_come_to_them_again() {
    for short in [60, 700, 2_000] {
        let mut model = Model::new(1..=3 + short, []);
        model.marked.extend(1..=3);
        while model.now < 1_000_000 {
            model.looks_up();
            let (task, is_bound) = model.next(|task| if task <= 3 { 200 } else { 30 });
            model.push(task, is_bound);
        }
        let circle = 30 * short + 600;
        for task in 1..=3 {
            let ran = model.ran.get(&task).copied().unwrap_or(0);
            assert!(ran * 4 * circle >= 1_000_000, "{short}: {task} {ran}");
        }
    }
}
