//! Publish, fence, claim: the pusher's side of W1, for each kind of queue that its pusher won't drain.
//!
//! These functions know neither tasks nor policies, so that the model checker runs the very code of a wake-up.

use quadrille_policy::LlcId;

use super::idle::Seat;
use super::park::Sleepers;
use super::queue::Linked;
use super::queue::group::GroupQueue;
use crate::primitives::{Ordering, fence};
use crate::reactor::Shard;
use crate::stress;

/// Pushes into the queue of `group` by calling `push`: (a), (A), and the claim of step 6.
///
/// `prefer` is claimed if it is idle. `pays` is asked with the number of idle members and of awake ones whether an
/// unpark pays; its answer counts only beside an awake member.
#[must_use = "the claimed worker is owed a token"]
pub(crate) fn to_group(
    push: impl FnOnce(),
    sleepers: &Sleepers,
    group: usize,
    prefer: Option<u8>,
    pays: impl FnOnce(u32, u32) -> bool,
) -> Option<Seat> {
    // (W1 a), and the last touch of the task (W3).
    push();
    announce(sleepers, group, prefer, pays)
}

/// Pushes by calling `push` into the queue of a group of which a member was claimed before: (a), (A). That one is owed
/// a token. It may have got up by itself meanwhile, and go to other work; so the pusher looks, after this, whether
/// somebody watches (O).
pub(crate) fn to_claimed(push: impl FnOnce()) {
    // (W1 a), and the last touch of the task (W3).
    push();
    stress::delay();
    // Ordering: SeqCst; (W1 A) publish before the look for a sentinel, against one that has resigned before it looks at
    // the queues (`is_unwatched`).
    fence(Ordering::SeqCst);
}

/// Takes an item from the queue of a group that the caller is no member of, and hands up to `max` further ones to
/// `sink`.
///
/// What it leaves behind went through its hands: while it moved the mailbox into the FIFO, a member's final look could
/// see neither. So it announces the rest like a pusher.
#[must_use = "the claimed worker is owed a token"]
pub(crate) fn rescue_from_group<T: Linked>(
    (queue, max): (&GroupQueue<T>, usize),
    now_ns: u64,
    sleepers: &Sleepers,
    group: usize,
    sink: impl FnMut(T),
) -> (Option<T>, Option<Seat>) {
    if queue.is_empty() {
        return (None, None);
    }
    let item = queue.pop(max, || now_ns, sink);
    let rest = !queue.is_empty();
    (
        item,
        if rest {
            announce(sleepers, group, None, |_, _| true)
        } else {
            None
        },
    )
}

/// Pushes into an injector by calling `push`: (a), (A), and whether step 6 owes an unpark.
///
/// The queue is that of the cache `owner`. Somebody near the cache `llc` would be woken, else behind one of `others`,
/// the nearest first. `pays` is asked with the number of the owner's workers that are awake whether an unpark pays; its
/// answer counts only beside such a one, who looks there between two tasks. Who is awake elsewhere would be one more
/// line for each cache that the machine has.
#[must_use = "an unpark may be owed"]
pub(crate) fn to_anyone(
    push: impl FnOnce(),
    sleepers: &Sleepers,
    owner: usize,
    (llc, others): (usize, &[LlcId]),
    pays: impl FnOnce(u32) -> bool,
) -> bool {
    // (W1 a), and the last touch of the task (W3).
    push();
    stress::delay();
    // Ordering: SeqCst; (W1 A) publish before reading who is idle.
    fence(Ordering::SeqCst);
    // W1s: a searcher is a witness. It looks at every injector before it parks.
    if !sleepers.idle.caches.any() || sleepers.searching_for(llc, others) > 0 {
        return false;
    }
    let awake = sleepers.witnesses(owner);
    // With nobody awake the unpark is owed, whatever the policy says (W4).
    awake == 0 || pays(awake)
}

/// Pushes into the bound mailbox of the worker in `seat` by calling `push`: (a), (A), and the claim of step 6 (B).
///
/// True if that worker was idle and is claimed. Nobody but it may take what was pushed, so nothing excuses from the
/// claim: neither a searcher nor a policy.
#[must_use = "the claimed worker is owed a token"]
pub(crate) fn to_owner(push: impl FnOnce(), sleepers: &Sleepers, seat: Seat) -> bool {
    // (W1 a), and the last touch of the thread (W3).
    push();
    stress::delay();
    // Ordering: SeqCst; (W1 A) publish before reading whether the owner is idle, against its fence (W1 B).
    fence(Ordering::SeqCst);
    sleepers.idle.claim_seat(seat)
}

/// After a source was added to `shard`, which has fenced (A): whether nobody polls it, and nobody is about to look who
/// may (L b). Somebody near the cache `llc` would be woken, else behind one of `others`.
#[must_use = "an unpark may be owed"]
pub(crate) fn is_unseen(sleepers: &Sleepers, shard: &Shard, (llc, others): (usize, &[LlcId])) -> bool {
    stress::delay();
    shard.is_unpolled() && sleepers.idle.caches.any() && sleepers.searching_for(llc, others) == 0
}

/// In the final look of a worker that has announced itself: something is queued that its policy tells it to leave to
/// others. Whether it must stay awake for it.
///
/// A pusher may have woken nobody because we searched (W1s). Another searcher has its final look still to come; the
/// last one hands the work over by calling `hand_over`, which wakes somebody who may have it, or says that all of those
/// are awake.
#[must_use]
pub(crate) fn stays_for_what_it_leaves(last_searcher: bool, hand_over: impl FnOnce() -> bool) -> bool {
    last_searcher && !hand_over()
}

/// (A) and the claim of step 6, after something was put into the queue of `group`.
fn announce(
    sleepers: &Sleepers,
    group: usize,
    prefer: Option<u8>,
    pays: impl FnOnce(u32, u32) -> bool,
) -> Option<Seat> {
    stress::delay();
    // Ordering: SeqCst; (W1 A) publish before reading who is idle.
    fence(Ordering::SeqCst);
    let idle = sleepers.idle.members(group);
    if idle == 0 {
        return None;
    }
    let awake = sleepers.awake_in_group(group, idle);
    // An awake member is a witness; with none the unpark is owed, whatever the policy says (W4).
    if awake > 0 && !pays(idle.count_ones(), awake) {
        return None;
    }
    let avoid = sleepers
        .sentinel_seat()
        .filter(|seat| seat.group == group)
        .map(|seat| seat.member);
    let member = sleepers.idle.claim_in_group(group, prefer, avoid)?;
    Some(Seat { group, member })
}
