//! What the trial of one worker alone decides, over programs that get done what they are told.

mod program;

use super::*;
use alloc::vec::Vec;
use program::{DISTURBS, Program, number};

#[test]
fn who_gets_more_done_alone_goes_on_alone_for_longer_and_longer() {
    let (alone, trials) = Program::new([100_000, 150_000]).alone(10_000);
    // Each 4 ms of a trial, and twice as long a hold as before, up to 1.28 s.
    assert!(alone > 9_850, "{alone}");
    let holds: Vec<u64> = trials.windows(2).map(|two| two[1] - two[0]).collect();
    let expected = [20, 40, 80, 160, 320, 640, 1280, 1280, 1280];
    assert!(holds.len() >= expected.len(), "{holds:?}");
    for (hold, expected) in holds.iter().zip(expected) {
        assert!((expected..expected + 8).contains(hold), "{holds:?}");
    }
}

/// What tasks do for a unit, or before they give way, may be long: more of what is short is no gain then.
#[test]
fn who_does_less_of_one_kind_alone_gains_nothing() {
    let alone = |yields| {
        let mut program = Program::new([100_000, 150_000]);
        program.yields = yields;
        program.alone(10_000).0
    };
    // Yields are all, a half, and as many in a time as before but for an eighth; units are; and either is few.
    for yields in [[100, 100], [50, 50], [50, 30], [50, 70], [5, 0], [95, 100]] {
        assert!(alone(yields) > 9_850, "{yields:?}");
    }
    for yields in [[50, 29], [50, 0], [7, 0], [50, 71], [50, 100], [93, 100]] {
        assert!(alone(yields) < 60, "{yields:?}");
    }
}

/// Also in the middle of a hold: as much gets done, but of one kind alone.
#[test]
fn a_hold_ends_when_one_kind_is_lost() {
    for later in [0, 100] {
        let mut program = Program::new([100_000, 150_000]);
        program.config.hold = Nanos::from_millis(1_000);
        program.yields = [50, 50];
        program.goes_on_alone();
        assert_eq!(program.step(), SoloStep::Alone);
        program.yields[1] = later;
        assert!(program.comes_back() < Nanos::from_millis(12), "{later}");
    }
}

#[test]
fn who_gets_less_done_alone_tries_less_and_less_often() {
    // The second gains, but too little.
    for one in [50_000, 109_000] {
        let (alone, trials) = Program::new([100_000, one]).alone(60_000);
        assert!(alone < 60, "{alone} of 60,000 ms");
        let pauses: Vec<u64> = trials.windows(2).map(|two| two[1] - two[0]).collect();
        for (pause, expected) in pauses.iter().zip([200, 400, 800, 1600, 3200, 6400, 6400]) {
            assert!((expected..expected + 8).contains(pause), "{pauses:?}");
        }
    }
}

#[test]
fn nothing_is_tried_without_a_promise() {
    let promising = || Program::new([100_000, 150_000]);
    let with = |change: fn(&mut Program)| {
        let mut program = promising();
        change(&mut program);
        program.alone(1_000).1.len()
    };
    assert!(with(|_| {}) > 0);
    // Tasks stay where they are; are long; do nothing that counts; can't leave.
    assert_eq!(with(|program| program.moves = 17), 0);
    assert!(with(|program| program.moves = 16) > 0);
    assert_eq!(with(|program| program.units = 1_100), 0);
    assert_eq!(with(|program| program.rates = [0, 0]), 0);
    assert_eq!(with(|program| program.tally.any_bound = true), 0);
}

/// Polls of which nobody knows what they did.
#[test]
fn polls_that_spend_nothing_say_nothing() {
    let config = Solo::default();
    let tally = |at: u64, units: u64| SoloTally {
        at: Nanos::from_millis(at),
        workers: 2,
        units: units / 2,
        yields: units - units / 2,
        polls: at * 1000,
        moves: at * 1000,
        ..SoloTally::default()
    };
    for (units, step) in [(1_999, SoloStep::All), (2_000, SoloStep::Gathers)] {
        let mut trial = SoloTrial::default();
        trial.step(&tally(0, 0), &config);
        assert_eq!(trial.step(&tally(2, units), &config).0, step);
    }
}

#[test]
fn others_that_do_not_leave_end_it() {
    let mut program = Program::new([100_000, 150_000]);
    program.obeys = false;
    let (_, trials) = program.alone(1_000);
    // After half a window each, and a pause.
    assert!((2..=4).contains(&trials.len()), "{trials:?}");
}

/// It gains in the trial, and then it does not.
#[test]
fn a_hold_that_breaks_counts_as_a_trial_in_vain() {
    let mut program = Program::new([100_000, 150_000]);
    let mut holds = Vec::new();
    for _ in 0..3 {
        program.rates[1] = 150_000;
        program.goes_on_alone();
        holds.push(program.tally.at.0 / 1_000_000);
        program.rates[1] = 50_000;
        program.comes_back();
    }
    let pauses: Vec<u64> = holds.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(
        (200..220).contains(&pauses[0]) && (400..420).contains(&pauses[1]),
        "{pauses:?}"
    );
}

#[test]
fn a_hold_outlives_two_windows_without_a_cpu() {
    for (number, disturb) in DISTURBS.into_iter().enumerate() {
        let mut program = Program::that_holds(100);
        let until = program.until();
        let end = Nanos(until.0 - 10_000_000);
        while program.tally.at < end {
            assert_eq!(program.step(), SoloStep::Alone, "{number}");
            for _ in 0..2 {
                disturb(&mut program);
                assert_eq!(program.step(), SoloStep::Gathers, "{number}");
                assert_eq!(program.step(), SoloStep::Alone, "{number}");
                assert_eq!(program.step(), SoloStep::Alone, "{number}");
                assert!(matches!(program.trial.stage, Stage::Holds { .. }), "{number}");
            }
        }
        // It is no longer than it was to be, and counts as right.
        program.comes_back();
        assert!(program.tally.at.since(until) < Nanos::from_millis(6), "{number}");
        assert_eq!((program.trial.right, program.trial.wrong), (1, 0), "{number}");
    }
}

#[test]
fn three_such_windows_in_a_row_end_a_hold() {
    for (number, disturb) in DISTURBS.into_iter().enumerate() {
        let mut program = Program::that_holds(100);
        for expected in [SoloStep::Gathers, SoloStep::Gathers, SoloStep::All] {
            disturb(&mut program);
            assert_eq!(program.step(), expected, "{number}");
            while expected != SoloStep::All && !matches!(program.trial.stage, Stage::Holds { .. }) {
                program.step();
            }
        }
        assert_eq!((program.trial.right, program.trial.wrong), (0, 1), "{number}");
    }
}

/// The last window says whether it was right; by one that is unlike nothing is known.
#[test]
fn a_hold_that_ends_in_doubt_is_neither_right_nor_wrong() {
    let mut program = Program::that_holds(20);
    while program.tally.at < program.until() {
        assert_eq!(program.step(), SoloStep::Alone);
    }
    DISTURBS[0](&mut program);
    assert_eq!(program.step(), SoloStep::All);
    assert_eq!((program.trial.right, program.trial.wrong), (0, 0));
}

/// They are in the middle of a poll, or have no CPU.
#[test]
fn who_does_not_poll_is_waited_for() {
    let mut program = Program::new([100_000, 150_000]);
    program.gathers();
    let from = program.tally.at;
    while program.tally.at.since(from) < Nanos::from_millis(7) {
        program.tally.others_sleep = false;
        assert_eq!(program.step(), SoloStep::Gathers);
    }
    assert_eq!(program.step(), SoloStep::Alone);
}

/// Nor is it waited for again and again.
#[test]
fn who_never_polls_is_waited_for_less_and_less_often() {
    let mut program = Program::new([100_000, 150_000]);
    let mut trials = Vec::new();
    for _ in 0..9 {
        program.gathers();
        trials.push(program.tally.at.0 / 1_000_000);
        let from = program.tally.at;
        while program.step != SoloStep::All {
            program.tally.others_sleep = false;
            program.step();
        }
        // The rest is in it, too.
        let rest = program.rest.0 / 1_000_000;
        assert!(program.tally.at.since(from).0 / 1_000_000 <= 9 + rest);
    }
    let waits: Vec<u64> = trials.windows(2).map(|two| two[1] - two[0]).collect();
    for (wait, expected) in waits.iter().zip([26, 42, 74, 138, 266, 522, 522, 522]) {
        assert!((expected..expected + 3).contains(wait), "{waits:?}");
    }
    // Nobody was wrong; and who leaves at last makes it forgotten.
    assert_eq!((program.trial.wrong, program.trial.pause), (0, None));
    program.goes_on_alone();
    assert_eq!(program.trial.vain, 0);
}

/// It has just got its CPU back, and hands over when it looks up.
#[test]
fn only_who_goes_on_polling_is_at_work() {
    for (quiet, steps) in [(7, 15), (100, 8)] {
        let mut program = Program::new([100_000, 150_000]);
        program.gathers();
        for number in 0..steps {
            program.tally.others_sleep = false;
            // Of the 125 us before: most of all polls.
            program.tally.polls += if number == quiet { 0 } else { 300 };
            assert_ne!(program.step, SoloStep::All);
            program.step();
        }
        let ends = quiet > steps;
        assert_eq!(program.step == SoloStep::All, ends, "{quiet}");
        assert_eq!(program.trial.wrong, u32::from(ends));
    }
}

/// Whatever has no result is tried less and less often, and a result makes it forgotten.
#[test]
fn what_comes_late_says_nothing_but_that_it_is_late() {
    for stage in [2, 3, 4] {
        let mut program = Program::new([100_000, 150_000]);
        let mut rests = Vec::new();
        for _ in 0..4 {
            while number(&program.trial.stage) != stage {
                program.step();
            }
            // Also where the others sleep.
            program.runs(Nanos::from_millis(3));
            assert_eq!(program.step(), SoloStep::All, "{stage}");
            rests.push(program.trial.vain);
        }
        assert_eq!(
            (rests.as_slice(), program.trial.wrong),
            ([1, 2, 3, 4].as_slice(), 0),
            "{stage}"
        );
        program.goes_on_alone();
        assert_eq!(program.trial.vain, 0);
    }
}

/// In the middle of a hold it is a doubt like another, and the end of the hold stays where it was.
#[test]
fn what_comes_late_in_a_hold_is_one_doubt() {
    for stage in [2, 3] {
        let mut program = Program::that_holds(100);
        let until = program.until();
        DISTURBS[0](&mut program);
        program.step();
        while number(&program.trial.stage) != stage {
            program.step();
        }
        program.runs(Nanos::from_millis(3));
        assert_eq!(program.step(), SoloStep::Gathers, "{stage}");
        program.goes_on_alone();
        assert_eq!((program.until(), program.trial.wrong), (until, 0));
        DISTURBS[0](&mut program);
        assert_eq!(program.step(), SoloStep::All, "the third: {stage}");
        assert_eq!(program.trial.wrong, 1);
    }
}

/// Who is to leave again when the time is over need not.
#[test]
fn a_doubt_ends_with_its_hold() {
    let mut program = Program::that_holds(20);
    let until = program.until();
    while until.since(program.tally.at) > Nanos::from_millis(1) {
        assert_eq!(program.step(), SoloStep::Alone);
    }
    program.tally.at = Nanos(until.0 - 1_000);
    DISTURBS[0](&mut program);
    assert_eq!(program.step(), SoloStep::Gathers);
    program.comes_back();
    assert!(program.tally.at.since(until) < Nanos::from_millis(4));
    assert_eq!((program.trial.right, program.trial.wrong), (0, 0));
}

/// Two workers may be in each other's way at one time, and not at another.
#[test]
fn who_gained_nothing_is_tried_again_when_all_get_less_done() {
    for (later, least, most) in [(110_000, 0, 45), (130_000, 150, 220)] {
        let mut program = Program::new([180_000, 150_000]);
        while program.trial.pause.is_none() {
            program.step();
        }
        program.rates[0] = later;
        let from = program.tally.at;
        program.goes_on_alone();
        let after = program.tally.at.since(from).0 / 1_000_000;
        assert!((least..most).contains(&after), "{later}: {after} ms");
        // From then on it is measured as if nothing had been tried.
        assert_eq!(program.trial.pause, None);
    }
}

/// A trial of which nothing is known but that it is in vain, so far into its pauses.
fn pauses_for_long() -> Program {
    let mut program = Program::new([180_000, 150_000]);
    while program.trial.wrong < 6 {
        program.step();
    }
    program
}

#[test]
fn looks_in_a_pause_are_as_rare_as_the_pause_is_long() {
    let mut program = pauses_for_long();
    let (end, _) = program.trial.pause.unwrap();
    let mut looks = 0;
    while program.tally.at < end {
        program.step();
        looks += u32::from(matches!(program.trial.stage, Stage::All { .. }));
    }
    assert!((11..=14).contains(&looks), "{looks}");
}

/// One window in which all had no CPU is not believed; two cost one hold, and no more.
#[test]
fn windows_without_a_cpu_make_no_holds() {
    // The last gains on the worse of the two windows, and not on the better.
    for (windows, one, most) in [(1, 150_000, 0), (2, 150_000, 40), (2, 110_000, 4)] {
        let mut program = pauses_for_long();
        program.step();
        while !matches!(program.trial.stage, Stage::All { .. }) {
            program.step();
        }
        // The window of this look is over already.
        program.tally.units -= 150_000;
        program.rates = [if windows == 2 { 90_000 } else { 180_000 }, one];
        program.step();
        program.rates[0] = 180_000;
        let (alone, trials) = program.alone(5_000);
        assert!(alone <= most && trials.len() <= 4, "{windows}: {alone}, {trials:?}");
        assert_eq!(most == 0, alone == 0);
        assert!(program.trial.wrong > 2, "{windows}: {}", program.trial.wrong);
    }
}

#[test]
fn a_pause_while_it_settles_ends_it() {
    let mut program = Program::new([100_000, 150_000]);
    while !matches!(program.trial.stage, Stage::Settles { .. }) {
        program.step();
    }
    program.runs(Nanos::from_millis(2));
    assert_eq!(program.step(), SoloStep::All);
}

#[test]
fn what_others_have_done_is_no_gain() {
    let mut program = Program::new([100_000, 150_000]);
    while !matches!(program.trial.stage, Stage::Alone { .. }) {
        program.step();
    }
    // A tenth of the polls.
    program.tally.polls += program.tally.polls / 10;
    program.step();
    assert!(matches!(program.trial.stage, Stage::Rests), "{:?}", program.trial);
}

#[test]
fn who_is_alone_notices_that_the_program_has_changed() {
    type Change = fn(&mut Program);
    let changes: [Change; 4] = [
        // Less gets done, or more; somebody else works; nobody has counted for long.
        |program| program.rates[1] = 110_000,
        |program| program.rates[1] = 230_000,
        |program| program.obeys = false,
        |program| program.runs(Nanos::from_millis(9)),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut program = Program::that_holds(1_000);
        assert_eq!(program.step(), SoloStep::Alone);
        change(&mut program);
        // Three windows, and what comes between.
        assert!(program.comes_back() < Nanos::from_millis(12), "{number}");
        assert!(
            matches!(program.trial.stage, Stage::Rests | Stage::All { .. }),
            "{number}"
        );
    }
}

/// Whatever it is told it answers, and never for when it was.
#[test]
fn any_tally_is_answered() {
    let extremes = Solo {
        window: Nanos::from_micros(100),
        gain: 0,
        hold: Nanos(0),
        pause: Nanos(0),
        ..Solo::default()
    };
    let other_extremes = Solo {
        window: Nanos(u64::MAX / 64),
        gain: u16::MAX,
        hold: Nanos(u64::MAX),
        pause: Nanos(u64::MAX),
        moves: u32::MAX,
        ..Solo::default()
    };
    // Out of range, and answered all the same.
    let window = Nanos(u64::MAX);
    let endless = Solo {
        window,
        ..other_extremes.clone()
    };
    let mut rng = crate::Rng::new(7);
    let mut any = || (u64::from(rng.below(u32::MAX)) << 32) | u64::from(rng.below(u32::MAX));
    for (config, is_wild) in [
        (Solo::default(), false),
        (extremes, false),
        (Solo::default(), true),
        (other_extremes, true),
        (endless, true),
    ] {
        let mut trial = SoloTrial::default();
        let mut tally = SoloTally::default();
        let mut stages = [0_u32; 6];
        for _ in 0..100_000 {
            if is_wild {
                tally.at = Nanos(any());
                (tally.units, tally.yields, tally.polls) = (any(), any(), any());
                (tally.moves, tally.own_polls) = (any(), any());
            } else {
                // Mostly when it is due, and mostly what may well be.
                let polls = 1 + any() % 300;
                let at = tally.at.0.saturating_add(any() % (1 + config.window.0 / 4));
                tally.at = Nanos(if any() % 16 == 0 {
                    at + any() % (5 * config.window.0)
                } else {
                    at
                });
                tally.polls += polls;
                tally.own_polls += if any() % 8 == 0 { any() % polls } else { polls };
                tally.moves += any() % polls;
                tally.units += polls * (any() % 16);
                tally.yields += any() % 64;
            }
            tally.workers = (any() % 5) as u32;
            tally.others_sleep = any() % 2 == 0;
            tally.any_bound = any() % 16 == 0;
            let (step, next) = trial.step(&tally, &config);
            assert!(next >= tally.at);
            // Nobody is to leave without a tally that says so.
            assert!(step == SoloStep::All || !matches!(trial.stage, Stage::Rests | Stage::All { .. }));
            stages[number(&trial.stage)] += 1;
            if !is_wild {
                tally.at = next;
            }
        }
        assert!(is_wild || stages.iter().all(|times| *times > 100), "{stages:?}");
    }
}
