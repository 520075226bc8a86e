//! async-task as the oracle of the cell: both get the same events, and must do the same, in the same order.
//!
//! An event is an [`Act`](script::Act) or a run of the task, which does acts of its own. What is seen: polls, drops of
//! future and result, which joiner is woken, what joiners are told; and after each event how many runnables are queued,
//! whether a handle says that the task is finished, how many wakers of each joiner exist, and whether the memory is
//! freed.
//!
//! # What differs on purpose
//!
//! Each difference is one place in `theirs`, which makes async-task do as the cell does, so that everything else is
//! compared behind it.
//!
//! | | async-task | the cell |
//! |---|---|---|
//! | (D1) the last waker of a waiting task is dropped | joined: nothing; detached: closes it and queues it, to be dropped unpolled | queues it: it is polled once more |
//! | (D2) a poll is pending, nobody has a waker, and it was not woken | joined: it waits for ever; detached: frees it, and forgets the future | drops the future at once; the joiner is told |
//! | (D3) is a task finished whose runnable is being dropped? | yes | once its future is gone |
//! | (D4) the handle is dropped, and somebody waits at it | keeps the waker, and wakes it at the end | gives the waker back at once |
//! | (D5) something of the user's panics | its destructors and wakers abort | is caught, and goes to the joiner if there is one |
//!
//! That async-task does as the table says is tested in `differences`, but for (D5), where it aborts. No task of a
//! runtime comes to (D1) or (D2), as things are: the registry has a waker of each until its end, and a user-level
//! thread has its own.

mod differences;
mod ours;
mod script;
mod theirs;

use std::sync::Arc;
use std::task::Waker;

use quadrille_policy::Rng;

use self::ours::Ours;
use self::script::{ACTS, Act, Answer, Fact, Joined, Joiner, Panic, Script, World};
use self::theirs::Theirs;
use crate::sched::still::Still;

/// What the test does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Run(Vec<Act>, Answer),
    Act(Act),
}

/// What is seen of a task when nothing of it runs.
#[derive(Debug, PartialEq, Eq)]
struct Snapshot {
    facts: Vec<Fact>,
    queued: usize,
    finished: Option<bool>,
    wakers: usize,
    joiners: [usize; 2],
    freed: bool,
}

/// One cell, its task, and who waits for it.
struct Side {
    world: Arc<World>,
    joiners: [Arc<Joiner>; 2],
}

impl Side {
    fn new(world: Arc<World>) -> Self {
        let joiners = [0, 1].map(|number| {
            Arc::new(Joiner {
                world: world.clone(),
                number,
            })
        });
        Self { world, joiners }
    }

    fn is_possible(&self, event: &Event) -> bool {
        let cell = self.world.cell();
        match event {
            Event::Run(..) | Event::Act(Act::Cancel) => cell.queued() > 0,
            Event::Act(Act::Clone | Act::Wake | Act::WakeByRef | Act::WakeElsewhere | Act::Drop) => {
                self.world.wakers() > 0
            }
            Event::Act(Act::WakeItself | Act::WakeItselfByValue) => false,
            Event::Act(Act::Join(_) | Act::Detach | Act::IsFinished) => cell.is_finished().is_some(),
            Event::Act(Act::WakeRegistered) => self.world.script().registers && !cell.is_freed(),
        }
    }

    fn apply(&self, event: &Event) {
        match event {
            Event::Run(acts, answer) => self.world.run(acts, *answer),
            Event::Act(Act::Join(number)) => self.world.join(&Waker::from(self.joiners[*number].clone())),
            Event::Act(act) => self.world.act(*act, None),
        }
    }

    fn snapshot(&self) -> Snapshot {
        let cell = self.world.cell();
        Snapshot {
            facts: self.world.facts(),
            queued: cell.queued(),
            finished: cell.is_finished(),
            wakers: self.world.wakers(),
            joiners: self.joiners.each_ref().map(Arc::strong_count),
            freed: cell.is_freed(),
        }
    }
}

/// The same task in both cells.
struct Pair {
    ours: Side,
    theirs: Side,
    script: Script,
    events: Vec<Event>,
}

impl Pair {
    fn new(still: &Still, script: &Script) -> Self {
        Self {
            ours: Side::new(World::new(script, |world| Ours::boxed(&still.shared, world))),
            theirs: Side::new(World::new(script, Theirs::boxed)),
            script: script.clone(),
            events: Vec::new(),
        }
    }

    /// Gives an event to both, if it is possible.
    fn apply(&mut self, event: &Event) -> bool {
        if !self.ours.is_possible(event) {
            return false;
        }
        self.events.push(event.clone());
        self.ours.apply(event);
        self.theirs.apply(event);
        let (ours, theirs) = (self.ours.snapshot(), self.theirs.snapshot());
        assert_eq!(
            ours, theirs,
            "left: ours; right: async-task's; after {:?} of {:?}",
            self.events, self.script
        );
        assert!(ours.queued <= 1, "{ours:?}");
        true
    }

    /// Gives everything up, and sees that nothing is left.
    fn finish(mut self) -> Vec<Fact> {
        let ends = [Act::Cancel, Act::Drop, Act::Detach, Act::WakeRegistered].map(Event::Act);
        while ends.iter().any(|end| self.apply(end)) {}
        let Snapshot { facts, freed, .. } = self.ours.snapshot();
        assert!(freed, "{:?} of {:?}", self.events, self.script);
        let gone = facts.iter().filter(|fact| **fact == Fact::FutureDropped);
        assert_eq!(gone.count(), 1, "{facts:?}");
        facts
    }
}

fn still() -> Still {
    Still::new("core:1", "")
}

/// Every event of the short sequences.
fn alphabet() -> Vec<Event> {
    let run = |acts: &[Act], answer| Event::Run(acts.to_vec(), answer);
    let mut events = vec![
        run(&[], Answer::Pending),
        run(&[Act::Clone], Answer::Pending),
        run(&[Act::WakeItself], Answer::Pending),
        run(&[Act::WakeItselfByValue], Answer::Pending),
        run(&[Act::WakeItself], Answer::Ready(7)),
        run(&[Act::Clone], Answer::Ready(7)),
        run(&[], Answer::Panics),
    ];
    // What a snapshot has anyway, and what needs a thread each time, is left to the random ones.
    let short = |act: &Act| !matches!(act, Act::IsFinished | Act::WakeElsewhere);
    events.extend(ACTS.into_iter().filter(short).map(Event::Act));
    events
}

/// Tries whatever can follow `events`, up to `more` of them. The number of sequences.
fn try_all(still: &Still, script: &Script, alphabet: &[Event], events: &mut Vec<Event>, more: usize) -> usize {
    let mut pair = Pair::new(still, script);
    assert!(events.iter().all(|event| pair.apply(event)), "possible before");
    let possible = alphabet.iter().filter(|event| pair.ours.is_possible(event));
    let possible: Vec<_> = possible.cloned().collect();
    pair.finish();
    if more == 0 {
        return 1;
    }
    let mut tried = 1;
    for event in possible {
        events.push(event);
        tried += try_all(still, script, alphabet, events, more - 1);
        events.pop();
    }
    tried
}

#[test]
fn all_short_sequences_do_as_with_async_task() {
    let (still, alphabet) = (still(), alphabet());
    let tried = [true, false].map(|registers| {
        let script = Script {
            registers,
            ..Script::default()
        };
        try_all(&still, &script, &alphabet, &mut Vec::new(), 5)
    });
    assert_eq!(tried, [44_093, 19_678], "fewer: an event is not tried any more");
}

/// Makes scripts and events.
struct Random(Rng);

impl Random {
    fn one_in(&mut self, n: u32) -> bool {
        self.0.below(n) == 0
    }

    fn act(&mut self) -> Act {
        let count = u32::try_from(ACTS.len()).expect("few");
        ACTS[self.0.below(count) as usize]
    }

    fn acts(&mut self, below: u32) -> Vec<Act> {
        (0..self.0.below(below)).map(|_| self.act()).collect()
    }

    fn script(&mut self) -> Script {
        Script {
            registers: self.one_in(2),
            destructor: self.acts(3),
            destructor_panics: self.one_in(4),
            output: self.acts(3),
            output_panics: self.one_in(4),
            woken: self.acts(3),
        }
    }

    /// What little can follow is rarer.
    fn event(&mut self) -> Event {
        if self.one_in(2) {
            return Event::Act(match self.act() {
                Act::Cancel | Act::Detach | Act::Drop if !self.one_in(6) => Act::Clone,
                act => act,
            });
        }
        let answer = match self.0.below(24) {
            0 => Answer::Ready(self.0.next_u32()),
            1 => Answer::Panics,
            _ => Answer::Pending,
        };
        let mut acts = self.acts(4);
        if !self.one_in(8) {
            acts.push(Act::Clone);
        }
        Event::Run(acts, answer)
    }
}

/// Every kind of fact was seen often: the generator has not gone astray.
fn check_variety(facts: &[Fact]) {
    let check = |name, is: fn(&Fact) -> bool| {
        let seen = facts.iter().filter(|fact| is(fact)).count();
        assert!(seen > 50, "{name}: {seen}");
    };
    check("result dropped", |fact| matches!(fact, Fact::OutputDropped(_)));
    check("value", |fact| matches!(fact, Fact::Joined(Joined::Value(_))));
    check("poll panicked", |fact| {
        *fact == Fact::Joined(Joined::Panicked(Panic::Poll))
    });
    check("destructor panicked", |fact| {
        *fact == Fact::Joined(Joined::Panicked(Panic::Destructor))
    });
    check("cancelled", |fact| *fact == Fact::Joined(Joined::Cancelled));
    check("first joiner woken", |fact| *fact == Fact::Woken(0));
    check("second joiner woken", |fact| *fact == Fact::Woken(1));
    check("finished", |fact| *fact == Fact::Finished(true));
    check("not finished", |fact| *fact == Fact::Finished(false));
}

#[test]
fn random_sequences_do_as_with_async_task() {
    const SEQUENCES: usize = 5_000;
    const EVENTS: usize = 30;
    let still = still();
    let (mut facts, mut events) = (Vec::new(), 0);
    for seed in (1..).take(SEQUENCES) {
        let mut random = Random(Rng::new(seed));
        let mut pair = Pair::new(&still, &random.script());
        // Not every event is possible.
        for _ in 0..10 * EVENTS {
            if pair.events.len() < EVENTS {
                pair.apply(&random.event());
            }
        }
        events += pair.events.len();
        facts.extend(pair.finish());
    }
    assert!(events > 20 * SEQUENCES, "{events}");
    check_variety(&facts);
}
