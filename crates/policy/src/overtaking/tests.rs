//! Turns by time: who is known as long, who is passed over, and that none of either is left out.

use alloc::vec::Vec;

use super::*;

mod turns;

const LOOK_UP: Nanos = Nanos(100_000);

fn us(micros: u64) -> Nanos {
    Nanos::from_micros(micros)
}

fn off() -> Overtaking {
    Overtaking::new(&Overtake::default(), true, Adversary::None)
}

fn on() -> Overtaking {
    let mut overtaking = off();
    for _ in 0..2 {
        overtaking.looks_up(us(200), LOOK_UP, 0);
    }
    assert!(overtaking.is_on());
    overtaking.timed_alone = 0;
    overtaking.ended(us(0));
    overtaking
}

/// One poll that is timed, from the time before to this.
fn polled(overtaking: &mut Overtaking, task: u64, until: Nanos) {
    overtaking.begins(task);
    overtaking.ended(until);
}

/// Two polls; the second one as for [`polled`], the first one an hour before.
fn polled_twice(overtaking: &mut Overtaking, task: u64, until: Nanos) {
    let since = overtaking.since;
    overtaking.ended(us(0));
    polled(overtaking, task, us(50));
    overtaking.since = since;
    polled(overtaking, task, until);
}

#[test]
fn it_is_on_from_the_second_late_look_up_to_three_milliseconds_without_a_long_poll() {
    let mut overtaking = off();
    let mut looks_up = |micros| {
        overtaking.looks_up(us(micros), LOOK_UP, 0);
        overtaking.is_on()
    };
    assert!(!looks_up(99) && !looks_up(99));
    assert!(!looks_up(100), "perhaps the system had the CPU");
    assert!((0..10).all(|_| !looks_up(75)));
    assert!(!looks_up(100), "others had time in between");
    assert!((0..9).all(|_| !looks_up(75)));
    assert!(looks_up(100));
    assert!((1..30).all(|_| looks_up(300)), "late, and perhaps for another reason");
    assert!(!looks_up(300));
    assert!(!looks_up(300) && looks_up(300));
    assert!((1..300).all(|_| looks_up(10)));
    assert!(!looks_up(10));
    assert!(!looks_up(300) && looks_up(300));
    for at in 1..1_000 {
        polled(&mut overtaking, 7, us(60 * at));
        overtaking.looks_up(us(60), LOOK_UP, 0);
    }
    assert!(overtaking.is_on(), "as long as there are some");
    overtaking.looks_up(us(0), LOOK_UP, 0);
    assert!(!overtaking.is_on(), "the clock stands");
    overtaking.looks_up(us(300), LOOK_UP, 0);
    assert!(!overtaking.is_on());
    let mut never = Overtaking::new(&Overtake::default(), false, Adversary::None);
    never.looks_up(us(1_000_000), LOOK_UP, 0);
    never.looks_up(us(1_000_000), LOOK_UP, 0);
    assert!(!never.is_on());
}

/// Ten tasks whose polls take 100 ns, and the system has the CPU for 70 us `every` so many of them. Whether a task with
/// that number computes for 200 us each thousandth poll. How many polls began while it was on, in a hundred
/// milliseconds.
fn interrupted(every: u64, computes: Option<u64>) -> u64 {
    let mut overtaking = on();
    let (mut now, mut looked_up, mut while_on, mut once) = (0, 0, 0, 0);
    for poll in 1_u64.. {
        let task = computes.filter(|_| poll % 1_000 == 0).unwrap_or(1 + poll % 10);
        if overtaking.is_on() {
            while_on += 1;
            if overtaking.needs_time() || overtaking.may_pass(task) {
                overtaking.ended(Nanos(now));
            }
            let is_long = Some(task) == computes;
            assert!(is_long || !overtaking.meets(task, false), "{every}: {task}");
            assert!(is_long || !overtaking.passes(task, Nanos(now), 0, None));
            overtaking.begins(task);
        }
        now += if Some(task) == computes { 200_000 } else { 100 };
        now += if poll.is_multiple_of(every) { 70_000 } else { 0 };
        once += u64::from((1..=10).any(|task| overtaking.lately(task) == Some(Lately::LongOnce)));
        if poll.is_multiple_of(61) || now - looked_up >= 60_000 {
            overtaking.looks_up(Nanos(now - looked_up), LOOK_UP, 0);
            looked_up = now;
        }
        if now >= 100_000_000 {
            assert!(computes.is_none_or(|task| overtaking.is_long(task)), "{every}");
            assert!(
                computes.is_none() || once > 0,
                "{every}: none was ever timed when that happened"
            );
            return while_on;
        }
    }
    unreachable!()
}

#[test]
fn short_tasks_that_are_interrupted_are_not_long() {
    for every in [9_301, 37_321] {
        // Three milliseconds are 30,000 polls: it was on when it began.
        let on = interrupted(every, None);
        assert!(on <= 31_000, "{every}: {on}");
    }
    // So often that some of those polls are timed alone.
    assert!(interrupted(503, Some(11)) > 100_000);
}

#[test]
fn a_task_is_long_from_two_long_polls_to_a_short_one() {
    // Whether each poll is long, and whether the task is after it.
    for (polls, is_long) in [
        ("L", "."),
        ("LL", ".L"),
        ("LsL", "..L"),
        ("LssL", "...."),
        ("LLsL", ".L.L"),
        ("LLssLL", ".L...L"),
        ("LLsLsLssL", ".L.L.L..."),
    ] {
        let mut overtaking = on();
        let mut now = 0;
        for (poll, expected) in polls.chars().zip(is_long.chars()) {
            now += if poll == 'L' { 50 } else { 49 };
            polled(&mut overtaking, 7, us(now));
            assert_eq!(overtaking.is_long(7), expected == 'L', "{polls}");
            assert_eq!(overtaking.passes(7, us(now), 0, None), expected == 'L', "{polls}");
        }
    }
}

#[test]
fn it_stays_on_while_one_waits_for_its_turn_but_not_for_ever() {
    let mut overtaking = on();
    polled_twice(&mut overtaking, 1, us(1_000));
    assert!(overtaking.passes(1, us(1_000), 0, None));
    // Others have a millisecond.
    for _ in 0..1_000 {
        overtaking.looks_up(us(10), LOOK_UP, 0);
        assert!(overtaking.is_on());
    }
    assert!(!overtaking.passes(1, us(11_000), 0, None));
    polled(&mut overtaking, 1, us(12_000));
    assert!(overtaking.passes(1, us(12_000), 0, None));
    overtaking.known.get_mut(&1).unwrap().at = Some(5);
    for _ in 0..300 {
        overtaking.looks_up(us(10), LOOK_UP, 5);
    }
    assert!(overtaking.is_on());
    overtaking.looks_up(us(10), LOOK_UP, 6);
    assert!(!overtaking.is_on(), "it was stolen");
}

#[test]
fn the_clock_is_read_for_each_eighth_poll_and_for_long_tasks() {
    let mut overtaking = on();
    for task in 1..u64::from(POLLS_A_LOOK) {
        overtaking.begins(task);
        assert!(!overtaking.needs_time());
    }
    overtaking.begins(8);
    assert!(overtaking.needs_time());
    overtaking.ended(us(10));
    assert!(!overtaking.needs_time());
    polled(&mut overtaking, 9, us(60));
    overtaking.begins(9);
    assert!(overtaking.needs_time(), "the end of its poll");
    overtaking.ended(us(70));
    overtaking.begins(9);
    assert!(overtaking.needs_time(), "it was short for once");
    overtaking.ended(us(80));
    overtaking.begins(9);
    assert!(!overtaking.needs_time());
}

#[test]
fn who_was_long_of_several_is_found_the_second_time() {
    let mut overtaking = on();
    let mut now = 0;
    let mut read = 0;
    let mut rounds = 0;
    while !overtaking.is_long(3) {
        for task in 1..=8 {
            if overtaking.needs_time() || overtaking.may_pass(task) {
                overtaking.ended(us(now));
                read += 1;
            }
            overtaking.begins(task);
            now += if task == 3 { 50 } else { 0 };
        }
        rounds += 1;
    }
    assert!((3..=4).contains(&rounds) && read <= 4 + 24, "{rounds} {read}");
    assert!((1..=8).all(|task| task == 3 || !overtaking.is_long(task)));
}

/// A sender that fills a pipe: 128 messages of 0.6 us a poll.
#[test]
fn who_spends_its_budget_on_messages_is_not_long() {
    let mut overtaking = on();
    let (mut now, mut spent) = (0, 0);
    let mut polls = |overtaking: &mut Overtaking, task, units, micros| {
        for _ in 0..3 {
            overtaking.begins(task);
            (now, spent) = (now + micros, spent + units);
            overtaking.have_spent(spent);
            overtaking.ended(us(now));
        }
        overtaking.is_long(task)
    };
    assert!(!polls(&mut overtaking, 1, 128, 77));
    assert!(!polls(&mut overtaking, 2, 128, 385), "a slow host");
    assert!(polls(&mut overtaking, 3, 128, 386));
    assert!(
        polls(&mut overtaking, 4, UNITS, 50),
        "few things that count, and much between"
    );
    assert!(!polls(&mut overtaking, 5, UNITS + 1, 50) && polls(&mut overtaking, 6, 0, 50));
}

/// Two that compute, further apart than polls are timed alone once one of them is found, among others that spend all of
/// their budgets in 2 us each.
#[test]
fn who_computes_among_messages_is_found() {
    const LONG: [u64; 2] = [3, 55];
    let mut overtaking = on();
    let (mut now, mut spent) = (0, 0);
    for poll in 0..1_000_u64 {
        let task = 1 + poll % 100;
        if overtaking.needs_time() || overtaking.may_pass(task) {
            overtaking.have_spent(spent);
            overtaking.ended(us(now));
        }
        overtaking.begins(task);
        (now, spent) = if LONG.contains(&task) {
            (now + 200, spent)
        } else {
            (now + 2, spent + 128)
        };
    }
    assert!((1..=100).all(|task| overtaking.is_long(task) == LONG.contains(&task)));
}

/// What was spent before the clock was read last is of other polls.
#[test]
fn units_are_of_the_polls_that_were_timed() {
    let mut overtaking = on();
    overtaking.have_spent(10_000);
    overtaking.ended(us(1));
    for end in [51, 101] {
        overtaking.begins(7);
        overtaking.have_spent(10_000);
        overtaking.ended(us(end));
    }
    assert!(overtaking.is_long(7));
}

/// It gives way, and pairs that exchange messages out of the slot have 2,000 polls before it comes again. A worker
/// looks up each 61 polls, or after 50 us.
#[test]
fn who_hides_among_many_short_polls_is_found_the_second_time() {
    const LONG: u64 = 1;
    for took in [200_000, 1_000_000] {
        let mut overtaking = off();
        let (mut now, mut read, mut looked_up) = (0, 0, 0);
        let mut found = None;
        for poll in 0..20_000 {
            let task = if poll % 2_000 == 1_000 { LONG } else { 2 + poll / 100 };
            if overtaking.is_on() {
                if overtaking.needs_time() || overtaking.may_pass(task) {
                    overtaking.ended(Nanos(now));
                    read += 1;
                }
                overtaking.begins(task);
            }
            now += if task == LONG { took } else { 75 };
            if poll % 61 == 0 || now - looked_up > 50_000 {
                overtaking.looks_up(Nanos(now - looked_up), LOOK_UP, 0);
                looked_up = now;
            }
            assert!(found.is_none() || overtaking.is_on(), "{took} {poll}");
            if overtaking.is_long(LONG) {
                found.get_or_insert((poll / 2_000, read));
            }
        }
        let (round, read) = found.unwrap();
        // After two looks up that were late, the second time that it was timed alone.
        assert!(round <= 5 && read < 5_500, "{took}: {round} {read}");
    }
}

#[test]
fn what_passes_without_work_is_nobodys() {
    let mut overtaking = on();
    overtaking.begins(1);
    overtaking.pauses();
    overtaking.ended(us(1_000));
    overtaking.begins(2);
    overtaking.ended(us(1_001));
    assert!(!overtaking.is_long(1) && !overtaking.is_long(2));
}

#[test]
fn what_it_takes_to_go_through_the_queues_is_nobodys() {
    let mut overtaking = on();
    polled_twice(&mut overtaking, 1, us(100));
    assert!(overtaking.passes(1, us(100), 0, None));
    overtaking.resumes_at(us(180));
    polled(&mut overtaking, 2, us(181));
    assert!(!overtaking.is_long(2));
    assert!(
        !overtaking.passes(1, us(200), 0, None),
        "the others' time was not moved"
    );
}

#[test]
fn others_go_first_for_as_long_as_it_took_and_no_longer_than_configured() {
    for (took, first_for) in [(50, 50), (200, 200), (1_000, 1_000), (20_000, 1_000)] {
        let mut overtaking = on();
        polled_twice(&mut overtaking, 1, us(took));
        assert!(overtaking.passes(1, us(took + first_for - 1), 0, None), "{took}");
        assert!(!overtaking.passes(1, us(took + first_for), 0, None), "{took}");
    }
}

#[test]
fn a_mark_makes_it_known_elsewhere_until_it_is_short() {
    let [mut here, mut there] = [(); 2].map(|()| on());
    polled(&mut here, 1, us(100));
    assert!(!here.meets(1, false), "once is not enough");
    polled(&mut here, 1, us(200));
    assert!(here.meets(1, false) && !here.meets(2, false));
    assert!(!there.meets(1, false) && !there.is_long(1), "not marked");
    assert!(there.meets(1, true) && there.is_long(1));
    polled(&mut there, 3, us(200));
    assert!(there.passes(1, us(300), 0, None));
    assert!(there.meets(1, true), "it remains marked");
    polled(&mut there, 1, us(210));
    assert!(!there.is_long(1));
    for _ in 0..300 {
        there.looks_up(us(10), LOOK_UP, 0);
    }
    assert!(!there.is_on());
    for _ in 0..2 {
        there.looks_up(us(200), LOOK_UP, 0);
    }
    assert!(there.is_on());
    assert!(!there.meets(1, true), "it was short");
    there.ended(us(0));
    polled(&mut there, 1, us(1));
    assert!(!there.known.contains_key(&1));
}

#[test]
fn of_one_that_was_long_once_a_mark_says_that_it_is_long() {
    let mut overtaking = on();
    polled(&mut overtaking, 1, us(100));
    assert!(overtaking.meets(1, true) && overtaking.is_long(1));
}

/// It is thrown away now and then, or there would be nobody whom it left out.
#[test]
fn the_filter_does_not_fill_with_those_that_were_interrupted() {
    let mut overtaking = on();
    polled_twice(&mut overtaking, 1, us(100));
    let mut now = 100;
    for task in 2..10_000 {
        for took in [50, 1, 1] {
            now += took;
            polled(&mut overtaking, task, us(now));
        }
    }
    assert!(overtaking.is_long(1) && overtaking.known.len() == 1);
    let seem = (20_000..21_000).filter(|&task| overtaking.filter.has(task)).count();
    assert!(seem < 100, "{seem} of 1,000");
}

/// As many as there is room for, whose numbers begin with 1; of them the first so many wait for a turn.
fn with_as_many_as_it_knows(waiting: u64) -> Overtaking {
    let mut overtaking = on();
    for task in 1..=MOST as u64 {
        polled_twice(&mut overtaking, task, us(100 * task));
        assert!(task > waiting || overtaking.passes(task, us(100 * task), 0, None));
    }
    assert_eq!(overtaking.known.len(), MOST);
    overtaking
}

/// Tasks that compute once and end, and three that go on.
#[test]
fn those_that_have_ended_are_forgotten_if_there_are_too_many() {
    let mut overtaking = on();
    let mut now = 0;
    for task in 10..10_000 {
        for task in [task, 1 + task % 3] {
            now += 100;
            polled(&mut overtaking, task, us(now));
        }
        assert!(overtaking.known.len() <= MOST);
        assert!(task < 20 || (1..=3).all(|task| overtaking.is_long(task)), "{task}");
    }
    // Others that go on come later, beside such as those. One in four finds room.
    for _ in 0..12 {
        for task in 20_000..20_100 {
            now += 100;
            polled(&mut overtaking, task, us(now));
        }
        for task in 30_000..30_400 {
            now += 100;
            polled(&mut overtaking, task + now, us(now));
        }
    }
    let known = (20_000..20_100).filter(|&task| overtaking.is_long(task)).count();
    assert!(known > 50, "{known} of 100");
}

/// They go round in a circle that is larger than what it can know.
#[test]
fn of_more_than_it_can_know_as_many_as_that_are_long() {
    let mut overtaking = on();
    let mut now = 0;
    for _ in 0..6 {
        for task in 1..=1_000 {
            now += 200;
            polled(&mut overtaking, task, us(now));
        }
    }
    let known = (1..=1_000).filter(|&task| overtaking.is_long(task)).count();
    assert!(known > MOST / 2, "{known}");
}

#[test]
fn for_one_that_is_marked_those_are_forgotten_that_wait_for_nothing() {
    let one_more = MOST as u64 + 1;
    let mut overtaking = with_as_many_as_it_knows(3);
    polled_twice(&mut overtaking, one_more, us(1_000_000));
    assert!(!overtaking.is_long(one_more) && overtaking.is_long(4));
    assert!(overtaking.meets(one_more, true));
    let known: Vec<_> = (1..=one_more).filter(|&task| overtaking.is_long(task)).collect();
    assert_eq!(known, [1, 2, 3, one_more]);
    assert_eq!(overtaking.next, Some(1));

    let mut overtaking = with_as_many_as_it_knows(one_more);
    polled_twice(&mut overtaking, one_more, us(1_000_000));
    assert!(!overtaking.is_long(one_more) && overtaking.is_long(1));
    assert!(overtaking.meets(one_more, true), "another may know it");
    assert!(
        !overtaking.passes(one_more, us(1_000_000), 0, None),
        "it is run as it comes"
    );
}

/// 1, 2 and 3 were passed over, in this order, and are at these places. Whether each would be once others have had
/// their time, while the deque begins at `front`.
fn passed_again(places: [Option<u64>; 3], front: u64) -> [bool; 3] {
    let mut overtaking = on();
    for (task, until) in [(1, 100), (2, 200), (3, 300)] {
        polled_twice(&mut overtaking, task, us(until));
    }
    for (task, at) in (1..).zip(places) {
        assert!(overtaking.passes(task, us(300), 0, at));
    }
    assert_eq!(overtaking.next, Some(1));
    [1, 2, 3].map(|task| overtaking.clone().passes(task, us(400), front, Some(10)))
}

#[test]
fn who_has_the_next_turn_and_is_gone_keeps_nobody_waiting() {
    let [first, second, third] = [5, 6, 7].map(Some);
    assert_eq!(passed_again([first, second, third], 5), [false, true, true]);
    assert_eq!(
        passed_again([first, second, third], 6),
        [false, false, true],
        "1 was stolen, or comes"
    );
    assert_eq!(
        passed_again([first, second, third], 7),
        [false, false, false],
        "so was 2"
    );
    assert_eq!(
        passed_again([None, second, third], 7),
        [false, true, true],
        "1 is bound"
    );
    assert_eq!(passed_again([first, None, third], 7), [false, false, true], "2 is");
}

#[test]
fn silly_answers_are_of_both_kinds() {
    let mut silly = Overtaking::new(&Overtake::default(), false, Adversary::Random);
    silly.may = true;
    silly.looks_up(us(0), LOOK_UP, 0);
    assert!(silly.is_on());
    let passed = (0..30).filter(|&at| silly.passes(7, Nanos(at), 0, None)).count();
    assert!((1..30).contains(&passed));
}
