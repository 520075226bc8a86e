use std::collections::HashSet;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use futures_lite::future::{block_on, poll_once};

use super::*;
use crate::panics::tests::waker_that_panics;
use crate::sync::wake_all::tests::Wakes;

/// How many tokens a script of the exhaustive test makes at most.
const TOKENS: usize = 4;

/// Every tree of four tokens, with every token dropped, cancelled, or left at every moment: who is cancelled is as in a
/// model that only knows who is whose parent.
#[test]
fn every_small_tree() {
    // A step is a token and what is done to it: a child is made, it is cancelled, it is dropped.
    let steps = TOKENS * 3;
    for script in 0..steps.pow(5) {
        let mut tokens = vec![Some(CancellationToken::new())];
        let mut model = vec![(None, false)];
        for at in 0..5_u32 {
            let step = script / steps.pow(at) % steps;
            let (of, what) = (step / 3, step % 3);
            let Some(Some(token)) = tokens.get(of) else { continue };
            match what {
                0 if tokens.len() < TOKENS => {
                    let child = token.child_token();
                    tokens.push(Some(child));
                    model.push((Some(of), model[of].1));
                }
                1 => {
                    token.cancel();
                    model[of].1 = true;
                    // A parent has a lower number than its children.
                    for i in 0..model.len() {
                        model[i].1 |= model[i].0.is_some_and(|parent: usize| model[parent].1);
                    }
                }
                2 => tokens[of] = None,
                _ => {}
            }
        }
        for (token, (_, cancelled)) in tokens.iter().zip(&model) {
            if let Some(token) = token {
                assert_eq!(token.is_cancelled(), *cancelled, "script {script}");
                assert_eq!(block_on(poll_once(token.cancelled())).is_some(), *cancelled);
                coop::start(0);
                let told = block_on(poll_once(token.run_until_cancelled(async {})));
                coop::stop();
                assert_eq!(told, cancelled.then_some(None), "script {script}");
            }
        }
    }
}

#[test]
fn waiting_ends_when_a_grandparent_is_cancelled() {
    let token = CancellationToken::new();
    let grandchild = token.child_token().child_token();
    let (borrowed, owned) = (grandchild.cancelled(), grandchild.clone().cancelled_owned());
    let (mut borrowed, mut owned) = (Box::pin(borrowed), Box::pin(owned));
    assert!(block_on(poll_once(borrowed.as_mut())).is_none());
    assert!(block_on(poll_once(owned.as_mut())).is_none());
    std::thread::scope(|scope| {
        scope.spawn(|| block_on(borrowed));
        scope.spawn(|| block_on(owned));
        token.cancel();
    });
    assert!(!CancellationToken::new().is_cancelled());
}

#[test]
fn a_child_that_goes_leaves_nothing() {
    let token = CancellationToken::new();
    let stays = token.child_token();
    for _ in 0..1000 {
        drop([token.child_token(), token.child_token()]);
    }
    assert_eq!(slots(&token), Some(3), "numbers are used again");
    assert_eq!(Arc::strong_count(&token.node), 2);
    drop(stays);
    assert_eq!(Arc::strong_count(&token.node), 1);
}

/// What the largest number of children has needed is given back when the last one goes, and numbers begin anew.
#[test]
fn many_children_leave_no_memory() {
    let token = CancellationToken::new();
    for _ in 0..2 {
        let children: Vec<_> = (0..10_000).map(|_| token.child_token()).collect();
        assert_eq!(slots(&token), Some(10_000));
        drop(children);
        assert_eq!(slots(&token), Some(0));
    }
    let child = token.child_token();
    token.cancel();
    assert!(child.is_cancelled());
}

/// The places for children, with one or without.
fn slots(token: &CancellationToken) -> Option<usize> {
    token.node.children().as_ref().map(|children| children.slots.len())
}

/// With one frame a node a stack of 2 MiB would not do.
#[test]
fn a_long_line_of_ancestors_is_dropped_and_cancelled() {
    let root = CancellationToken::new();
    let mut last = root.clone();
    for _ in 0..200_000 {
        last = last.child_token();
    }
    let weak = Arc::downgrade(&root.node);
    let other = last.clone();
    root.cancel();
    assert!(other.is_cancelled());
    drop((root, last, other));
    assert!(weak.upgrade().is_none());
}

#[test]
fn guards_cancel_unless_they_are_disarmed() {
    let token = CancellationToken::new();
    assert!(!token.clone().drop_guard().disarm().is_cancelled());
    assert!(!token.drop_guard_ref().disarm().is_cancelled());
    drop(token.child_token().drop_guard());
    assert!(!token.is_cancelled(), "a child's guard is not its parent's");
    drop(token.drop_guard_ref());
    assert!(token.is_cancelled());
    let other = CancellationToken::new();
    drop(other.clone().drop_guard());
    assert!(other.is_cancelled());
}

#[test]
fn a_future_runs_until_the_token_is_cancelled() {
    let token = CancellationToken::new();
    assert_eq!(block_on(token.run_until_cancelled(async { 1 })), Some(1));
    let mut waits = Box::pin(token.clone().run_until_cancelled_owned(std::future::pending::<()>()));
    assert_eq!(block_on(poll_once(waits.as_mut())), None);
    token.cancel();
    assert_eq!(block_on(waits), None);
    assert_eq!(
        block_on(token.run_until_cancelled(async { 1 })),
        None,
        "the token comes first"
    );
}

/// What the future has done by then is not thrown away: a connection has begun with a request that has arrived.
#[test]
fn a_future_that_has_begun_comes_before_the_token() {
    let token = CancellationToken::new();
    let (sender, receiver) = crate::sync::oneshot::channel();
    let mut run = Box::pin(token.run_until_cancelled(receiver));
    assert_eq!(block_on(poll_once(run.as_mut())), None);
    sender.send(1).unwrap();
    token.cancel();
    assert_eq!(block_on(run), Some(Ok(1)));
}

/// It would find no unit left for the token in any poll.
#[test]
fn a_future_that_spends_the_budget_each_time_is_cancelled() {
    let token = CancellationToken::new();
    let spends = poll_fn(|_| {
        while coop::has_budget_remaining() {
            coop::spend();
        }
        Poll::<()>::Pending
    });
    let mut run = Box::pin(token.run_until_cancelled(spends));
    coop::start(4);
    assert_eq!(block_on(poll_once(run.as_mut())), None);
    token.cancel();
    coop::start(4);
    let outcome = block_on(poll_once(run.as_mut()));
    coop::stop();
    assert_eq!(outcome, Some(None));
}

#[test]
fn a_cancelled_token_comes_first_without_budget_too() {
    let token = CancellationToken::new();
    token.cancel();
    for budget in [0, 1, 2] {
        coop::start(budget);
        let borrowed = block_on(poll_once(token.run_until_cancelled(async { 1 })));
        let owned = block_on(poll_once(token.clone().run_until_cancelled_owned(async { 1 })));
        let is_left = coop::has_budget_remaining();
        coop::stop();
        assert_eq!((borrowed, owned), (Some(None), Some(None)), "budget {budget}");
        assert!(!is_left, "budget {budget}");
    }
}

#[test]
fn a_future_that_runs_until_the_token_is_cancelled_is_not_polled_without_budget() {
    let token = CancellationToken::new();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut cx = Context::from_waker(&waker);
    let mut run = Box::pin(token.run_until_cancelled(async { 1 }));
    coop::start(0);
    let first = run.as_mut().poll(&mut cx);
    coop::start(1);
    let second = run.as_mut().poll(&mut cx);
    coop::stop();
    assert_eq!((first, second), (Poll::Pending, Poll::Ready(Some(1))));
    assert_eq!(wakes.count(), 1, "a turn is asked for");
}

/// The task that polls has no budget from the start, and no turn of its own in between.
#[test]
fn a_loop_over_futures_that_are_ready_ends_when_the_token_is_cancelled() {
    let runtime = crate::Runtime::builder().worker_threads(1).build().unwrap();
    let task = runtime.spawn(async {
        let token = CancellationToken::new();
        let mut rounds = 0;
        while coop::has_budget_remaining() {
            assert!(poll_once(coop::consume_budget()).await.is_some());
        }
        token.cancel();
        while token.run_until_cancelled(std::future::ready(())).await.is_some() {
            rounds += 1;
            assert!(rounds < 1000, "it was cancelled before");
        }
        rounds
    });
    assert_eq!(block_on(task).unwrap(), 0);
}

#[test]
fn a_waker_that_panics_keeps_nobody_from_being_told() {
    let token = CancellationToken::new();
    let children = [token.child_token(), token.child_token()];
    let waker = waker_that_panics();
    let mut waiting: Vec<_> = children.iter().map(|child| Box::pin(child.cancelled())).collect();
    for waiting in &mut waiting {
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert!(catch_unwind(AssertUnwindSafe(|| token.cancel())).is_err());
    assert!(children.iter().all(CancellationToken::is_cancelled));
}

#[test]
fn threads_make_children_while_the_token_is_cancelled() {
    for _ in 0..200 {
        let token = CancellationToken::new();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let children: Vec<_> = (0..50).map(|_| token.child_token().child_token()).collect();
                    children.into_iter().for_each(|child| block_on(child.cancelled_owned()));
                });
            }
            scope.spawn(|| token.cancel());
        });
    }
}

#[test]
fn clones_are_equal_and_nobody_else() {
    let token = CancellationToken::new();
    let (clone, child, other) = (token.clone(), token.child_token(), CancellationToken::new());
    assert_eq!(token, clone);
    assert!(token != child && token != other && child != token.child_token());
    token.cancel();
    assert!(token == clone && token != child, "cancelled or not");
    #[expect(clippy::mutable_key_type, reason = "what is hashed is where the node is")]
    let set = HashSet::from([token, clone, child, other]);
    assert_eq!(set.len(), 3);
}
