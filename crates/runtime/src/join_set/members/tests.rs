use std::future::poll_fn;
use std::thread;

use futures_lite::future::{block_on, poll_once};

use super::*;

/// A member that is finished from outside, and counts its polls.
#[derive(Clone, Default)]
struct Member(Arc<Mutex<MemberState>>);

#[derive(Default)]
struct MemberState {
    output: Option<usize>,
    waker: Option<Waker>,
    polls: usize,
}

impl Member {
    fn finish(&self, output: usize) {
        let waker = {
            let mut state = self.0.lock().unwrap();
            state.output = Some(output);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn polls(&self) -> usize {
        self.0.lock().unwrap().polls
    }
}

impl Future for Member {
    type Output = usize;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<usize> {
        let mut state = self.0.lock().unwrap();
        state.polls += 1;
        match state.output.take() {
            Some(output) => Poll::Ready(output),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// An empty set.
fn set() -> Members<Member> {
    Members::new(|member, waker| {
        let mut state = member.0.lock().unwrap();
        let waits = state.output.is_none();
        if waits {
            state.waker = Some(waker.clone());
        }
        waits
    })
}

/// Adds a member that takes the waker unless it is finished.
fn add(set: &mut Members<Member>, member: &Member) {
    set.insert(member.clone());
}

fn output<F, T>(ready: Option<(F, T)>) -> Option<T> {
    ready.map(|(_, output)| output)
}

/// Waits for an output.
fn next(set: &mut Members<Member>) -> Option<usize> {
    output(block_on(poll_fn(|cx| set.poll_next(cx))))
}

/// A set of `count` members that wait.
fn set_of(count: usize) -> (Members<Member>, Vec<Member>) {
    let members: Vec<Member> = (0..count).map(|_| Member::default()).collect();
    let mut set = set();
    members.iter().for_each(|member| add(&mut set, member));
    assert_eq!(set.len(), count);
    assert!(output(set.try_next()).is_none());
    (set, members)
}

/// Counts its calls.
#[derive(Default)]
struct Count(Mutex<usize>);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        *self.0.lock().unwrap() += 1;
    }
}

#[test]
fn an_empty_set_has_nothing_to_wait_for() {
    let mut set = set();
    assert_eq!(next(&mut set), None);
    assert_eq!(output(set.try_next()), None);
}

#[test]
fn outputs_come_in_the_order_of_finishing() {
    let (mut set, members) = set_of(4);
    for index in [2, 0, 3, 1] {
        members[index].finish(index);
    }
    let outputs: Vec<_> = (0..5).map(|_| next(&mut set)).collect();
    assert_eq!(outputs, [Some(2), Some(0), Some(3), Some(1), None]);
}

#[test]
fn who_finishes_before_anybody_waits_comes_in_that_order_too() {
    let members: Vec<Member> = (0..3).map(|_| Member::default()).collect();
    let mut set = set();
    add(&mut set, &members[0]);
    members[1].finish(1);
    add(&mut set, &members[1]);
    add(&mut set, &members[2]);
    members[2].finish(2);
    members[0].finish(0);
    let outputs: Vec<_> = (0..4).map(|_| next(&mut set)).collect();
    assert_eq!(outputs, [Some(1), Some(2), Some(0), None]);
    assert_eq!(members.iter().map(Member::polls).collect::<Vec<_>>(), [1; 3]);
}

#[test]
fn only_members_that_were_woken_are_polled() {
    let (mut set, members) = set_of(1000);
    members[700].finish(700);
    assert_eq!(output(set.try_next()), Some(700));
    assert_eq!(output(set.try_next()), None);
    for (index, member) in members.iter().enumerate() {
        assert_eq!(member.polls(), usize::from(index == 700));
    }
}

#[test]
fn the_parent_is_called_once_for_each_time_that_it_waits() {
    let (mut set, members) = set_of(3);
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut cx = Context::from_waker(&waker);
    assert!(set.poll_next(&mut cx).is_pending());
    members[0].finish(0);
    members[1].finish(1);
    assert_eq!(*count.0.lock().unwrap(), 1);
    assert_eq!(set.poll_next(&mut cx).map(output), Poll::Ready(Some(0)));
    assert_eq!(set.poll_next(&mut cx).map(output), Poll::Ready(Some(1)));
    assert!(set.poll_next(&mut cx).is_pending());
    members[2].finish(2);
    assert_eq!(*count.0.lock().unwrap(), 2);
}

#[test]
fn the_last_parent_is_called() {
    let (mut set, members) = set_of(1);
    let (first, last) = (Arc::new(Count::default()), Arc::new(Count::default()));
    for count in [&first, &last] {
        let waker = Waker::from(Arc::clone(count));
        assert!(set.poll_next(&mut Context::from_waker(&waker)).is_pending());
    }
    members[0].finish(0);
    assert_eq!((*first.0.lock().unwrap(), *last.0.lock().unwrap()), (0, 1));
}

#[test]
fn a_member_that_wakes_itself_does_not_hold_the_worker() {
    let mut polls = 0;
    let mut set = Members::new(|_, _| false);
    let member = poll_fn(|cx| {
        polls += 1;
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    set.insert(member);
    assert!(block_on(poll_once(poll_fn(|cx| set.poll_next(cx)))).is_none());
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    assert!(set.poll_next(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(*count.0.lock().unwrap(), 1, "it asks for another turn");
    drop(set);
    assert_eq!(polls, 2);
}

#[test]
fn a_slot_is_used_again_and_an_old_waker_does_no_harm() {
    let (mut set, members) = set_of(2);
    let old = members[0].0.lock().unwrap().waker.clone().unwrap();
    members[0].finish(0);
    assert_eq!(output(set.try_next()), Some(0));
    old.wake_by_ref();
    assert_eq!(output(set.try_next()), None, "the slot is empty");
    let new = Member::default();
    add(&mut set, &new);
    assert_eq!(set.slots.len(), 2);
    assert_eq!(output(set.try_next()), None);
    old.wake();
    assert_eq!(output(set.try_next()), None);
    assert_eq!(new.polls(), 1, "once too often");
    new.finish(7);
    assert_eq!(output(set.try_next()), Some(7));
    assert_eq!(set.len(), 1);
}

#[test]
fn clearing_drops_the_members_and_keeps_the_set_usable() {
    let (mut set, members) = set_of(5);
    members[3].finish(3);
    set.clear();
    assert_eq!((set.len(), set.iter().count()), (0, 0));
    assert_eq!(Arc::strong_count(&members[3].0), 1);
    assert_eq!(next(&mut set), None);
    let new = Member::default();
    new.finish(1);
    add(&mut set, &new);
    assert_eq!(next(&mut set), Some(1));
}

#[test]
fn those_who_finish_while_others_are_taken_come_after_them() {
    let (mut set, members) = set_of(6);
    [4, 2, 5].iter().for_each(|&index| members[index].finish(index));
    assert_eq!(output(set.try_next()), Some(4));
    [3, 0].iter().for_each(|&index| members[index].finish(index));
    let outputs: Vec<_> = (0..5).map(|_| output(set.try_next())).collect();
    assert_eq!(outputs, [Some(2), Some(5), Some(3), Some(0), None]);
}

#[test]
fn who_waits_for_a_set_that_is_cleared_is_called() {
    let (mut set, _members) = set_of(2);
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut cx = Context::from_waker(&waker);
    assert!(set.poll_next(&mut cx).is_pending());
    set.clear();
    assert_eq!(*count.0.lock().unwrap(), 1);
    assert_eq!(set.poll_next(&mut cx).map(output), Poll::Ready(None));
}

#[test]
fn those_who_come_after_a_clearing_have_their_own_order() {
    for order in [[0, 1], [1, 0]] {
        // One is taken out of the line already, and one has come later.
        let (mut set, members) = set_of(4);
        (0..3).for_each(|index| members[index].finish(index));
        assert_eq!(output(set.try_next()), Some(0));
        members[3].finish(3);
        let later: Vec<Member> = (0..2).map(|_| Member::default()).collect();
        set.clear();
        later.iter().for_each(|member| add(&mut set, member));
        order.iter().for_each(|&index| later[index].finish(index));
        assert_eq!(order.map(|_| next(&mut set).unwrap()), order);
    }
}

#[test]
fn a_dropped_set_lets_its_parent_go() {
    let (mut set, members) = set_of(1);
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    assert!(set.poll_next(&mut Context::from_waker(&waker)).is_pending());
    drop((set, waker));
    assert_eq!(
        Arc::strong_count(&count),
        1,
        "though the member lives on with a waker of the set"
    );
    members[0].finish(0);
    assert_eq!(*count.0.lock().unwrap(), 0);
}

#[test]
fn stress_every_output_arrives() {
    const MEMBERS: usize = 50;
    for _ in 0..100 {
        let members: Vec<Member> = (0..MEMBERS).map(|_| Member::default()).collect();
        let mut set = set();
        members.iter().for_each(|member| add(&mut set, member));
        let mut outputs = Vec::new();
        thread::scope(|scope| {
            for half in members.chunks(MEMBERS / 2).enumerate() {
                let (number, half) = half;
                scope.spawn(move || {
                    for (index, member) in half.iter().enumerate() {
                        member.finish(number * (MEMBERS / 2) + index);
                    }
                });
            }
            // A lost wake-up would hang here.
            while let Some(output) = next(&mut set) {
                outputs.push(output);
            }
        });
        outputs.sort_unstable();
        assert_eq!(outputs, (0..MEMBERS).collect::<Vec<_>>());
    }
}

/// What the set has allocated, in slots.
fn room(set: &Members<Member>) -> usize {
    let state = set.shared.lock();
    let rooms = [
        set.slots.capacity(),
        set.free.capacity(),
        set.taken.capacity(),
        state.line.capacity(),
        state.in_line.capacity(),
    ];
    rooms.into_iter().max().unwrap()
}

/// Adds so many members that finish, and takes their outputs.
fn round(set: &mut Members<Member>, count: usize) {
    let members: Vec<Member> = (0..count).map(|_| Member::default()).collect();
    members.iter().for_each(|member| add(set, member));
    (0..count).for_each(|number| members[number].finish(number));
    (0..count).for_each(|number| assert_eq!(next(set), Some(number)));
}

#[test]
fn what_a_burst_needed_is_given_back_by_the_next_round() {
    for cleared in [false, true] {
        let mut set = set();
        if cleared {
            (0..100_000).for_each(|_| add(&mut set, &Member::default()));
            set.clear();
        } else {
            round(&mut set, 100_000);
        }
        assert!(room(&set) >= 100_000, "as many may come again");
        round(&mut set, 1);
        assert_eq!((set.len(), room(&set)), (0, 0));
        round(&mut set, 10);
        assert!(room(&set) < 100);
    }
}

#[test]
fn rounds_of_about_one_size_move_nobody() {
    let mut set = set();
    let large = 4 * KEPT;
    round(&mut set, large);
    let shared = Arc::downgrade(&set.shared);
    for size in [large, large / 2, large / 4, large / 3, large] {
        round(&mut set, size);
        assert!(shared.upgrade().is_some_and(|shared| Arc::ptr_eq(&shared, &set.shared)));
        assert_eq!(set.slots.len(), large);
    }
}

#[test]
fn few_slots_are_kept() {
    let mut set = set();
    round(&mut set, KEPT);
    round(&mut set, 1);
    assert_eq!(set.slots.len(), KEPT);
}

/// A set that is never empty: some stay, one is always there to come and go.
#[test]
fn those_who_stay_move_and_keep_their_order() {
    let burst = 8 * KEPT;
    let (mut set, stay) = set_of(6);
    round_beside(&mut set, burst);
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut cx = Context::from_waker(&waker);
    assert!(set.poll_next(&mut cx).is_pending());
    let old = stay[5].0.lock().unwrap().waker.clone().unwrap();
    // In the last one that leaves before they move two stand in line behind it.
    let mut before = 0;
    while set.slots.len() >= burst {
        assert!(before < 2 * burst);
        let passes = Member::default();
        add(&mut set, &passes);
        passes.finish(7);
        if set.left + 1 == set.slots.len() && set.most < burst / 4 {
            [4, 1].iter().for_each(|&index| stay[index].finish(index));
        }
        assert_eq!(output(set.try_next()), Some(7));
        before += 1;
    }
    assert!(room(&set) < 100, "{}", room(&set));
    assert_eq!(set.len(), 6);
    old.wake_by_ref();
    assert_eq!(next(&mut set), Some(4));
    assert_eq!(next(&mut set), Some(1));
    [5, 0].iter().for_each(|&index| stay[index].finish(index));
    assert_eq!(next(&mut set), Some(5));
    assert_eq!(next(&mut set), Some(0));
    [2, 3].iter().for_each(|&index| stay[index].finish(index));
    let outputs: Vec<_> = (0..3).map(|_| next(&mut set)).collect();
    assert_eq!(outputs, [Some(2), Some(3), None]);
}

/// As `round`, while others are in the set.
fn round_beside(set: &mut Members<Member>, count: usize) {
    let before = set.len();
    round(set, count);
    assert_eq!(set.len(), before);
}

/// It was left while they had their former wakers.
#[test]
fn the_parent_moves_with_them() {
    let (mut set, stay) = set_of(1);
    round_beside(&mut set, 2 * KEPT);
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    assert!(set.poll_next(&mut Context::from_waker(&waker)).is_pending());
    set.shrink();
    assert_eq!((set.slots.len(), *count.0.lock().unwrap()), (1, 0));
    stay[0].finish(3);
    assert_eq!(*count.0.lock().unwrap(), 1);
    assert_eq!(output(set.try_next()), Some(3));
}

/// While other threads finish them.
#[test]
fn stress_members_move_and_every_output_arrives() {
    const MEMBERS: usize = 50;
    for _ in 0..100 {
        let (mut set, members) = set_of(MEMBERS);
        let mut outputs = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| (0..MEMBERS).for_each(|index| members[index].finish(index)));
            // A lost wake-up would hang here.
            while let Some(output) = next(&mut set) {
                outputs.push(output);
                set.shrink();
            }
        });
        outputs.sort_unstable();
        assert_eq!(outputs, (0..MEMBERS).collect::<Vec<_>>());
    }
}
