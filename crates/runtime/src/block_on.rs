//! A thread that waits for a future.

use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use quadrille_policy::Spins;

use crate::sched::context::polling;
use crate::sched::park::ParkWord;
use crate::sys::clock;
use crate::time::presence::{Guest, Stay};
use crate::{coop, current};

thread_local! {
    /// How the last spins of the thread have ended.
    static SPINS: Cell<Spins> = const { Cell::new(Spins::new()) };
}

/// The waker of a thread in `block_on`.
struct ThreadWaker {
    word: ParkWord,
    guest: Guest,
}

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.guest.is_woken();
        let _found = self.word.unpark();
    }
}

/// Runs `future` on the calling thread, which may block, until it is ready. `sync/block` has another loop, for a worker
/// that may not.
pub(crate) fn block_on_here<F: Future>(future: F) -> F::Output {
    match block_on_until(future, None) {
        Some(output) => output,
        None => unreachable!("without a deadline it ends with an output"),
    }
}

/// The same until `deadline` at most.
pub(crate) fn block_on_until<F: Future>(future: F, deadline: Option<Instant>) -> Option<F::Output> {
    block_on_for(future, || match deadline {
        None => Some(None),
        Some(deadline) => {
            let left = deadline.saturating_duration_since(clock::now());
            (!left.is_zero()).then_some(Some(left))
        }
    })
}

/// The same, for as long as `goes_on` says each time that it waits, `None` for ever; or no longer, if that says
/// nothing.
pub(crate) fn block_on_for<F: Future>(future: F, goes_on: impl Fn() -> Option<Option<Duration>>) -> Option<F::Output> {
    // Not the value of the block: that would be leaked if the future's destructor panicked (rust-lang/rust#47949).
    let output;
    {
        output = block_on_pinned(pin!(future), goes_on);
    }
    output
}

fn block_on_pinned<F: Future>(
    mut future: Pin<&mut F>,
    goes_on: impl Fn() -> Option<Option<Duration>>,
) -> Option<F::Output> {
    let (stay, budget) = current::with(|shared| {
        let budget = shared.map_or(coop::DEFAULT, |shared| shared.policy.config.budget);
        (Stay::begin(shared), budget)
    });
    let thread = Arc::new(ThreadWaker {
        word: ParkWord::new(),
        guest: Guest::new(&stay),
    });
    let waker = Waker::from(thread.clone());
    let mut cx = Context::from_waker(&waker);
    loop {
        thread.guest.polls(&stay);
        if let Poll::Ready(output) = coop::with_limit(budget, || polling(|| future.as_mut().poll(&mut cx))) {
            return Some(output);
        }
        // A future that spends the whole budget each time comes here, too, having woken itself: its deadline counts,
        // and others have their turn.
        let mut left = goes_on()?;
        thread.guest.rests(&stay);
        if spin(&thread.word, left) == Some(false) {
            match goes_on() {
                Some(now_left) => left = now_left,
                None => continue,
            }
        }
        // Whichever of the two ended it: the future says whether it is ready.
        let _ended = thread.word.wait(left);
    }
}

/// Spins before the thread sleeps on `word`, for `left` at most, and says whether it was woken meanwhile; `None` if it
/// does not, because that does not pay, or would leave no CPU for whom it waits for, or since it gets up by itself
/// soon.
fn spin(word: &ParkWord, left: Option<Duration>) -> Option<bool> {
    if word.has_token() {
        return None;
    }
    current::with(|shared| {
        shared?.spins_outside(|config, limit| {
            let mut spins = SPINS.get();
            let pays = !left.is_some_and(|left| Spins::would_fill(limit, left.into())) && spins.are_worth_it(config);
            let woken = pays.then(|| word.spin(limit));
            if let Some(woken) = woken {
                spins.ended(woken);
            }
            SPINS.set(spins);
            woken
        })
    })
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;
    use crate::current::EnterGuard;
    use crate::runtime::Handle;
    use crate::sched::still::Still;

    /// Whether a thread that has entered a runtime of two workers, of whom so many are `idle`, spins before it waits
    /// for `left` at most.
    fn spins(still: &Still, idle: usize, left: Option<Duration>) -> bool {
        still.rest(idle);
        let _entered = enter(still);
        has_spun(&ParkWord::new(), left)
    }

    fn enter(still: &Still) -> EnterGuard {
        let shared = still.shared.clone();
        Handle { shared }.enter()
    }

    fn has_spun(word: &ParkWord, left: Option<Duration>) -> bool {
        SPINS.set(Spins::new());
        spin(word, left).is_some()
    }

    #[test]
    fn who_waits_spins_where_a_cpu_is_left() {
        let (long, short) = (Duration::from_secs(1), Duration::from_micros(1));
        for (idle, left, expected) in [
            (1, None, true),
            (2, None, true),
            (1, Some(long), true),
            (0, None, false),
            (1, Some(short), false),
        ] {
            let still = Still::spinning("core:2", "default");
            assert_eq!(spins(&still, idle, left), expected, "{idle} {left:?}");
        }
        let still = Still::new("core:2", "default");
        assert!(!spins(&still, 1, None), "where nobody spins");
        assert!(!has_spun(&ParkWord::new(), None), "outside of every runtime");
    }

    /// It is no success either: nobody had to be waited for.
    #[test]
    fn who_is_woken_already_does_not_spin() {
        let still = Still::spinning("core:2", "default");
        assert!(spins(&still, 1, None));
        let _entered = enter(&still);
        let word = ParkWord::new();
        let _awake = word.unpark();
        assert!(!has_spun(&word, None));
        assert!(word.has_token());
    }

    #[test]
    fn what_never_pays_is_given_up() {
        let still = Still::spinning("core:2", "spin-vain=2,spin-probe=255");
        assert!(spins(&still, 1, None));
        let _entered = enter(&still);
        let word = ParkWord::new();
        assert_eq!(spin(&word, None), Some(false));
        assert_eq!([0; 254].map(|_| spin(&word, None)), [None; 254]);
        assert_eq!(spin(&word, None), Some(false), "now and then");
    }

    #[test]
    fn no_more_threads_spin_than_have_a_cpu() {
        let mut still = Still::spinning("core:2", "default");
        still.rest(1);
        let shared = &still.shared;
        let second = || shared.spins_outside(|_, _| Some(()));
        assert_eq!(shared.spins_outside(|_, _| Some(second())), Some(None));
        assert_eq!(second(), Some(()), "the first has gone");
        still = Still::sparing("core:2", "default", 2);
        let shared = &still.shared;
        let third = || shared.spins_outside(|_, _| Some(()));
        assert_eq!(
            shared.spins_outside(|_, _| shared.spins_outside(|_, _| Some(third()))),
            Some(None)
        );
    }

    #[test]
    fn block_on_spins_before_it_sleeps() {
        let still = Still::sparing("core:2", "default", 1);
        let _entered = enter(&still);
        SPINS.set(Spins::new());
        let left = Instant::now() + Duration::from_millis(200);
        assert!(block_on_until(std::future::pending::<()>(), Some(left)).is_none());
        assert!(Instant::now() >= left);
        assert_ne!(SPINS.get(), Spins::new(), "once, in vain");
    }

    #[test]
    fn nobody_spins_while_a_test_has_paused_the_clock() {
        let still = Still::sparing("core:1", "default", 1);
        let _entered = enter(&still);
        assert!(has_spun(&ParkWord::new(), None));
        crate::time::pause();
        assert!(!has_spun(&ParkWord::new(), None));
    }
}
