//! Bars on stderr: how much of a command is done, and how long the rest takes. Invisible if stderr is no terminal.

use std::fmt;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

/// Of a comparison: its steps are runs.
pub(super) const OF_RUNS: &str = "{bar:30} {pos}/{len} runs, {left} left: {msg}";

/// Of a single run.
pub(super) const OF_ONE_RUN: &str = "{msg} {bar:30} {percent} %, {elapsed} gone, {left} left";

/// A bar of so many steps that looks like `template`, in which `{left}` is the time left.
///
/// indicatif's own `{eta}` goes by what it has seen last: it would jump between runs of different length, and promises
/// an end at once before there was a step.
pub(super) fn progress_bar(steps: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.with_key("left", write_left)),
        Err(_) => bar,
    }
}

fn write_left(state: &ProgressState, out: &mut dyn fmt::Write) {
    let left = state
        .len()
        .and_then(|steps| time_left(state.elapsed(), state.pos(), steps));
    // A bar without it is one all the same.
    let _ = match left {
        Some(left) => write!(out, "{:#}", HumanDuration(left)),
        None => out.write_str("?"),
    };
}

/// How long the steps that are left take, if each takes as long as one of those that are done did on average. Before
/// the first nobody knows.
fn time_left(elapsed: Duration, done: u64, steps: u64) -> Option<Duration> {
    let left = u128::from(steps.saturating_sub(done));
    let nanos = elapsed.as_nanos().checked_mul(left)?.checked_div(u128::from(done))?;
    Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::{ProgressDrawTarget, TermLike};

    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_what_is_done_did() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (elapsed, done, steps, expected) in [
            (0, 0, 10, None),
            (30, 0, 10, None),
            (30, 1, 10, seconds(270)),
            (30, 3, 4, seconds(10)),
            (30, 5, 10, seconds(30)),
            (30, 10, 10, seconds(0)),
            (30, 11, 10, seconds(0)),
            (0, 0, 0, None),
            // A day, of which one step in a billion is done.
            (86_400, 1, 1_000_000_000, seconds(86_400 * 999_999_999)),
        ] {
            let found = time_left(Duration::from_secs(elapsed), done, steps);
            let longest = expected.map(|expected: Duration| expected.min(Duration::from_nanos(u64::MAX)));
            assert_eq!(found, longest, "{done} of {steps} in {elapsed} s");
        }
        let thirds = time_left(Duration::from_millis(1), 3, 4);
        assert_eq!(thirds, Some(Duration::from_nanos(333_333)));
        assert_eq!(time_left(Duration::MAX, 1, u64::MAX), None, "too long to count");
    }

    /// A terminal that keeps what is written.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            120
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What a bar of ten steps shows after 30 s, when so many are done.
    fn shown(template: &str, done: u64) -> String {
        let screen = Screen::default();
        let bar = progress_bar(10, template).with_elapsed(Duration::from_secs(30));
        bar.set_position(done);
        bar.set_message("yield tokio");
        bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(screen.clone())));
        bar.tick();
        let shown = screen.0.lock().unwrap();
        shown.trim_end().to_owned()
    }

    #[test]
    fn a_bar_says_how_long_the_rest_takes() {
        for (done, expected) in [
            (0, " 0/10 runs, ? left: yield tokio"),
            (6, " 6/10 runs, 20s left: yield tokio"),
            (10, " 10/10 runs, 0s left: yield tokio"),
        ] {
            let shown = shown(OF_RUNS, done);
            assert!(shown.ends_with(expected), "{shown}");
        }
        for (done, expected) in [(0, " 0 %, 30s gone, ? left"), (5, " 50 %, 30s gone, 30s left")] {
            let shown = shown(OF_ONE_RUN, done);
            assert!(
                shown.starts_with("yield tokio ") && shown.ends_with(expected),
                "{shown}"
            );
        }
    }
}
