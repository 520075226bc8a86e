//! Finds operations that never give way: a task that does them over and over, and never has to wait, keeps its worker.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};

use quadrille::task::yield_now;

/// More than a budget, and fewer than the writes of a byte that a socket of the Unix domain has room for.
pub(crate) const ROUNDS: usize = 140;

pub(crate) type Round<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// How often it takes a poll to do `round` [`ROUNDS`] times, beginning with a whole budget.
pub(crate) async fn polls<S>(mut state: S, round: for<'a> fn(&'a mut S) -> Round<'a>) -> usize {
    yield_now().await;
    let mut all = pin!(async {
        for _ in 0..ROUNDS {
            round(&mut state).await;
        }
    });
    let mut polls = 0;
    poll_fn(|cx| {
        polls += 1;
        all.as_mut().poll(cx)
    })
    .await;
    polls
}

/// Does each operation over and over, in the task where this stands, and names those that took one poll.
macro_rules! all_give_way {
    ($($name:literal: $state:expr => |$s:ident| $round:expr;)*) => {{
        let polls = [$({
            // By itself, so that the other half of a channel is dropped.
            let state = $state;
            ($name, $crate::greedy::polls(state, |$s| Box::pin(async move { _ = $round; })).await)
        }),*];
        $crate::greedy::none_is_greedy(&polls);
    }};
}
pub(crate) use all_give_way;

/// Names those that were counted once, or less.
pub(crate) fn none_is_greedy(counts: &[(&str, usize)]) {
    let greedy: Vec<_> = counts
        .iter()
        .filter(|(_, count)| *count < 2)
        .map(|(name, _)| name)
        .collect();
    assert!(greedy.is_empty(), "these never give way: {greedy:?}");
}
