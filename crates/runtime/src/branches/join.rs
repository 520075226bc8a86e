//! `join!` and `try_join!`: all of several futures.

use std::convert::Infallible;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

/// Waits until several futures are ready, in one task; a tuple of their outputs.
///
/// They take turns on one worker, whichever is woken: each wake-up polls all that are not ready. Each time another one
/// is first, so that one which never waits can't spend the [budget](crate::coop) of all; after a leading `biased;`
/// always the first. At most 64 futures. For what should run side by side, or for more, spawn tasks and use a
/// [`JoinSet`](crate::JoinSet).
///
/// # Cancel safety
/// Dropped before all are ready, it drops all futures, and the outputs of those that were.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let (number, word) = quadrille::join!(async { 1 }, async { "two" });
/// assert_eq!((number, word), (1, "two"));
/// # });
/// ```
#[macro_export]
macro_rules! join {
    (biased; $($future:expr),+ $(,)?) => {
        $crate::__join!(@never_fails { |_, _| 0 } $($future,)+)
    };
    ($($future:expr),+ $(,)?) => {
        $crate::__join!(@never_fails { $crate::branches::turn_after } $($future,)+)
    };
    ($(biased;)?) => { async {}.await };
}

/// Waits until several futures are ready with `Ok`, or one with `Err`, in one task: `Ok` of a tuple of their values, or
/// the first error, and then the others are dropped. Otherwise as [`join!`](crate::join!).
///
/// # Cancel safety
/// As [`join!`](crate::join!).
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let both = quadrille::try_join!(async { Ok::<_, String>(1) }, async { Ok(2) });
/// assert_eq!(both, Ok((1, 2)));
/// let failed = quadrille::try_join!(std::future::pending::<Result<(), _>>(), async { Err::<(), _>("no") });
/// assert_eq!(failed, Err("no"));
/// # });
/// ```
#[macro_export]
macro_rules! try_join {
    (biased; $($future:expr),+ $(,)?) => {
        $crate::__join!(@all { |_, _| 0 } $($future,)+)
    };
    ($($future:expr),+ $(,)?) => {
        $crate::__join!(@all { $crate::branches::turn_after } $($future,)+)
    };
    ($(biased;)?) => { async { ::core::result::Result::Ok(()) }.await };
}

/// `@all` of several futures of results, each with a name under which it is pinned; `@never_fails`: of futures of
/// anything.
#[doc(hidden)]
#[macro_export]
macro_rules! __join {
    (@never_fails $next:tt $($future:expr,)+) => {{
        let ::core::result::Result::Ok(outputs) =
            $crate::__join!(@all $next $($crate::branches::NeverFails::new($future),)+);
        outputs
    }};
    (@all $next:tt $($future:expr,)+) => {
        $crate::__join!(@name $next [$($future,)+] []
            __branch_0 __branch_1 __branch_2 __branch_3 __branch_4 __branch_5 __branch_6 __branch_7 __branch_8
            __branch_9 __branch_10 __branch_11 __branch_12 __branch_13 __branch_14 __branch_15 __branch_16
            __branch_17 __branch_18 __branch_19 __branch_20 __branch_21 __branch_22 __branch_23 __branch_24
            __branch_25 __branch_26 __branch_27 __branch_28 __branch_29 __branch_30 __branch_31 __branch_32
            __branch_33 __branch_34 __branch_35 __branch_36 __branch_37 __branch_38 __branch_39 __branch_40
            __branch_41 __branch_42 __branch_43 __branch_44 __branch_45 __branch_46 __branch_47 __branch_48
            __branch_49 __branch_50 __branch_51 __branch_52 __branch_53 __branch_54 __branch_55 __branch_56
            __branch_57 __branch_58 __branch_59 __branch_60 __branch_61 __branch_62 __branch_63)
    };
    (@name $next:tt [$future:expr, $($futures:expr,)*] $named:tt) => {
        ::core::compile_error!("a `join!` or `try_join!` has at most 64 futures")
    };
    (@name $next:tt [$future:expr, $($futures:expr,)*] [$($named:tt)*] $name:ident $($names:ident)*) => {
        $crate::__join!(@name $next [$($futures,)*] [$($named)* ($name $future)] $($names)*)
    };
    (@name { $next:expr } [] [$(($name:ident $future:expr))+] $($unused:ident)*) => {{
        // Not the value of the block: that would be leaked if the destructor of a future panicked
        // (rust-lang/rust#47949).
        let joined;
        {
            $(let mut $name = ::core::pin::pin!($crate::branches::Joined::new(::core::future::IntoFuture::into_future($future)));)+
            let mut first = 0_u32;
            joined = ::core::future::poll_fn(move |cx| {
                // Made here, the compiler knows its value.
                let futures = 0_u32 $(+ { let $name = 1; $name })+;
                let mut all = true;
                for chosen in $crate::branches::turns(first, futures) {
                    let mut numbers = 0..futures;
                    $(if numbers.next() == ::core::option::Option::Some(chosen) {
                        match $name.as_mut().poll_done(cx) {
                            ::core::result::Result::Ok(done) => all &= done,
                            ::core::result::Result::Err(error) => return ::core::task::Poll::Ready(::core::result::Result::Err(error)),
                        }
                    })+
                }
                first = ($next)(first, futures);
                if all {
                    ::core::task::Poll::Ready(::core::result::Result::Ok(($($name.as_mut().take(),)+)))
                } else {
                    ::core::task::Poll::Pending
                }
            })
            .await;
        }
        joined
    }};
}

/// The number after `first` below `bound`, round.
#[doc(hidden)]
#[must_use]
pub fn turn_after(first: u32, bound: u32) -> u32 {
    (first + 1) % bound
}

pin_project! {
    /// A future whose output is the value of a result.
    #[derive(Debug)]
    #[doc(hidden)]
    pub struct NeverFails<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future> NeverFails<F> {
    #[doc(hidden)]
    pub fn new(future: impl IntoFuture<IntoFuture = F>) -> Self {
        Self {
            future: future.into_future(),
        }
    }
}

impl<F: Future> Future for NeverFails<F> {
    type Output = Result<F::Output, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().future.poll(cx).map(Ok)
    }
}

pin_project! {
    /// A future of a result, then its value.
    #[derive(Debug)]
    #[doc(hidden)]
    pub struct Joined<F, T, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        // `None` once it was ready.
        #[pin]
        future: Option<F>,
        value: Option<T>,
    }
}

impl<F: Future<Output = Result<T, E>>, T, E> Joined<F, T, E> {
    #[doc(hidden)]
    pub fn new(future: F) -> Self {
        Self {
            future: Some(future),
            value: None,
        }
    }

    /// Polls the future if it was not ready. Whether it is.
    ///
    /// # Errors
    /// The future's.
    #[doc(hidden)]
    pub fn poll_done(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Result<bool, E> {
        match self.poll_value(cx) {
            Poll::Ready(Ok(())) => Ok(true),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Ok(false),
        }
    }

    fn poll_value(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), E>> {
        let mut this = self.project();
        if let Some(future) = this.future.as_mut().as_pin_mut() {
            let result = ready!(future.poll(cx));
            this.future.set(None);
            *this.value = Some(match result {
                Ok(value) => value,
                Err(error) => return Poll::Ready(Err(error)),
            });
        }
        Poll::Ready(Ok(()))
    }

    /// The value, once.
    ///
    /// # Panics
    /// Before it is there.
    #[doc(hidden)]
    pub fn take(self: Pin<&mut Self>) -> T {
        self.project().value.take().expect("all are ready, and taken once")
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};

    use futures_lite::future::{block_on, poll_once, yield_now};

    use crate::primitives::{AtomicBool, Ordering};

    /// Without turns the first future spends the budget of every poll.
    #[test]
    fn who_never_waits_starves_nobody() {
        const TURNS_MAX: u32 = 100_000;
        async fn busy(done: &AtomicBool) -> Result<u32, ()> {
            let mut turns = 0;
            // Ordering: Relaxed, here and below; one task.
            while turns < TURNS_MAX && !done.load(Ordering::Relaxed) {
                crate::coop::consume_budget().await;
                turns += 1;
            }
            Ok(turns)
        }
        async fn brief(done: &AtomicBool) -> Result<(), ()> {
            crate::coop::consume_budget().await;
            done.store(true, Ordering::Relaxed);
            Ok(())
        }
        let runtime = crate::Runtime::builder().worker_threads(1).build().unwrap();
        let task = runtime.spawn(async {
            let done = AtomicBool::new(false);
            let (joined, _) = join!(busy(&done), brief(&done));
            done.store(false, Ordering::Relaxed);
            let tried = try_join!(busy(&done), brief(&done)).map(|(turns, ())| turns);
            [joined, tried]
        });
        let turns = runtime.block_on(task).unwrap();
        assert!(turns.iter().all(|turns| turns.unwrap() < TURNS_MAX), "{turns:?}");
    }

    #[test]
    fn the_first_comes_first_if_that_is_asked_for() {
        block_on(async {
            let log = std::cell::RefCell::new(Vec::new());
            let two_turns = async |n| {
                for _ in 0..2 {
                    log.borrow_mut().push(n);
                    yield_now().await;
                }
            };
            join!(biased; two_turns(1), two_turns(2));
            assert_eq!(*log.borrow(), [1, 2, 1, 2]);
            log.borrow_mut().clear();
            join!(two_turns(1), two_turns(2), two_turns(3));
            assert_eq!(*log.borrow(), [1, 2, 3, 2, 3, 1]);
            join!(biased;);
        });
    }

    #[test]
    fn all_are_waited_for_whatever_comes_first() {
        block_on(async {
            let log = Cell::new(0);
            let slow = async {
                yield_now().await;
                log.set(log.get() * 10 + 2);
                "slow"
            };
            let fast = async {
                log.set(log.get() * 10 + 1);
                1
            };
            assert_eq!(join!(slow, fast, ready(()),), ("slow", 1, ()));
            assert_eq!(log.get(), 12, "they take turns");
            assert_eq!(join!(biased; ready(1)), (1,));
            join!();
            assert!(poll_once(async { join!(pending::<()>(), ready(1)) }).await.is_none());
        });
    }

    #[test]
    fn names_inside_are_the_callers() {
        const FUTURES: u32 = 7;
        let (all, first) = (8, 9);
        let joined = block_on(async { join!(ready(FUTURES), ready(all), ready(first)) });
        assert_eq!(joined, (7, 8, 9));
    }

    #[test]
    fn the_first_error_ends_it() {
        block_on(async {
            let polled = Cell::new(false);
            let late = async {
                yield_now().await;
                polled.set(true);
                Ok::<u8, &str>(1)
            };
            assert_eq!(try_join!(late, ready(Err::<(), _>("no"))), Err("no"));
            assert!(!polled.get());
            assert_eq!(try_join!(ready(Ok::<_, ()>(1)), ready(Ok("two"))), Ok((1, "two")));
            let of_nothing: Result<(), ()> = try_join!();
            assert_eq!(of_nothing, Ok(()));
        });
    }

    #[test]
    fn many_futures() {
        let joined = block_on(async {
            join!(biased;
                ready(0), ready(1), ready(2), ready(3), ready(4), ready(5), ready(6), ready(7),
                ready(8), ready(9), ready(10), ready(11), ready(12), ready(13), ready(14), ready(15),
                ready(16), ready(17), ready(18), ready(19), ready(20), ready(21), ready(22), ready(23),
                ready(24), ready(25), ready(26), ready(27), ready(28), ready(29), ready(30), ready(31),
                ready(32), ready(33), ready(34), ready(35), ready(36), ready(37), ready(38), ready(39),
                ready(40), ready(41), ready(42), ready(43), ready(44), ready(45), ready(46), ready(47),
                ready(48), ready(49), ready(50), ready(51), ready(52), ready(53), ready(54), ready(55),
                ready(56), ready(57), ready(58), ready(59), ready(60), ready(61), ready(62), ready(63),
            )
        });
        assert_eq!((joined.0, joined.63), (0, 63));
    }
}
