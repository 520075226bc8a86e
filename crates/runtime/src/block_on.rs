//! A thread that waits for a future.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use quadrille_policy::{Nanos, Spins};

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

/// Runs `future` on the calling thread, which may block, until it is ready.
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

/// The same, for as long as `goes_on` says each time that it waits, `None` for ever; or no longer, if that says nothing.
pub(crate) fn block_on_for<F: Future>(future: F, goes_on: impl Fn() -> Option<Option<Duration>>) -> Option<F::Output> {
    let mut future = pin!(future);
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
        // A future that spends the whole budget each time comes here, too, having woken itself: its deadline counts, and others have their turn.
        let left = goes_on()?;
        // Whichever of the two ended it: the future says whether it is ready.
        thread.guest.rests(&stay);
        spin(&thread.word, left);
        let _ended = thread.word.wait(left);
    }
}

/// Spins before the thread sleeps on `word`, for as long as two wake-ups cost, where that leaves a CPU for whom it waits for: whoever does what it has asked for may have to get up first,
/// and then it is not put to sleep and woken itself. Not where it gets up by itself soon after, which is so `left` from now at the latest.
fn spin(word: &ParkWord, left: Option<Duration>) {
    if word.has_token() {
        return;
    }
    current::with(|shared| {
        let Some(shared) = shared else { return };
        let (config, longest) = (&shared.policy.config, shared.spin_outside());
        if longest == Nanos(0) || left.is_some_and(|left| Spins::would_fill(longest, nanos(left))) {
            return;
        }
        let mut spins = SPINS.get();
        if spins.are_worth_it(config) {
            spins.ended(word.spin(longest));
        }
        SPINS.set(spins);
    });
}

fn nanos(span: Duration) -> Nanos {
    Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use super::*;
    use crate::runtime::Handle;
    use crate::sched::still::Still;

    /// Whether a thread that has entered a runtime of two workers, of whom so many are `idle`, spins before it waits for `left` at most.
    fn spins(still: &Still, idle: usize, left: Option<Duration>) -> bool {
        let shared = still.shared.clone();
        (0..idle).for_each(|worker| shared.sleepers.idle.announce(shared.sleepers.seat(worker)));
        let _entered = Handle { shared }.enter();
        has_spun(&ParkWord::new(), left)
    }

    fn has_spun(word: &ParkWord, left: Option<Duration>) -> bool {
        SPINS.set(Spins::new());
        spin(word, left);
        SPINS.get() != Spins::new()
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
        let _entered = Handle {
            shared: still.shared.clone(),
        }
        .enter();
        let word = ParkWord::new();
        let _awake = word.unpark();
        assert!(!has_spun(&word, None));
        assert!(word.has_token());
    }

    #[test]
    fn what_never_pays_is_given_up() {
        let still = Still::spinning("core:2", "spin-vain=2,spin-probe=255");
        assert!(spins(&still, 1, None));
        let _entered = Handle {
            shared: still.shared.clone(),
        }
        .enter();
        let word = ParkWord::new();
        spin(&word, None);
        let given_up = SPINS.get();
        spin(&word, None);
        let mut left_out = given_up;
        assert!(!left_out.are_worth_it(&still.shared.policy.config));
        assert_eq!(SPINS.get(), left_out);
    }
}
