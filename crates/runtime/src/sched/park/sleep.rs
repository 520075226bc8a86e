//! The order of steps in which a worker goes to sleep, and what it does between two sleeps: what W1 rests on.

use std::time::Duration;

use crossbeam_utils::CachePadded;
use quadrille_policy::LlcId;

use super::Sleepers;
use super::word::{ParkWord, Wait};
use crate::primitives::{AtomicU32, Ordering, fence};
use crate::reactor::{Duty, Polled};
use crate::sched::alarms::Alarm;
use crate::sched::idle::Withdrawn;
use crate::stress;

/// What the sentinel has seen at the end of an interval.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Something is stuck, or waits for longer than waking us has cost.
    Stuck,
    /// Tasks have run since the last look, more than timers have fired.
    Active,
    /// Tasks have run since the last look, no more than timers have fired.
    Timers,
    /// Nothing has run since the last look.
    Quiet,
}

/// What the owner of a [`Sleepers`] must be able to do for a worker that goes to sleep.
pub(crate) trait Host {
    /// Step 4: is there anything that this worker must not sleep beside? `everything`: it was the last searcher.
    fn final_look(&mut self, everything: bool) -> bool;

    /// For a worker that sleeps: is there anything beside which nobody should sleep, whatever a policy says?
    fn anything_left(&mut self) -> bool {
        self.final_look(false)
    }

    /// Called while the idle bit is set, before the kernel is asked: may spin until `word` has a token.
    fn spin(&mut self, word: &ParkWord);

    /// The sentinel's look at the end of an interval.
    fn sentinel_look(&mut self) -> Look;

    /// The sentinel's interval, as things are.
    fn interval(&mut self) -> Duration;

    /// The time, and when an interval that begins now ends.
    fn now_and_soon(&mut self) -> (u64, u64);

    /// Other caches than the worker's, the nearest first.
    fn others(&self) -> &[LlcId];

    /// Polls the shard whose duty this is, and keeps what it brings for the worker.
    fn poll(&mut self, duty: &Duty<'_>, timeout: Option<Duration>) -> Polled;

    /// After a look as sentinel: has nobody polled this shard since the look before?
    fn is_neglected(&self, shard: usize) -> bool;

    /// Whether those who are awake behind the worker's cache have begun no task for as long as it knows, so that none
    /// of them polls soon. A hint: who searches counts, too, if it had nothing to do before, and nobody at all.
    fn all_held(&self) -> bool {
        false
    }

    /// The worker has become holder, as sentinel; or it has polled a shard without a wait, because it holds another
    /// already: wakes somebody who is behind the cache, if all of those sleep.
    fn takes_over(&mut self, shard: usize, rouse: bool);

    /// Whether a clock that stands may jump: everybody else waits.
    fn may_jump(&self) -> bool {
        false
    }

    /// A sleep has ended, by itself, that was to last until then.
    fn was_due(&mut self, _time: u64) {}

    /// How long this worker may sleep for its own sake: until its first timer. A clock that stands may jump to that if
    /// the caller has seen that it may, and has polled since.
    fn alarm(&mut self, _may_jump: bool) -> Alarm {
        Alarm::Never
    }
}

/// Why a worker is awake again.
#[must_use]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Awake {
    /// Somebody claimed us and counted us as searching already.
    pub(crate) claimed: bool,
    /// We found something that is stuck, at the end of an interval.
    pub(crate) rescue: bool,
    /// The worker did sleep or spin: `final_look` had found nothing.
    pub(crate) slept: bool,
    /// A time-out that is there for this purpose found work beside which everybody slept: a wake-up was lost.
    pub(crate) lost_wakeup: bool,
}

/// What ended a sleep in the kernel.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Risen {
    /// A token.
    Token,
    /// The sentinel has seen something stuck.
    Stuck,
    /// Events were collected.
    Events,
    /// A timer of its own has expired, or others may rely on its getting up now.
    Alarm,
    /// See [`Awake::lost_wakeup`].
    LostWakeup,
}

/// A worker's sleep in the kernel.
struct Nap<'a> {
    /// It is the sentinel.
    duty: bool,
    /// The shard that it polls.
    polls: Option<(usize, Duty<'a>)>,
    /// When it gets up or comes back, ns, as it has published; `u64::MAX`: not by itself, or as sentinel.
    promised: u64,
    /// When it takes the sentinel's duty again, which it has left, if it is asleep then and nobody has it.
    comes_back: u64,
    /// See [`Awake::lost_wakeup`]: the last look found something.
    unseen: bool,
}

impl Sleepers {
    /// Steps 1-6 of parking, for a searcher: stops searching, announces `worker` as idle, looks once more, sleeps until
    /// claimed, rescued or stopped.
    pub(crate) fn sleep(&self, worker: usize, host: &mut impl Host) -> Awake {
        let seat = self.seats[worker];
        let word = &*self.words[worker];
        self.went_idle(worker);
        let last_searcher = self.stop_search(worker);
        stress::delay();
        self.idle.announce(seat);
        stress::delay();
        // Ordering: SeqCst; (W1 B) announcement before the final look.
        fence(Ordering::SeqCst);
        if self.is_stopping() || host.final_look(last_searcher) {
            // A token may be on its way if we were claimed; it makes a later wait return at once.
            let claimed = self.idle.withdraw(seat) == Withdrawn::Claimed;
            word.consume();
            return Awake {
                claimed,
                rescue: false,
                slept: false,
                lost_wakeup: false,
            };
        }
        // Before the spin: whoever pushes meanwhile shall know that somebody looks after it.
        let duty = self.words.len() > 1 && !self.is_relieved(host) && self.take_duty(worker);
        // After (B): who has registered a source before it sees our bit, or has its source seen by us (L b).
        let polls = self.poll_duty(worker, duty, host);
        if polls.is_none() {
            host.spin(word);
        }
        let risen = if word.consume() {
            Risen::Token
        } else {
            let nap = Nap {
                duty,
                polls,
                promised: u64::MAX,
                comes_back: u64::MAX,
                unseen: false,
            };
            self.doze(worker, nap, word, host)
        };
        self.resign(worker);
        self.alarms.clear(worker);
        // After a late token our bit may still be set and would swallow the next wake-up.
        let claimed = self.idle.withdraw(seat) == Withdrawn::Claimed;
        Awake {
            claimed,
            rescue: matches!(risen, Risen::Stuck | Risen::LostWakeup),
            slept: true,
            lost_wakeup: risen == Risen::LostWakeup,
        }
    }

    /// Sleeps in the kernel: in the poll whose duty it has, if it has one. As sentinel, if there is no other, until a
    /// quiet interval has ended with everybody idle. That the duty outlasts short pauses spares their end a wake-up for
    /// a new sentinel.
    fn doze<'a>(&'a self, worker: usize, mut nap: Nap<'a>, word: &ParkWord, host: &mut impl Host) -> Risen {
        loop {
            // A token that came before that look says that there is something to do.
            let may_jump = host.may_jump() && !word.has_token();
            if may_jump
                && let Some((_, polls)) = &nap.polls
                && matches!(host.poll(polls, Some(Duration::ZERO)), Polled::Events(_))
            {
                // What is readable comes before what expires by a jump. Polled after that look: who was at work may
                // have written last.
                return Risen::Events;
            }
            let alarm = host.alarm(may_jump);
            let left = match alarm {
                Alarm::Now => return Risen::Alarm,
                Alarm::At { left, .. } => Some(Duration::from_nanos(left)),
                Alarm::Never => None,
            };
            let round = if nap.duty {
                self.alarms.set(worker, alarm.time());
                Some(host.interval())
            } else {
                // Others, if there are any, rely on what was published, whether or not the timer is still set: it is
                // never put off.
                let before = if self.words.len() > 1 { nap.promised } else { u64::MAX };
                nap.promised = before.min(alarm.time());
                self.alarms.set(worker, nap.promised);
                let is_sooner = nap.promised < alarm.time();
                let until = || Duration::from_nanos(nap.promised.saturating_sub(host.now_and_soon().0));
                // A stress build ends every sleep some time, to see whether somebody else should have.
                is_sooner.then(until).into_iter().chain(stress::PARK_MAX).min()
            };
            // Whichever comes first ends the wait, on the word or in the poll.
            let until = left.into_iter().chain(round).min();
            let ended = match &nap.polls {
                None => word.wait(until),
                Some((shard, polls)) => word.wait_polling(*shard, || host.poll(polls, until)),
            };
            if ended == Wait::TimedOut && left.is_some() && until == left {
                host.was_due(alarm.time());
            }
            match ended {
                Wait::Token => return Risen::Token,
                Wait::Events => return Risen::Events,
                Wait::Nothing => {}
                // The timer is gone: there is nothing to look at before the interval has ended.
                Wait::TimedOut if nap.duty && until != round && host.alarm(false) != Alarm::Now => {}
                Wait::TimedOut => {
                    if let Some(risen) = self.time_is_over(worker, &mut nap, host) {
                        return risen;
                    }
                }
            }
        }
    }

    /// A sleep has lasted as long as it may. Why to get up, if it is to.
    fn time_is_over<'a>(&'a self, worker: usize, nap: &mut Nap<'a>, host: &mut impl Host) -> Option<Risen> {
        if host.alarm(false) == Alarm::Now {
            return Some(Risen::Alarm);
        }
        if !nap.duty {
            if host.now_and_soon().0 < nap.promised {
                // One look may fall between a push and its claim; for two in a row nobody is left to make one.
                let now =
                    self.all_sleep() && (host.anything_left() || (!self.has_sentinel() && self.reactor.any_unpolled()));
                let lost = nap.unseen && now;
                nap.unseen = now;
                return lost.then_some(Risen::LostWakeup);
            }
            if nap.promised != nap.comes_back {
                return Some(Risen::Alarm);
            }
            (nap.promised, nap.comes_back) = (u64::MAX, u64::MAX);
            nap.duty = self.keep_promise(worker);
            if !nap.duty {
                return None;
            }
        }
        match host.sentinel_look() {
            Look::Stuck => return Some(Risen::Stuck),
            _ if self.watch_shards(worker, &mut nap.polls, host) => return Some(Risen::Events),
            Look::Active => {}
            Look::Timers => {
                let (now, soon) = host.now_and_soon();
                let after = |first: u64| first.max(now).saturating_add(soon - now);
                nap.comes_back = self.first_alarm_but(worker).map_or(u64::MAX, after);
                self.leave_watch(worker, nap, nap.comes_back.min(host.alarm(false).time()));
            }
            Look::Quiet => self.leave_watch(worker, nap, host.alarm(false).time()),
        }
        None
    }

    /// The sentinel gives its duty back while everybody is idle, and gets up at that time (O).
    fn leave_watch(&self, worker: usize, nap: &mut Nap<'_>, promised: u64) {
        // Before the duty is given back, or who gets up by then would wake us. Who relies on it afterwards finds it
        // kept.
        self.alarms.set(worker, promised);
        self.relies_on(worker);
        if self.resign_if_all_idle(worker) {
            (nap.duty, nap.promised) = (false, promised);
        }
    }

    /// Whether the one that others rely on gets up within an interval, so that one who goes to sleep need not take the
    /// duty: while everybody is idle, since two of them could else leave it to one another for ever, beside one that is
    /// stuck. For one who has fenced: (B).
    fn is_relieved(&self, host: &mut impl Host) -> bool {
        if self.has_sentinel() || self.idle.caches.total() < self.worker_count() {
            return false;
        }
        let (now, soon) = host.now_and_soon();
        self.likely_gets_up(&(now.saturating_sub(soon - now)..=soon))
    }

    /// Whether nobody is awake, nor claimed and about to be.
    fn all_sleep(&self) -> bool {
        // Ordering: Relaxed; a hint. The counts as they are: below zero a claimer is still under way.
        let nobody = |searchers: &CachePadded<AtomicU32>| searchers.load(Ordering::Relaxed) == 0;
        self.idle.caches.total() >= self.worker_count() && self.searching.iter().all(nobody)
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests;
