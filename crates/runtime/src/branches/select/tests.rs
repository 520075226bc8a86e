//! The macro with futures of every kind, without a runtime.

use std::cell::Cell;
use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_lite::future::block_on;

use crate::coop;
use crate::sync::wake_all::tests::Wakes;

#[test]
fn handlers_of_every_shape() {
    block_on(async {
        assert_eq!(select! { n = ready(1) => n + 1 }, 2);
        assert_eq!(select! { n = ready(1) => { n + 1 } }, 2);
        assert_eq!(select! { _ = pending::<()>() => 0, n = ready(3) => n, }, 3);
        assert_eq!(
            select! { _ = pending::<()>() => { 0 } n = ready(3) => { n } else => 9 },
            3
        );
        assert_eq!(select! { n = ready(1), if false => n, else => 9 }, 9);
        assert_eq!(select! { else => 4 }, 4);
        let text = async { "awaited" };
        assert_eq!(select! { () = ready(()) => text.await }, "awaited");
    });
}

#[test]
fn names_inside_are_the_callers() {
    const BRANCHES: u32 = 7;
    let (disabled, start) = (false, 1);
    let n = block_on(async {
        select! {
            n = ready(BRANCHES), if !disabled => n + start,
            n = ready(start), if disabled => n,
        }
    });
    assert_eq!(n, 8);
}

#[test]
fn patterns_of_every_shape() {
    struct Pair {
        left: Option<u8>,
        right: [u8; 2],
    }
    block_on(async {
        let pair = || {
            ready(Pair {
                left: Some(1),
                right: [2, 3],
            })
        };
        let n = select! {
            Pair { left: Some(mut left), right: [first, ref second] } = pair() => {
                left += first;
                left + *second
            }
        };
        assert_eq!(n, 6);
        let n = select! {
            Pair { left: None, .. } = pair() => 0,
            core::ops::ControlFlow::Break(n @ 1..=5) = ready(core::ops::ControlFlow::<u8>::Break(7)) => n,
            Ok(n) | Err(n) = ready(Err::<u8, u8>(0)) => n,
        };
        assert_eq!(n, 0);
        let (n, word) = select! {
            (&n, mut word) = ready((&5, String::from("w"))) => {
                word.push('!');
                (n, word)
            }
        };
        assert_eq!((n, word.as_str()), (5, "w!"));
        let word = select! {
            Some(ref mut word) = ready(Some(String::from("w"))) => {
                word.push('!');
                word.clone()
            }
        };
        assert_eq!(word, "w!");
    });
}

/// One that would be gone at the end of its statement, if it were no variable's.
#[test]
fn a_branch_may_borrow_a_temporary() {
    block_on(async {
        let n = select! {
            biased;
            _ = &mut pending::<()>() => 0,
            n = &mut ready(1) => n,
        };
        assert_eq!(n, 1);
    });
}

/// In the future around it a branch takes its own room, and not twice that.
#[test]
fn a_large_branch_is_there_once() {
    async fn large() -> u8 {
        let bytes = [1; 4096];
        futures_lite::future::yield_now().await;
        bytes[0]
    }
    let around = async {
        select! { n = large() => n, n = large() => n }
    };
    let (around, branch) = (size_of_val(&around), size_of_val(&large()));
    assert!(around < 2 * branch + 256, "{around} bytes around two of {branch}");
}

/// Without budget nothing is polled, and nothing chosen, until the next turn.
#[test]
fn without_budget_no_branch_is_polled() {
    async fn with_branch(polls: &Cell<u32>) -> u32 {
        let branch = poll_fn(|_| {
            polls.set(polls.get() + 1);
            Poll::Ready(1)
        });
        select! { n = branch => n, else => 9 }
    }
    async fn with_bias(polls: &Cell<u32>) -> u32 {
        let branch = poll_fn(|_| {
            polls.set(polls.get() + 1);
            Poll::Ready(1)
        });
        select! { biased; n = branch => n }
    }
    let polls = Cell::new(0);
    let futures: [Pin<Box<dyn Future<Output = u32> + '_>>; 3] = [
        Box::pin(with_branch(&polls)),
        Box::pin(with_bias(&polls)),
        Box::pin(async {
            select! { () = pending(), if false => 0, else => 1 }
        }),
    ];
    for mut future in futures {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut cx = Context::from_waker(&waker);
        let before = polls.replace(0);
        assert!(before <= 1);
        coop::start(0);
        assert!(future.as_mut().poll(&mut cx).is_pending());
        assert_eq!((polls.get(), wakes.count()), (0, 1));
        // It spends nothing of its own.
        coop::start(1);
        assert_eq!(future.as_mut().poll(&mut cx), Poll::Ready(1));
        assert!(coop::has_budget_remaining());
        coop::stop();
        assert_eq!(wakes.count(), 1);
    }
}

#[test]
fn what_does_not_match_disables_its_branch() {
    block_on(async {
        let n = select! {
            Some(n) = ready(None::<u8>) => n,
            n = async {
                futures_lite::future::yield_now().await;
                7
            } => n,
        };
        assert_eq!(n, 7);
        let all = select! {
            Some(_) = ready(None::<u8>) => "some",
            Ok(()) = ready(Err::<(), u8>(1)) => "ok",
            else => "else",
        };
        assert_eq!(all, "else");
    });
    let none = || {
        block_on(async {
            select! { Some(()) = ready(None) => () }
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(none)).is_err());
}

#[test]
fn futures_are_gone_when_the_handler_runs() {
    block_on(async {
        let mut number = 1;
        let mut add = async |n: i32| {
            number += n;
            number
        };
        let first = select! {
            biased;
            n = add(1) => n + 10,
        };
        assert_eq!(first, 12);
        let value = select! {
            _ = poll_fn(|_| { number += 1; Poll::Ready(()) }) => {
                number += 10;
                number
            }
        };
        assert_eq!(value, 13);
    });
}

#[test]
fn the_order_is_by_chance_unless_biased() {
    block_on(async {
        let mut seen = [0; 3];
        for _ in 0..300 {
            let n: usize = select! { n = ready(0) => n, n = ready(1) => n, n = ready(2) => n };
            seen[n] += 1;
            let first = select! { biased; n = ready(0) => n, n = ready(1) => n };
            assert_eq!(first, 0);
        }
        assert!(seen.iter().all(|times| *times > 30), "{seen:?}");
    });
}

#[test]
fn a_function_is_left_from_a_handler() {
    async fn find(limit: u32) -> Result<u32, String> {
        let mut n = 0;
        loop {
            select! {
                () = ready(()), if n < limit => n += 1,
                else => break,
            }
        }
        let n = select! { parsed = ready(n.to_string().parse::<u32>()) => parsed.map_err(|error| error.to_string())? };
        select! {
            _ = ready(()), if n == limit => return Ok(n),
            else => {}
        }
        Err("the loop has ended too early".to_owned())
    }
    assert_eq!(block_on(find(5)), Ok(5));
}

/// With patterns as those of a loop over events, which take more steps to expand than those of `many_branches`.
#[test]
fn many_branches_of_long_patterns() {
    #[expect(dead_code, reason = "most are matched alone")]
    enum Event {
        Key(u8),
        Mouse { x: u8, y: u8 },
        Quit,
    }
    // The caller's own.
    const _0: u8 = 7;
    macro_rules! many {
        ($($_turn:literal)+) => {
            select! {
                biased;
                $(Event::Key(n) | Event::Mouse { x: n, y: _ } | Event::Mouse { y: n, .. } = ready(Event::Quit) => n + $_turn,)+
                Event::Key(n) | Event::Mouse { x: n, .. } = ready(Event::Key(_0)) => n,
            }
        };
    }
    let n =
        block_on(async { many!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30) });
    assert_eq!(n, 7);
}

#[test]
fn many_branches() {
    let n = block_on(async {
        select! {
            biased;
            Some(n) = ready(None) => n, Some(n) = ready(None) => n, Some(n) = ready(None) => n, Some(n) = ready(None) => n,
            Some(n) = ready(None) => n, Some(n) = ready(None) => n, Some(n) = ready(None) => n, Some(n) = ready(None) => n,
            Some(n) = ready(None) => n, Some(n) = ready(None) => n, Some(n) = ready(None) => n, Some(n) = ready(None) => n,
            Some(n) = ready(None) => n, Some(n) = ready(None) => n, Some(n) = ready(None) => n, Some(n) = ready(None) => n,
            Some(n) = ready(None) => n, Some(n) = ready(None) => n, Some(n) = ready(None) => n, Some(n) = ready(None) => n,
            Some(n) = ready(None) => n, Some(n) = ready(None) => n, Some(n) = ready(None) => n, Some(n) = ready(None) => n,
            Some(n) = ready(None) => n, Some(n) = ready(None) => n, Some(n) = ready(None) => n, Some(n) = ready(None) => n,
            Some(n) = ready(None) => n, Some(n) = ready(None) => n, Some(n) = ready(None) => n, n = ready(32) => n,
        }
    });
    assert_eq!(n, 32);
}
