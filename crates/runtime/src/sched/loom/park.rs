//! The park word: a token ends one wait, wherever it falls, and hands over what its poster has done.

use std::sync::Arc;
use std::time::Duration;

use loom::thread::spawn;

use super::{Machine, check, one_group, seat};
use crate::primitives::UnsafeCell;
use crate::sched::park::word::{Found, ParkWord, Wait};

/// Before, between and after the steps of the wait; what the poster wrote is there.
#[test]
fn park_word_token_ends_the_wait() {
    for limit in [None, Some(Duration::MAX)] {
        check(3, move || {
            let shared = Arc::new((ParkWord::new(), UnsafeCell::new(0)));
            let poster = shared.clone();
            let thread = spawn(move || {
                // SAFETY: the owner reads after the token.
                poster.1.with_mut(|value| unsafe { *value = 7 });
                let _found = poster.0.unpark();
            });
            assert_eq!(shared.0.wait(limit), Wait::Token);
            // SAFETY: the poster wrote before the token.
            assert_eq!(shared.1.with(|value| unsafe { *value }), 7);
            thread.join().unwrap();
            assert!(!shared.0.has_token(), "one token, one wait");
        });
    }
}

/// Waits that time out give no token, and lose none.
#[test]
fn park_word_time_out_loses_no_token() {
    check(3, || {
        let shared = Arc::new((ParkWord::new(), UnsafeCell::new(0)));
        let poster = shared.clone();
        let thread = spawn(move || {
            // SAFETY: the owner reads after the token.
            poster.1.with_mut(|value| unsafe { *value = 7 });
            let _found = poster.0.unpark();
        });
        let timed = shared.0.wait(Some(Duration::ZERO));
        if timed == Wait::TimedOut {
            assert_eq!(shared.0.wait(None), Wait::Token);
        }
        // SAFETY: the poster wrote before the token.
        assert_eq!(shared.1.with(|value| unsafe { *value }), 7);
        thread.join().unwrap();
        assert!(!shared.0.consume(), "one token, one wait");
    });
}

/// Two posters: one or two waits end, and at least one.
#[test]
fn park_word_tokens_merge() {
    check(3, || {
        let word = Arc::new(ParkWord::new());
        let threads = [0, 1].map(|_| {
            let poster = word.clone();
            spawn(move || poster.unpark() == Found::Parked)
        });
        assert_eq!(word.wait(None), Wait::Token);
        let roused = threads.map(|thread| thread.join().unwrap());
        assert!(!(roused[0] && roused[1]), "one wait was roused twice");
        let _second = word.consume();
        assert!(!word.has_token());
    });
}

/// A worker that withdrew while a claim was under way gets that claim's token in a later sleep: it ends that sleep too
/// early, and may leave no idle bit behind (`Machine::work` checks the bit after each sleep).
#[test]
fn park_word_late_token_leaves_no_bit() {
    let plan = one_group(1);
    check(3, move || {
        let machine = Machine::new(&plan, 2);
        let claimer = machine.clone();
        let thread = spawn(move || {
            // The worker may find the first item on its way to sleep, and sleep again before its token comes.
            let member = claimer.sleepers.idle.claim_in_group(0, None, None);
            claimer.push_to_group(0, false);
            claimer.wake(member.map(seat));
            claimer.push_to_group(1, false);
        });
        machine.work(0);
        thread.join().unwrap();
        assert_eq!(
            (
                machine.sleepers.idle.caches.total(),
                machine.sleepers.searching_behind(0)
            ),
            (0, 0)
        );
    });
}
