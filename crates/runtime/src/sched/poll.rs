//! Who polls for readiness when: workers, between tasks and in their sleep. L in `README.md`.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use quadrille_policy::{LlcId, Nanos};

use super::Shared;
use super::context::Context;
use super::park::{Host, Sleepers};
use super::publish;
use super::stats::WorkerCounters;
use super::worker::Worker;
use crate::panics::quietly;
use crate::reactor::{Catch, Duty, Interests, Polled, Reactor, Registration, Shard, wake_each};
use crate::sys::clock;
use crate::task::{Runnable, is_future_of};

/// Polls, and counts it. Events that nobody waits for are no reason to get up.
pub(super) fn poll(duty: &Duty<'_>, catch: &mut Catch, timeout: Option<Duration>, counters: &WorkerCounters) -> Polled {
    let polled = duty.poll(catch, timeout, clock::nanos);
    counters.io_polls.add(1);
    match polled {
        Polled::Events(count) => counters.io_events.add(u64::from(count)),
        Polled::Notified => counters.io_polls_useless.add(1),
        Polled::Nothing if timeout == Some(Duration::ZERO) => counters.io_polls_useless.add(1),
        Polled::Nothing => {}
    }
    if catch.wakers.is_empty() && matches!(polled, Polled::Events(_)) {
        return Polled::Notified;
    }
    polled
}

impl Worker {
    /// Between tasks: polls the own cache's shard without a wait, if nobody has for a while. What it brings is ready in
    /// slot and deque, or wherever the policies put it.
    #[inline]
    pub(super) fn poll_own(&mut self, now: Nanos) {
        let interval = self.context.shared.policy.config.poll_interval;
        if self.reactor().is_used() && self.poll_if_due(now, interval).is_some() {
            // Who has registered a source meanwhile has seen a holder, and woken nobody (L b); our next task may run
            // for long.
            self.name_successor();
        }
    }

    /// A worker that has run dry: before it goes far, or announces itself as idle, it polls, if that has paid of late.
    pub(super) fn take_polled(&mut self, now: Nanos) -> Option<Runnable> {
        if !self.reactor().is_used() {
            return None;
        }
        let context = &self.context;
        let config = &context.shared.policy.config;
        let shard = context.shared.sleepers.reactor.shard(context.llc());
        if !shard.is_unpolled() {
            return None;
        }
        let since = now.since(Nanos(shard.polled_at()));
        if !self.dry_polls.are_worth_it(since, config) {
            return None;
        }
        let has_woken = self.poll_at_once()?;
        let config = &self.context.shared.policy.config;
        self.dry_polls.ended(since, has_woken, config);
        if !has_woken {
            return None;
        }
        let found = self.next_local()?;
        self.announce_leftovers(false);
        Some(found)
    }

    /// Whether it has woken somebody, if it has polled, because nobody has for that long.
    fn poll_if_due(&mut self, now: Nanos, interval: Nanos) -> Option<bool> {
        let context = &self.context;
        let shard = context.shared.sleepers.reactor.shard(context.llc());
        if !shard.is_unpolled() || now.since(Nanos(shard.polled_at())) < interval {
            return None;
        }
        self.poll_at_once()
    }

    /// Whether it has woken somebody, if nobody else has the duty.
    fn poll_at_once(&mut self) -> Option<bool> {
        let context = &self.context;
        let shard = context.shared.sleepers.reactor.shard(context.llc());
        let duty = shard.try_hold(context.id.index())?;
        let _polled = poll(&duty, &mut self.catch, Some(Duration::ZERO), &context.me().counters);
        drop(duty);
        self.was_busy_until_caught();
        Some(self.wake_caught())
    }

    /// Busy, at the end of an interval, and nobody is idle: polls the shards that nobody has polled since the last
    /// look, whose workers may all be stuck.
    pub(super) fn poll_neglected(&mut self) {
        if !self.reactor().is_used() {
            return;
        }
        let context = &self.context;
        self.rounds.look_at_shards(&context.shared.sleepers.reactor);
        let mut polled = false;
        for (llc, shard) in context.shared.sleepers.reactor.shards().iter().enumerate() {
            if self.rounds.is_neglected(llc)
                && let Some(duty) = shard.try_hold(context.id.index())
            {
                let _what = poll(&duty, &mut self.catch, Some(Duration::ZERO), &context.me().counters);
                polled = true;
            }
        }
        if polled {
            // Who has gone to sleep meanwhile has seen a holder, and one who registered a source has woken nobody
            // (L b).
            self.name_successor();
        }
        self.wake_caught();
    }

    /// Between tasks, before [`wake_caught`](Self::wake_caught) moves the clock on: the time since it was read last
    /// went into tasks.
    pub(super) fn was_busy_until_caught(&mut self) {
        if !self.catch.wakers.is_empty() {
            self.was_busy_until(Nanos(self.catch.caught_at));
        }
    }

    /// Wakes those for whom events have come, holding no duty. True if there were any.
    pub(super) fn wake_caught(&mut self) -> bool {
        if self.catch.wakers.is_empty() {
            return false;
        }
        let context = &self.context;
        context.now.set(Nanos(self.catch.caught_at));
        context.leaves_task();
        // What a waker calls reaches the context by the thread's pointer, which has to come from our reference: the
        // worker is borrowed exclusively.
        let _again = context.enter_again();
        wake_each(&mut self.catch.wakers);
        true
    }

    fn reactor(&self) -> &Reactor {
        &self.context.shared.sleepers.reactor
    }
}

impl Sleepers {
    /// The poll duty with which `worker` goes to sleep: that of its own cache's shard, else of the nearest behind whose
    /// cache nobody is awake. A sentinel leaves its own to who is awake there and comes to the end of a task, so that
    /// the next event does not take the watch away (L c).
    pub(super) fn poll_duty(&self, worker: usize, is_sentinel: bool, host: &impl Host) -> Option<(usize, Duty<'_>)> {
        if !self.reactor.is_used() {
            return None;
        }
        let own = self.llc_of(worker);
        let take = |llc: usize, leaves_it: bool| {
            let shard = self.reactor.shard(llc);
            let is_left = || leaves_it && self.awake_and_idle(llc).0 > 0 && !(llc == own && host.all_held());
            let is_free = shard.is_unpolled() && !is_left();
            let duty = if is_free { shard.try_hold(worker) } else { None };
            duty.map(|duty| (llc, duty))
        };
        take(own, is_sentinel).or_else(|| host.others().iter().find_map(|other| take(other.index(), true)))
    }

    /// Whether `worker`, which is awake, would go to sleep with the poll duty of its own cache's shard, as things are.
    /// `all_held`: as [`Host::all_held`].
    pub(super) fn would_poll(&self, worker: usize, all_held: impl FnOnce() -> bool) -> bool {
        let own = self.llc_of(worker);
        let is_left = || !self.has_sentinel() && self.awake_and_idle(own).0 > 1 && !all_held();
        self.reactor.is_used() && self.reactor.shard(own).is_unpolled() && !is_left()
    }

    /// The sentinel's look at the shards that nobody polls: takes the duty of the first, if it has none, and polls the
    /// others without a wait (L c). True if that has brought something.
    pub(super) fn watch_shards<'a>(
        &'a self,
        worker: usize,
        polls: &mut Option<(usize, Duty<'a>)>,
        host: &mut impl Host,
    ) -> bool {
        if !self.reactor.is_used() {
            return false;
        }
        for (llc, shard) in self.reactor.shards().iter().enumerate() {
            if !shard.is_unpolled() || !host.is_neglected(llc) {
                continue;
            }
            let Some(duty) = shard.try_hold(worker) else {
                continue;
            };
            if polls.is_none() {
                host.takes_over(llc, false);
                *polls = Some((llc, duty));
            } else if matches!(host.poll(&duty, Some(Duration::ZERO)), Polled::Events(_)) {
                return true;
            } else {
                drop(duty);
                host.takes_over(llc, self.awake_and_idle(llc).0 == 0);
            }
        }
        false
    }

    /// Registers a source of `shard` by calling `register`: L (b), the side of who registers.
    ///
    /// True if somebody has to be woken for it: the caller is no worker, nobody polls, and nobody is about to look.
    pub(crate) fn register<R>(
        &self,
        llc: usize,
        others: &[LlcId],
        register: impl FnOnce(&Arc<Shard>) -> R,
    ) -> (R, bool) {
        self.reactor.is_needed();
        let shard = self.reactor.shard(llc);
        let registered = register(shard);
        (registered, publish::is_unseen(self, shard, (llc, others)))
    }
}

impl Shared {
    /// Watches `fd` for the calling thread: in the shard of its cache if it is a worker, else in any.
    ///
    /// # Errors
    ///
    /// The system can't watch this kind of descriptor, or the process has no descriptor left, or the runtime was shut
    /// down.
    pub(crate) fn register(self: &Arc<Self>, fd: BorrowedFd<'_>, interests: Interests) -> io::Result<Registration> {
        let here = |context: &Context| Arc::ptr_eq(&context.shared, self).then(|| context.llc());
        let llc = Context::with(|context| context.and_then(here));
        self.register_behind(llc.unwrap_or_else(|| self.sleepers.reactor.next()), fd, interests)
    }

    /// The same in the shard of this cache.
    ///
    /// # Errors
    ///
    /// As above.
    pub(super) fn register_behind(
        self: &Arc<Self>,
        llc: usize,
        fd: BorrowedFd<'_>,
        interests: Interests,
    ) -> io::Result<Registration> {
        Context::with(|context| {
            let here = context.filter(|context| Arc::ptr_eq(&context.shared, self));
            let others = &self.policy.plan.llcs[llc].others;
            let register = |shard: &Arc<Shard>| Registration::new(shard, fd, interests);
            let (registered, is_unseen) = self.sleepers.register(llc, others, register);
            let registration = registered?;
            let llc = LlcId(u16::try_from(llc).expect("LLCs fit u16"));
            match here {
                // It is awake, and before it sleeps it takes the duty. But its task may run for long.
                Some(context) if is_unseen => self.keep_watch(llc, Some(context)),
                None if is_unseen => _ = self.wake_any(llc, None),
                _ => {}
            }
            Ok(registration)
        })
    }

    /// Polls every shard that nobody polls, nor has for so long, for who runs tasks in place of workers that block.
    /// True if somebody was woken.
    pub(super) fn poll_all(&self, catch: &mut Catch, interval: Nanos) -> bool {
        if !self.sleepers.reactor.is_used() {
            return false;
        }
        let mut polled = false;
        let now = Nanos(clock::nanos());
        let is_due = |polled_at| now.since(Nanos(polled_at)) >= interval;
        let shards = self.sleepers.reactor.shards();
        for shard in shards.iter().filter(|shard| is_due(shard.polled_at())) {
            // The number is no worker's.
            if let Some(duty) = shard.try_hold(self.worker_count()) {
                let _what = duty.poll(catch, Some(Duration::ZERO), clock::nanos);
                polled = true;
            }
        }
        if polled && self.needs_successor(Nanos(clock::nanos()), None) {
            // A worker has returned, and gone to sleep while it saw a holder (L b).
            self.keep_watch(LlcId(0), None);
        }
        let any = !catch.wakers.is_empty();
        wake_each(&mut catch.wakers);
        any
    }

    /// Ends the watch of all descriptors. Who waits for one hears it, but for futures of this runtime, which are
    /// dropped.
    pub(super) fn close_reactor(&self) {
        for waker in self.sleepers.reactor.close() {
            quietly(|| {
                if is_future_of(&waker, self) {
                    drop(waker);
                } else {
                    waker.wake();
                }
            });
        }
        self.close_rings();
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::task::{self, Waker};

    use quadrille_policy::SetId;

    use super::*;
    use crate::reactor::Side;
    use crate::sched::still::Still;
    use crate::task::spawn::{Options, allocate};
    use crate::thread::stack::DEFAULT_SIZE;

    /// Whether a worker that sleeps, and has resigned, because it saw a holder of the duty, is woken by what another
    /// does.
    fn sleeper_is_woken_by(act: impl FnOnce(&mut Worker)) -> bool {
        let mut still = Still::new("core:2", "default");
        let mut worker = still.worker(0);
        let (socket, _other) = UnixStream::pair().unwrap();
        let source = still.shared.register(socket.as_fd(), Interests::Read).unwrap();
        still.announce(1);
        still.shared.sleepers.resign(1);
        act(&mut worker);
        drop(source);
        !still.is_idle(1)
    }

    /// A thread that registers while a busy worker polls sees a holder, and wakes nobody. Once that has polled it goes
    /// on with its tasks.
    #[test]
    fn who_has_polled_between_tasks_leaves_a_sentinel_for_new_sources() {
        for polls in [false, true] {
            let woken = sleeper_is_woken_by(|worker| {
                let shared = worker.context.shared.clone();
                let duty = shared.sleepers.reactor.shard(0).try_hold(0).unwrap();
                let (socket, _other) = UnixStream::pair().unwrap();
                let new = shared.register(socket.as_fd(), Interests::Read).unwrap();
                drop(duty);
                if polls {
                    worker.poll_own(Nanos(clock::nanos()));
                }
                drop(new);
            });
            assert_eq!(woken, polls);
        }
    }

    /// It has polled, was about to sleep in a poll, and gives memory back first, which takes as long as a task.
    #[test]
    fn who_gives_memory_back_leaves_a_sentinel() {
        for crowded in [false, true] {
            let woken = sleeper_is_woken_by(|worker| {
                let shared = worker.context.shared.clone();
                let idle = if crowded { 1300 } else { 10 };
                let reserved: Vec<_> = (0..idle)
                    .map(|_| shared.stacks.reserve(0, DEFAULT_SIZE).unwrap())
                    .collect();
                let stacks: Vec<_> = reserved.into_iter().map(|reserved| reserved.take(0)).collect();
                stacks.into_iter().for_each(|stack| stack.give_back(0));
                let number = worker.context.id.index();
                shared.sleepers.start_search(number);
                assert_eq!(worker.releases_memory(), crowded);
                if !crowded {
                    shared.sleepers.stop_search(number);
                }
            });
            assert_eq!(woken, crowded);
        }
    }

    /// A worker beside a socket, and the socket with its peer.
    fn beside_a_socket() -> (Still, Worker, Registration, [UnixStream; 2]) {
        let mut still = Still::new("core:2", "default");
        let worker = still.worker(0);
        let (socket, peer) = UnixStream::pair().unwrap();
        let source = still.shared.register(socket.as_fd(), Interests::Read).unwrap();
        (still, worker, source, [socket, peer])
    }

    /// Somebody waits, whose waker does nothing, and what he waits for comes.
    fn something_comes(source: &Registration, socket: &UnixStream, peer: &mut UnixStream) {
        let mut cx = task::Context::from_waker(Waker::noop());
        let waits = source.poll_ready(socket.as_fd(), Side::Read, false, &mut cx);
        assert!(waits.is_pending());
        peer.write_all(b"!").unwrap();
    }

    /// How often the worker polls if it has run dry so many nanoseconds after each poll, that many times.
    fn polls_of_dry(worker: &mut Worker, after: u64, times: u32) -> u64 {
        let shared = worker.context.shared.clone();
        let polls = || shared.workers[0].counters.io_polls.get();
        let before = polls();
        for _ in 0..times {
            let polled_at = shared.sleepers.reactor.shard(0).polled_at();
            assert!(worker.take_polled(Nanos(polled_at + after)).is_none());
        }
        polls() - before
    }

    #[test]
    fn who_has_run_dry_polls_sooner_than_between_two_tasks() {
        let (still, mut worker, _source, _sockets) = beside_a_socket();
        worker.poll_own(Nanos(clock::nanos()));
        let polls = || still.shared.workers[0].counters.io_polls.get();
        assert_eq!(polls(), 1);
        let polled_at = still.shared.sleepers.reactor.shard(0).polled_at();
        worker.poll_own(Nanos(polled_at + 199_000));
        assert_eq!(polls(), 1);
        assert_eq!(polls_of_dry(&mut worker, 0, 1), 1, "in vain");
        assert_eq!(polls_of_dry(&mut worker, 19_999, 10), 0);
        assert_eq!(polls_of_dry(&mut worker, 20_000, 1), 1);
    }

    /// After one in vain fifteen are left out, until one brings something.
    #[test]
    fn who_has_run_dry_polls_at_once_as_long_as_that_pays() {
        let (still, mut worker, source, [socket, mut peer]) = beside_a_socket();
        assert_eq!(polls_of_dry(&mut worker, 0, 161), 11);
        assert_eq!(
            polls_of_dry(&mut worker, 20_000, 7 + 160),
            7 + 10,
            "these are late, and say nothing of those that are early"
        );
        assert_eq!(polls_of_dry(&mut worker, 0, 15), 0);
        something_comes(&source, &socket, &mut peer);
        assert_eq!(polls_of_dry(&mut worker, 0, 1), 1);
        assert_eq!(still.shared.workers[0].counters.io_events.get(), 1);
        assert_eq!(polls_of_dry(&mut worker, 0, 1), 1, "it has paid");
    }

    /// Those in vain are as with a single connection, whose client has yet to read the answer.
    #[test]
    fn who_has_run_dry_after_a_while_polls_as_long_as_that_pays() {
        let (_still, mut worker, source, [socket, mut peer]) = beside_a_socket();
        assert_eq!(polls_of_dry(&mut worker, 20_000, 8), 8);
        assert_eq!(polls_of_dry(&mut worker, 20_000, 15), 0);
        something_comes(&source, &socket, &mut peer);
        assert_eq!(polls_of_dry(&mut worker, 20_000, 9), 9, "the first has paid");
        assert_eq!(polls_of_dry(&mut worker, 20_000, 15), 0);
    }

    #[test]
    fn who_has_run_dry_and_polled_leaves_a_sentinel_before_it_goes_to_work() {
        assert!(sleeper_is_woken_by(|worker| {
            let shared = worker.context.shared.clone();
            let (socket, mut peer) = UnixStream::pair().unwrap();
            let duty = shared.sleepers.reactor.shard(0).try_hold(0).unwrap();
            let source = shared.register(socket.as_fd(), Interests::Read).unwrap();
            drop(duty);
            something_comes(&source, &socket, &mut peer);
            // As if that had woken it, but nobody besides.
            let policy = shared.new_policy(Some(worker.context.id), SetId::NONE);
            let (task, _handle) = allocate(&shared, None, policy, Options::default(), async {});
            worker.context.local.push(task);
            let polled_at = shared.sleepers.reactor.shard(0).polled_at();
            assert!(worker.take_polled(Nanos(polled_at)).is_some());
        }));
    }

    #[test]
    fn a_reliever_leaves_a_sentinel_where_it_has_polled() {
        assert!(sleeper_is_woken_by(|worker| {
            let _any = worker.context.shared.poll_all(&mut Catch::new(), Nanos(0));
        }));
    }

    #[test]
    fn a_busy_observer_leaves_a_sentinel_where_it_has_polled() {
        // Nobody has polled between two of its looks.
        assert!(sleeper_is_woken_by(|worker| {
            worker.poll_neglected();
            worker.poll_neglected();
        }));
    }
}
