//! `select!`: the first of several futures.

use core::task::{Context, Poll};

use crate::coop;

/// Waits for the first of several futures, and drops the others; with the syntax and the meaning of tokio's.
///
/// ```text
/// select! {
///     biased;                                    // optional
///     PATTERN = FUTURE, if CONDITION => HANDLER, // `, if CONDITION` is optional
///     PATTERN = FUTURE => { HANDLER }            // no comma needed after a block
///     else => HANDLER,                           // optional
/// }
/// ```
///
/// 1. All conditions are evaluated. A branch whose condition is false is *disabled*.
/// 2. All futures are made, of disabled branches too, in the order in which they stand there.
/// 3. They are polled, in the calling task, those of disabled branches excepted. Each time the first one is another, by
///    chance: so a branch that is always ready can't starve the others. With `biased;` they are polled from top to
///    bottom: a little faster, and the order is the caller's to choose. None is polled while the task has spent its
///    [budget](crate::coop): first it gives way.
/// 4. If the output of one that is ready matches its pattern, all futures are dropped, and then its handler runs, whose
///    value is that of the macro. If not, its branch is disabled, and the others are waited for.
/// 5. If all are disabled the handler of `else` runs.
///
/// What is called chance follows from [`Builder::seed`](crate::Builder::seed) in tasks on a worker and in `block_on`,
/// where nothing else draws from the same generator; not in tasks that run on a blocking thread because all workers are
/// in [`block_in_place`](crate::task::block_in_place).
///
/// At most 32 branches: for more, nest one in another. A macro around it that is given a pattern takes it as
/// `$($pattern:tt)+`: as `$pattern:pat` it can't have `mut`, `ref` or `&` inside. Handlers may use `.await`, `?`,
/// `return` and `break`.
///
/// # Panics
/// If all branches are disabled and there is no `else`.
///
/// # Cancel safety
/// The futures that come too late are dropped, as they are if the surrounding future is. In a loop, where each turn
/// makes new ones, that is right for those that are called *strict*: `recv` of a channel, `cancelled` of a token,
/// `accept` of a `net::TcpListener`. One that isn't, such as `read_exact`, or `accept` and `read` of the module
/// `uring`, is made before the loop, pinned, and selected by reference: `result = &mut read`.
///
/// ```
/// use quadrille::sync::{CancellationToken, mpmc};
/// use quadrille::time::{Duration, sleep};
///
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let (sender, receiver) = mpmc::bounded(4);
/// let token = CancellationToken::new();
/// sender.send(1).await.unwrap();
/// sender.send(2).await.unwrap();
/// let mut sum = 0;
/// let why = loop {
///     quadrille::select! {
///         Ok(n) = receiver.recv() => {
///             sum += n;
///             if sum == 3 {
///                 token.cancel();
///             }
///         }
///         _ = token.cancelled() => break "cancelled",
///         _ = sleep(Duration::from_secs(60)), if sum < 100 => break "nothing came",
///     }
/// };
/// assert_eq!((sum, why), (3, "cancelled"));
/// # });
/// ```
#[macro_export]
macro_rules! select {
    (biased; $($branches:tt)+) => {
        $crate::__select!(@next { |_| 0 } {
            __branch_0 __branch_1 __branch_2 __branch_3 __branch_4 __branch_5 __branch_6 __branch_7 __branch_8
            __branch_9 __branch_10 __branch_11 __branch_12 __branch_13 __branch_14 __branch_15 __branch_16
            __branch_17 __branch_18 __branch_19 __branch_20 __branch_21 __branch_22 __branch_23 __branch_24
            __branch_25 __branch_26 __branch_27 __branch_28 __branch_29 __branch_30 __branch_31
        } {} $($branches)+)
    };
    ($($branches:tt)+) => {
        $crate::__select!(@next { $crate::branches::any_below } {
            __branch_0 __branch_1 __branch_2 __branch_3 __branch_4 __branch_5 __branch_6 __branch_7 __branch_8
            __branch_9 __branch_10 __branch_11 __branch_12 __branch_13 __branch_14 __branch_15 __branch_16
            __branch_17 __branch_18 __branch_19 __branch_20 __branch_21 __branch_22 __branch_23 __branch_24
            __branch_25 __branch_26 __branch_27 __branch_28 __branch_29 __branch_30 __branch_31
        } {} $($branches)+)
    };
}

// Each branch takes two steps: `@next` finds the end of its pattern, and `@branch` takes the rest apart, gives it a
// name, and puts it with those before it. For patterns of more than six tokens there is one more, and one for each
// eight tokens beyond fourteen. So the compiler's limit of 128 nested steps is far.
#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    (@next $start:tt $names:tt { $($done:tt)+ }) => {
        $crate::__select!(@expand $start { $($done)+ } {
            ::core::panic!("all branches of a `select!` are disabled, and it has no `else`")
        })
    };
    (@next $start:tt $names:tt { $($done:tt)* } else => $else:expr $(,)?) => {
        $crate::__select!(@expand $start { $($done)* } { $else })
    };
    (@next $s:tt $n:tt $d:tt $a:tt = $($r:tt)+) => { $crate::__select!(@branch $s $n $d [$a] $($r)+) };
    (@next $s:tt $n:tt $d:tt $a:tt $b:tt = $($r:tt)+) => { $crate::__select!(@branch $s $n $d [$a $b] $($r)+) };
    (@next $s:tt $n:tt $d:tt $a:tt $b:tt $c:tt = $($r:tt)+) => {
        $crate::__select!(@branch $s $n $d [$a $b $c] $($r)+)
    };
    (@next $s:tt $n:tt $d:tt $a:tt $b:tt $c:tt $e:tt = $($r:tt)+) => {
        $crate::__select!(@branch $s $n $d [$a $b $c $e] $($r)+)
    };
    (@next $s:tt $n:tt $d:tt $a:tt $b:tt $c:tt $e:tt $f:tt = $($r:tt)+) => {
        $crate::__select!(@branch $s $n $d [$a $b $c $e $f] $($r)+)
    };
    (@next $s:tt $n:tt $d:tt $a:tt $b:tt $c:tt $e:tt $f:tt $g:tt = $($r:tt)+) => {
        $crate::__select!(@branch $s $n $d [$a $b $c $e $f $g] $($r)+)
    };
    // None of the second to the seventh is the `=`.
    (@next $s:tt $n:tt $d:tt $a:tt $b:tt $c:tt $e:tt $f:tt $g:tt $h:tt $($r:tt)+) => {
        $crate::__select!(@long $s $n $d [$a $b $c $e $f $g $h] $($r)+)
    };
    (@long $s:tt $n:tt $d:tt [$($p:tt)+] = $($r:tt)+) => { $crate::__select!(@branch $s $n $d [$($p)+] $($r)+) };
    (@long $s:tt $n:tt $d:tt [$($p:tt)+] $a:tt = $($r:tt)+) => {
        $crate::__select!(@branch $s $n $d [$($p)+ $a] $($r)+)
    };
    (@long $s:tt $n:tt $d:tt [$($p:tt)+] $a:tt $b:tt = $($r:tt)+) => {
        $crate::__select!(@branch $s $n $d [$($p)+ $a $b] $($r)+)
    };
    (@long $s:tt $n:tt $d:tt [$($p:tt)+] $a:tt $b:tt $c:tt = $($r:tt)+) => {
        $crate::__select!(@branch $s $n $d [$($p)+ $a $b $c] $($r)+)
    };
    (@long $s:tt $n:tt $d:tt [$($p:tt)+] $a:tt $b:tt $c:tt $e:tt = $($r:tt)+) => {
        $crate::__select!(@branch $s $n $d [$($p)+ $a $b $c $e] $($r)+)
    };
    (@long $s:tt $n:tt $d:tt [$($p:tt)+] $a:tt $b:tt $c:tt $e:tt $f:tt = $($r:tt)+) => {
        $crate::__select!(@branch $s $n $d [$($p)+ $a $b $c $e $f] $($r)+)
    };
    (@long $s:tt $n:tt $d:tt [$($p:tt)+] $a:tt $b:tt $c:tt $e:tt $f:tt $g:tt = $($r:tt)+) => {
        $crate::__select!(@branch $s $n $d [$($p)+ $a $b $c $e $f $g] $($r)+)
    };
    (@long $s:tt $n:tt $d:tt [$($p:tt)+] $a:tt $b:tt $c:tt $e:tt $f:tt $g:tt $h:tt = $($r:tt)+) => {
        $crate::__select!(@branch $s $n $d [$($p)+ $a $b $c $e $f $g $h] $($r)+)
    };
    (@long $s:tt $n:tt $d:tt [$($p:tt)+] $a:tt $b:tt $c:tt $e:tt $f:tt $g:tt $h:tt $i:tt $($r:tt)+) => {
        $crate::__select!(@long $s $n $d [$($p)+ $a $b $c $e $f $g $h $i] $($r)+)
    };

    (@branch $s:tt {} $($r:tt)*) => { ::core::compile_error!("a `select!` has at most 32 branches") };
    (@branch $s:tt { $b:ident $($n:ident)* } { $($d:tt)* } $p:tt $f:expr, if $c:expr => $h:block, $($r:tt)*) => {
        $crate::__select!(@next $s { $($n)* } { $($d)* ($b $p { $f } { $c } { $h }) } $($r)*)
    };
    (@branch $s:tt { $b:ident $($n:ident)* } { $($d:tt)* } $p:tt $f:expr, if $c:expr => $h:block $($r:tt)*) => {
        $crate::__select!(@next $s { $($n)* } { $($d)* ($b $p { $f } { $c } { $h }) } $($r)*)
    };
    (@branch $s:tt { $b:ident $($n:ident)* } { $($d:tt)* } $p:tt $f:expr, if $c:expr => $h:expr) => {
        $crate::__select!(@next $s { $($n)* } { $($d)* ($b $p { $f } { $c } { $h }) })
    };
    (@branch $s:tt { $b:ident $($n:ident)* } { $($d:tt)* } $p:tt $f:expr, if $c:expr => $h:expr, $($r:tt)*) => {
        $crate::__select!(@next $s { $($n)* } { $($d)* ($b $p { $f } { $c } { $h }) } $($r)*)
    };
    (@branch $s:tt { $b:ident $($n:ident)* } { $($d:tt)* } $p:tt $f:expr => $h:block, $($r:tt)*) => {
        $crate::__select!(@next $s { $($n)* } { $($d)* ($b $p { $f } { true } { $h }) } $($r)*)
    };
    (@branch $s:tt { $b:ident $($n:ident)* } { $($d:tt)* } $p:tt $f:expr => $h:block $($r:tt)*) => {
        $crate::__select!(@next $s { $($n)* } { $($d)* ($b $p { $f } { true } { $h }) } $($r)*)
    };
    (@branch $s:tt { $b:ident $($n:ident)* } { $($d:tt)* } $p:tt $f:expr => $h:expr) => {
        $crate::__select!(@next $s { $($n)* } { $($d)* ($b $p { $f } { true } { $h }) })
    };
    (@branch $s:tt { $b:ident $($n:ident)* } { $($d:tt)* } $p:tt $f:expr => $h:expr, $($r:tt)*) => {
        $crate::__select!(@next $s { $($n)* } { $($d)* ($b $p { $f } { true } { $h }) } $($r)*)
    };

    (@expand { $start:expr } {
        $(($name:ident [$($pattern:tt)+] { $future:expr } { $condition:expr } { $handler:expr }))*
    } { $else:expr }) => {{
        #[allow(non_camel_case_types, reason = "a name is a type, a variant and a variable")]
        enum __QuadrilleSelected<$($name),*> {
            $($name($name),)*
            Disabled,
        }
        // Not the value of the block: that would be leaked if the destructor of a future panicked
        // (rust-lang/rust#47949).
        #[allow(unused_mut, reason = "few patterns borrow")]
        let mut selected;
        #[allow(unused_mut, unused_assignments, unused_variables, reason = "there may be no branch")]
        {
            let mut disabled = 0_u32;
            let mut bit = 1_u32;
            $(
                if !$condition {
                    disabled |= bit;
                }
                bit = bit.wrapping_shl(1);
            )*
            $(
                // First as a variable: so what it borrows of itself, as `&mut future()` does, lives as long.
                let $name = $future;
                let mut $name = ::core::pin::pin!(::core::future::IntoFuture::into_future($name));
            )*
            selected = ::core::future::poll_fn(move |cx| {
                if $crate::branches::poll_budget(cx).is_pending() {
                    return ::core::task::Poll::Pending;
                }
                // A variable, which is the macro's own: an item would be seen by the caller's patterns. Made here, the
                // compiler knows its value.
                let branches = 0_u32 $(+ { let $name = 1; $name })*;
                let start: u32 = ($start)(branches);
                let mut waits = false;
                for chosen in $crate::branches::turns(start, branches) {
                    let mut branch = 0_u32;
                    $(
                        if branch == chosen && disabled & (1 << branch) == 0 {
                            match ::core::future::Future::poll($name.as_mut(), cx) {
                                ::core::task::Poll::Pending => waits = true,
                                ::core::task::Poll::Ready(output) => {
                                    disabled |= 1 << branch;
                                    #[allow(unused_variables, unreachable_patterns, reason = "it only asks whether it matches")]
                                    let matches = match &output {
                                        $crate::__select_pattern!([] {} $($pattern)+) => true,
                                        _ => false,
                                    };
                                    if matches {
                                        return ::core::task::Poll::Ready(__QuadrilleSelected::$name(output));
                                    }
                                }
                            }
                        }
                        branch += 1;
                    )*
                }
                if waits {
                    ::core::task::Poll::Pending
                } else {
                    ::core::task::Poll::Ready(__QuadrilleSelected::Disabled)
                }
            })
            .await;
        }
        #[allow(unreachable_patterns, reason = "most patterns match always")]
        match selected {
            $(__QuadrilleSelected::$name($($pattern)+) => $handler,)*
            __QuadrilleSelected::Disabled => $else,
            _ => ::core::unreachable!("the pattern has matched before"),
        }
    }};
}

// A pattern that matches the same by reference: without `mut`, `ref` and `&`. What is open is kept on a stack of what
// stood before the group, its kind, and what comes after it. Where `::`, `,` or `:` follows a word, or the word is
// alone in its group, it is neither `mut` nor `ref`: such are taken several at a time, so that few steps are nested.
#[doc(hidden)]
#[macro_export]
macro_rules! __select_pattern {
    ([$($out:tt)*] {}) => { $($out)* };
    ([$($in:tt)*] { [$($out:tt)*] paren [$($after:tt)*] $stack:tt }) => {
        $crate::__select_pattern!([$($out)* ($($in)*)] $stack $($after)*)
    };
    ([$($in:tt)*] { [$($out:tt)*] bracket [$($after:tt)*] $stack:tt }) => {
        $crate::__select_pattern!([$($out)* [$($in)*]] $stack $($after)*)
    };
    ([$($in:tt)*] { [$($out:tt)*] brace [$($after:tt)*] $stack:tt }) => {
        $crate::__select_pattern!([$($out)* { $($in)* }] $stack $($after)*)
    };
    ([$($out:tt)*] $stack:tt $a:ident :: $b:ident :: $c:ident $($rest:tt)*) => {
        $crate::__select_pattern!([$($out)* $a :: $b :: $c] $stack $($rest)*)
    };
    ([$($out:tt)*] $stack:tt $a:ident :: $b:ident $($rest:tt)*) => {
        $crate::__select_pattern!([$($out)* $a :: $b] $stack $($rest)*)
    };
    ([$($out:tt)*] $stack:tt $a:ident, $b:ident, $c:ident, $d:ident, $($rest:tt)*) => {
        $crate::__select_pattern!([$($out)* $a, $b, $c, $d,] $stack $($rest)*)
    };
    ([$($out:tt)*] $stack:tt $a:ident, $($rest:tt)*) => {
        $crate::__select_pattern!([$($out)* $a,] $stack $($rest)*)
    };
    ([$($out:tt)*] $stack:tt $a:ident: $($rest:tt)*) => {
        $crate::__select_pattern!([$($out)* $a:] $stack $($rest)*)
    };
    ([$($out:tt)*] $stack:tt ($a:ident) $($rest:tt)*) => {
        $crate::__select_pattern!([$($out)* ($a)] $stack $($rest)*)
    };
    ([$($out:tt)*] $stack:tt mut $($rest:tt)*) => { $crate::__select_pattern!([$($out)*] $stack $($rest)*) };
    ([$($out:tt)*] $stack:tt ref $($rest:tt)*) => { $crate::__select_pattern!([$($out)*] $stack $($rest)*) };
    ([$($out:tt)*] $stack:tt & $($rest:tt)*) => { $crate::__select_pattern!([$($out)*] $stack $($rest)*) };
    ([$($out:tt)*] $stack:tt && $($rest:tt)*) => { $crate::__select_pattern!([$($out)*] $stack $($rest)*) };
    ([$($out:tt)*] $stack:tt ($($in:tt)*) $($rest:tt)*) => {
        $crate::__select_pattern!([] { [$($out)*] paren [$($rest)*] $stack } $($in)*)
    };
    ([$($out:tt)*] $stack:tt [$($in:tt)*] $($rest:tt)*) => {
        $crate::__select_pattern!([] { [$($out)*] bracket [$($rest)*] $stack } $($in)*)
    };
    ([$($out:tt)*] $stack:tt { $($in:tt)* } $($rest:tt)*) => {
        $crate::__select_pattern!([] { [$($out)*] brace [$($rest)*] $stack } $($in)*)
    };
    ([$($out:tt)*] $stack:tt $one:tt $($rest:tt)*) => { $crate::__select_pattern!([$($out)* $one] $stack $($rest)*) };
}

/// Pending, and the task woken, if no budget is left. A branch that spends would be refused then, and one that doesn't,
/// and is ready each time, would keep the task from giving way: in a loop for ever.
#[doc(hidden)]
#[inline]
pub fn poll_budget(cx: &mut Context<'_>) -> Poll<()> {
    coop::poll_remaining(cx)
}

/// The numbers below `bound`, from `start` on and round.
#[doc(hidden)]
#[inline]
pub fn turns(start: u32, bound: u32) -> impl Iterator<Item = u32> {
    // One loop, which the compiler sees through better than through two ranges in a chain.
    (0..bound).map(move |turn| {
        let number = start + turn;
        if number < bound { number } else { number - bound }
    })
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, poll_fn, ready};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    use futures_lite::future::block_on;

    use crate::coop;

    /// Counts its wakes.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

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
            assert_eq!((polls.get(), wakes.0.load(Ordering::Relaxed)), (0, 1));
            // It spends nothing of its own.
            coop::start(1);
            assert_eq!(future.as_mut().poll(&mut cx), Poll::Ready(1));
            assert!(coop::has_budget_remaining());
            coop::stop();
            assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
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
            let n =
                select! { parsed = ready(n.to_string().parse::<u32>()) => parsed.map_err(|error| error.to_string())? };
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
        let n = block_on(async {
            many!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30)
        });
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
}
