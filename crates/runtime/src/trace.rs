//! `QUADRILLE_TRACE=1s`: one line a second about what the scheduler does, without a rebuild.
//!
//! The value is a whole number with a unit: `500ms`, `1s`, `2m` or `1h`. An empty value is the same as none. Any other
//! value gives one line of warning on standard error, and no trace.
//!
//! A line has what was counted since the last one, by the names of `WorkerMetrics`, and `stuck=` with the workers that
//! have counted nothing though they are not idle: each runs one task, blocks in place, or has had no CPU.
//!
//! The lines are made by a closure of the runtime, on a thread of this module, and go to standard error. The thread
//! ends when the closure answers `None` (the runtime is gone), or when its [`Trace`] is dropped; it is woken for that,
//! so nobody waits for a period to pass. Nor does anybody wait for a line to be printed: standard error may be a pipe
//! that is full, or locked by who waits. A thread that prints then is left to end on its own; it has nothing of the
//! runtime's.

mod line;

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub(crate) use self::line::Lines;
use crate::sys::clock;
use crate::sys::thread::Spawner;

/// The variable that switches the trace on.
pub(crate) const VARIABLE: &str = "QUADRILLE_TRACE";

/// A period that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeriodError {
    /// The value that was given.
    value: String,
    /// What is wrong with it.
    problem: &'static str,
}

impl fmt::Display for PeriodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PeriodError { value, problem } = self;
        write!(
            f,
            "{VARIABLE}={value:?} {problem}; expected a period such as 500ms, 1s or 2m"
        )
    }
}

impl std::error::Error for PeriodError {}

/// Reads a period: a whole number from 1 on and one of the units `ms`, `s`, `m`, `h`, without a space between them.
///
/// # Errors
///
/// Says which value was given, and what is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Duration, PeriodError> {
    let error = |problem| PeriodError {
        value: text.to_owned(),
        problem,
    };
    let trimmed = text.trim();
    let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = trimmed.split_at(digits);
    if number.is_empty() {
        return Err(error("doesn't begin with a whole number"));
    }
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "" => return Err(error("has no unit")),
        _ => return Err(error("has an unknown unit")),
    };
    // What is left to fail is a number with too many digits.
    let number: u64 = number.parse().map_err(|_| error("is too long"))?;
    match number.checked_mul(unit_ms) {
        Some(0) => Err(error("is no time at all")),
        Some(period_ms) => Ok(Duration::from_millis(period_ms)),
        None => Err(error("is too long")),
    }
}

/// The period that the environment asks for; warns on standard error if it can't be read.
pub(crate) fn period_from_env() -> Option<Duration> {
    let value = std::env::var_os(VARIABLE)?;
    match period_from(&value.to_string_lossy()) {
        Ok(period) => period,
        Err(error) => {
            print(&format!("quadrille: {error}; tracing stays off"));
            None
        }
    }
}

/// What a value of the variable asks for.
fn period_from(value: &str) -> Result<Option<Duration>, PeriodError> {
    if value.trim().is_empty() {
        Ok(None)
    } else {
        parse(value).map(Some)
    }
}

/// Writes one line to standard error in one go; if nobody reads it, that's no reason to stop a program.
fn print(line: &str) {
    let _ = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// Prints `name: ` and the next of `lines`, every `period`, until there is none or the [`Trace`] is dropped.
///
/// # Errors
///
/// The system has no thread to give.
pub(crate) fn start(
    period: Duration,
    name: impl Into<String>,
    spawner: &Spawner,
    mut lines: impl Iterator<Item = String> + Send + 'static,
) -> io::Result<Trace> {
    let name = name.into();
    start_with(period, spawner, move |stop| match lines.next() {
        Some(text) => stop.unless_asked(|| print(&format!("{name}: {text}"))),
        None => false,
    })
}

/// Calls `tick` every `period` until it answers `false` or the [`Trace`] is dropped. What `tick` does outside of
/// [`Stop::unless_asked`] is waited for.
fn start_with(
    period: Duration,
    spawner: &Spawner,
    mut tick: impl FnMut(&Stop) -> bool + Send + 'static,
) -> io::Result<Trace> {
    let stop = Arc::new(Stop::default());
    let body = Arc::clone(&stop);
    let thread = spawner.spawn("quadrille-trace".to_owned(), move || {
        let mut next = clock::after(period);
        while body.wait_until(next) && tick(&body) {
            // A late line doesn't make the next ones come in a burst.
            next = next
                .checked_add(period)
                .filter(|next| *next > clock::now())
                .unwrap_or_else(|| clock::after(period));
        }
    })?;
    Ok(Trace {
        stop,
        thread: Some(thread),
    })
}

/// Stops the trace when it is dropped, and waits for its thread unless that prints.
///
/// The last owner of a runtime may be the snapshot itself: dropped on its own thread, it doesn't wait.
#[derive(Debug)]
#[must_use = "dropping it stops the trace"]
pub(crate) struct Trace {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Trace {
    fn drop(&mut self) {
        let prints = {
            let mut state = self.stop.lock();
            state.asked = true;
            state.prints
        };
        self.stop.changed.notify_all();
        let is_own = |thread: &JoinHandle<()>| thread.thread().id() == thread::current().id();
        if let Some(thread) = self.thread.take().filter(|thread| !prints && !is_own(thread)) {
            // It fails if the snapshot has panicked, which the panic hook has reported.
            let _ = thread.join();
        }
    }
}

/// Asks the thread to stop, at once.
#[derive(Debug, Default)]
struct Stop {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// It shall stop.
    asked: bool,
    /// It prints, which takes as long as others like; nobody waits for that.
    prints: bool,
}

impl Stop {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `print`, for which nobody waits, unless somebody has asked to stop. Whether nobody had.
    fn unless_asked(&self, print: impl FnOnce()) -> bool {
        {
            let mut state = self.lock();
            if state.asked {
                return false;
            }
            state.prints = true;
        }
        print();
        self.lock().prints = false;
        true
    }

    /// Waits until `next` (`true`), or until somebody asks to stop (`false`).
    fn wait_until(&self, next: Instant) -> bool {
        let mut state = self.lock();
        while !state.asked {
            let left = next.saturating_duration_since(clock::now());
            if left.is_zero() {
                return true;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Long enough never to pass within a test.
    const LONG: Duration = Duration::from_secs(1000);

    #[test]
    fn every_unit_is_read() {
        for (unit, unit_ms) in [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)] {
            for number in 1..1000 {
                assert_eq!(
                    parse(&format!("{number}{unit}")),
                    Ok(Duration::from_millis(number * unit_ms))
                );
            }
            assert_eq!(parse(&format!(" 007{unit}\n")), Ok(Duration::from_millis(7 * unit_ms)));
        }
    }

    #[test]
    fn the_longest_period_of_each_unit_is_read_and_the_next_is_not() {
        for (unit, unit_ms) in [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)] {
            let most = u64::MAX / unit_ms;
            assert_eq!(
                parse(&format!("{most}{unit}")),
                Ok(Duration::from_millis(most * unit_ms))
            );
            let more = u128::from(most) + 1;
            assert_eq!(parse(&format!("{more}{unit}")).unwrap_err().problem, "is too long");
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line_with_the_value() {
        for (text, problem) in [
            ("", "doesn't begin with a whole number"),
            ("s", "doesn't begin with a whole number"),
            ("-1s", "doesn't begin with a whole number"),
            ("+1s", "doesn't begin with a whole number"),
            (".5s", "doesn't begin with a whole number"),
            ("yes", "doesn't begin with a whole number"),
            ("\u{661}s", "doesn't begin with a whole number"),
            ("1", "has no unit"),
            ("0", "has no unit"),
            ("1 s", "has an unknown unit"),
            ("1.5s", "has an unknown unit"),
            ("1S", "has an unknown unit"),
            ("1us", "has an unknown unit"),
            ("1sec", "has an unknown unit"),
            ("1m30s", "has an unknown unit"),
            ("1\u{b5}s", "has an unknown unit"),
            ("0s", "is no time at all"),
            ("000ms", "is no time at all"),
            ("99999999999999999999999999s", "is too long"),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.problem, problem, "{text:?}");
            let line = error.to_string();
            assert!(line.starts_with(&format!("QUADRILLE_TRACE={text:?} ")), "{line}");
            assert!(line.contains("500ms") && !line.contains('\n'), "{line}");
        }
    }

    #[test]
    fn an_empty_value_is_none_and_no_error() {
        assert_eq!(period_from(""), Ok(None));
        assert_eq!(period_from("  "), Ok(None));
        assert_eq!(period_from("1s"), Ok(Some(Duration::from_secs(1))));
        assert!(period_from("1").is_err());
    }

    #[test]
    fn ticks_come_until_the_answer_is_no() {
        let (sender, receiver) = mpsc::channel();
        let mut left = 3;
        let tick = move |_: &Stop| {
            left -= 1;
            sender.send(left).unwrap();
            left > 0
        };
        let trace = start_with(Duration::from_millis(1), &Spawner::default(), tick).unwrap();
        // The thread drops its sender when it ends, and with it ends the iteration.
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [2, 1, 0]);
        drop(trace);
    }

    #[test]
    fn ticks_are_a_period_apart() {
        const PERIOD: Duration = Duration::from_millis(5);
        let started = clock::now();
        let (sender, receiver) = mpsc::channel();
        let trace = start_with(PERIOD, &Spawner::default(), move |_| sender.send(clock::now()).is_ok()).unwrap();
        for tick in 1..=4 {
            assert!(receiver.recv().unwrap() >= started + PERIOD * tick);
        }
        drop(trace);
    }

    #[test]
    fn dropping_the_guard_ends_the_thread_without_waiting_for_the_period() {
        let (sender, receiver) = mpsc::channel::<()>();
        let trace = start_with(LONG, &Spawner::default(), move |_| sender.send(()).is_ok()).unwrap();
        drop(trace);
        assert_eq!(
            receiver.recv(),
            Err(mpsc::RecvError),
            "the thread is gone and never ticked"
        );
    }

    #[test]
    fn nobody_waits_for_a_line_that_is_being_printed() {
        let (begun, begins) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let (sender, receiver) = mpsc::channel();
        let tick = move |stop: &Stop| {
            let goes_on = stop.unless_asked(|| {
                begun.send(()).unwrap();
                // That the sender has gone releases, too.
                let _ = released.recv();
            });
            sender.send(goes_on).unwrap();
            goes_on
        };
        let trace = start_with(Duration::from_millis(1), &Spawner::default(), tick).unwrap();
        begins.recv().unwrap();
        drop(trace);
        drop(release);
        assert_eq!(receiver.iter().count(), 1, "the thread ends after that line");
    }

    #[test]
    fn a_snapshot_is_waited_for_and_not_printed_once_the_guard_goes() {
        let (begun, begins) = mpsc::channel();
        let (sender, receiver) = mpsc::channel();
        let tick = move |stop: &Stop| {
            begun.send(()).unwrap();
            // Ends when the guard asks.
            assert!(!stop.wait_until(clock::after(LONG)));
            sender
                .send(stop.unless_asked(|| unreachable!("the guard has asked")))
                .unwrap();
            true
        };
        let trace = start_with(Duration::from_millis(1), &Spawner::default(), tick).unwrap();
        begins.recv().unwrap();
        drop(trace);
        assert_eq!(receiver.try_recv(), Ok(false), "and the thread is gone");
    }

    #[test]
    fn the_guard_may_be_dropped_by_the_snapshot_itself() {
        let (to_thread, trace_for_thread) = mpsc::channel::<Trace>();
        let (sender, receiver) = mpsc::channel();
        let tick = move |_: &Stop| {
            drop(trace_for_thread.recv().unwrap());
            sender.send(()).unwrap();
            true
        };
        let trace = start_with(Duration::from_millis(1), &Spawner::default(), tick).unwrap();
        to_thread.send(trace).unwrap();
        assert_eq!(receiver.iter().count(), 1, "one tick, then it sees that it was stopped");
    }

    #[test]
    fn a_snapshot_that_panics_ends_the_trace_alone() {
        let (sender, receiver) = mpsc::channel::<()>();
        let snapshot = move || -> Option<String> {
            let _sender = &sender;
            panic!("for the test")
        };
        let lines = std::iter::from_fn(snapshot);
        let trace = start(Duration::from_millis(1), "test", &Spawner::default(), lines).unwrap();
        assert_eq!(receiver.recv(), Err(mpsc::RecvError));
        drop(trace);
    }
}
