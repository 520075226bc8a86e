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
mod tests;
