//! N1 and N2 in every interleaving, up to a number of preemptions.
//!
//! `cargo xtask loom stack`. The mappings are real ones; nothing in the models touches the memory.

use std::sync::Arc;

use loom::thread::spawn;

use super::class::Class;
use super::kept::Kept;
use super::shelf::Shelf;
use super::{Stack, Stacks};

/// Stacks of the smallest slab.
const SLAB: usize = 16;

/// Runs `f` in all interleavings with at most `preemptions_max` switches away from a thread that could go on.
fn check(preemptions_max: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions_max);
    builder.check(f);
}

/// All stacks of a slab, taken.
fn take_all(stacks: &Stacks) -> Vec<Stack> {
    (0..SLAB).map(|_| stacks.reserve(0, 0).unwrap().take(0)).collect()
}

#[test]
fn n1_a_promise_is_kept() {
    check(3, || {
        let stacks = Arc::new(Stacks::new(2));
        let mut out = take_all(&stacks);
        // One on shelf 1, promised to this thread, which begins to look at shelf 0.
        out.pop().unwrap().give_back(1);
        let mine = stacks.reserve(1, 0).unwrap();
        let (other, stack) = (Arc::clone(&stacks), out.pop().unwrap());
        let thread = spawn(move || {
            // Behind the other's back, whichever way it looks.
            stack.give_back(0);
            let stack = other.reserve(0, 0).unwrap().take(1);
            stack.give_back(1);
            other.reserve(1, 0).unwrap().take(0)
        });
        let mine = mine.take(0);
        let theirs = thread.join().unwrap();
        assert_ne!(mine.bounds(), theirs.bounds());
        assert_eq!(
            stacks
                .pool()
                .with_shelf(0, Class::of(0).unwrap(), |shelf| shelf.counts()),
            (0, 0)
        );
    });
}

#[test]
fn n1_credit_that_moves_is_not_promised_twice() {
    check(3, || {
        let stacks = Arc::new(Stacks::new(2));
        let out = take_all(&stacks);
        let other = Arc::clone(&stacks);
        // Each finds no credit of its own, and perhaps the other's on its way.
        let thread = spawn(move || other.reserve(1, 0).unwrap().take(1));
        let mine = stacks.reserve(0, 0).unwrap().take(0);
        let theirs = thread.join().unwrap();
        assert_ne!(mine.bounds(), theirs.bounds());
        drop((mine, theirs, out));
        let class = Class::of(0).unwrap();
        let [a, b] = [0, 1].map(|llc| {
            stacks
                .pool()
                .with_shelf(llc, class, |shelf| (shelf.counts(), shelf.credit()))
        });
        assert_eq!(a.0.0 + a.0.1 + b.0.0 + b.0.1, a.1 + b.1);
    });
}

/// Two workers that keep what they have while both make promises, and keep them with stacks of each other's. All but
/// four stacks are out, so that each promise counts.
#[test]
fn n1_what_workers_keep_is_promised_once() {
    check(2, || {
        let stacks = Arc::new(Stacks::new(1));
        let mut out: Vec<_> = (0..SLAB - 4).map(|_| stacks.reserve(0, 0).unwrap().take(0)).collect();
        let (other, theirs) = (Arc::clone(&stacks), out.pop().unwrap());
        let work = |stacks: &Stacks, stack: Stack| {
            // SAFETY: dropped at the end of this closure, before `stacks`.
            let kept = unsafe { Kept::of(stacks, 0, 0) };
            kept.give_back(stack);
            let first = kept.take(stacks.reserve(0, 0).unwrap());
            let second = kept.take(kept.reserve(0).unwrap());
            assert_ne!(first.bounds(), second.bounds());
            kept.give_back(first);
            // Leaves a credit beside the stack.
            kept.give_back(kept.take(stacks.reserve(0, 0).unwrap()));
            second
        };
        let thread = spawn(move || work(&other, theirs));
        let mine = work(&stacks, out.pop().unwrap());
        let theirs = thread.join().unwrap();
        assert_ne!(mine.bounds(), theirs.bounds());
        drop((mine, theirs, out));
        let account = |shelf: &mut Shelf| (shelf.counts().0 + shelf.counts().1, shelf.credit());
        let (free, credit) = stacks.pool().with_shelf(0, Class::of(0).unwrap(), account);
        assert_eq!(free, credit, "all are back");
    });
}

#[test]
fn n2_the_last_one_out_unmaps() {
    check(4, || {
        let stacks = Stacks::new(2);
        let witness = Arc::clone(&stacks.pool().witness);
        let stack = stacks.reserve(0, 0).unwrap().take(0);
        let reservation = stacks.reserve(0, 0).unwrap();
        let others = [
            spawn(move || {
                // A stack in use keeps the pool.
                let used = Arc::strong_count(&stack_witness(&stack)) == 3;
                stack.give_back(1);
                used
            }),
            spawn(move || {
                drop(reservation);
                true
            }),
        ];
        drop(stacks);
        for other in others {
            assert!(other.join().unwrap());
        }
        assert_eq!(Arc::strong_count(&witness), 1);
    });
}

#[test]
fn n2_a_look_at_idle_stacks_while_the_handle_goes() {
    check(3, || {
        let stacks = Stacks::new(1);
        let witness = Arc::clone(&stacks.pool().witness);
        // Each of this size is looked at when it comes back. The first look begins a period.
        let size = 64 << 20;
        let out = [0, 1].map(|_| stacks.reserve(0, size).unwrap().take(0));
        let [first, second] = out;
        first.give_back(0);
        // A period of idleness is over: the next look finds stale ones.
        let class = Class::of(size).unwrap();
        stacks.pool().with_shelf(0, class, Shelf::make_stale);
        let thread = spawn(move || second.give_back(0));
        drop(stacks);
        thread.join().unwrap();
        assert_eq!(Arc::strong_count(&witness), 1);
    });
}

/// The witness of the pool that `stack` keeps.
fn stack_witness(stack: &Stack) -> Arc<()> {
    // SAFETY: the promise of the stack keeps the pool.
    Arc::clone(unsafe { &stack.origin.pool().as_ref().witness })
}
