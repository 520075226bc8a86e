//! Why a run has ended, as far as its stderr says so.
//!
//! The last line is the reason of most programs, but not of those that panic: Rust's ends with a note about backtraces
//! or with a backtrace, Go's with its goroutines. There the reason is what follows the beginning of the first panic.

/// The most lines of a panic that are kept: two values that are compared, and why.
const PANIC_LINES_MAX: usize = 6;

/// What has been said.
#[derive(Debug, Default)]
pub(crate) struct LastWords {
    panic: Vec<String>,
    /// Whether the next line may belong to the panic.
    is_open: bool,
    last: String,
}

impl LastWords {
    /// Takes the next line.
    pub(crate) fn hear(&mut self, line: &str) {
        let line = line.trim();
        if begins_panic(line) {
            self.is_open = self.panic.is_empty();
        } else if ends_panic(line) {
            self.is_open = false;
        }
        if self.is_open && self.panic.len() < PANIC_LINES_MAX {
            self.panic.push(line.to_owned());
        }
        if !line.is_empty() {
            line.clone_into(&mut self.last);
        }
    }

    /// The first panic, in one line.
    pub(crate) fn panic(&self) -> Option<String> {
        (!self.panic.is_empty()).then(|| self.panic.join(" "))
    }

    /// The first panic, or else the last line.
    pub(crate) fn reason(&self) -> Option<String> {
        self.panic()
            .or_else(|| (!self.last.is_empty()).then(|| self.last.clone()))
    }
}

/// `thread 'main' panicked at src/main.rs:1:2:` of Rust, `panic: text` and `fatal error: text` of Go.
fn begins_panic(line: &str) -> bool {
    let is_rusts = line.starts_with("thread ") && line.contains(" panicked at ");
    is_rusts || line.starts_with("panic: ") || line.starts_with("fatal error: ")
}

fn ends_panic(line: &str) -> bool {
    line.is_empty() || line.starts_with("note: ") || line == "stack backtrace:"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, panic: Option<&str>, reason: Option<&str>) {
        let mut words = LastWords::default();
        text.lines().for_each(|line| words.hear(line));
        let found = (words.panic(), words.reason());
        assert_eq!((found.0.as_deref(), found.1.as_deref()), (panic, reason), "{text}");
    }

    fn check_panic(text: &str, expected: &str) {
        check(text, Some(expected), Some(expected));
    }

    #[test]
    fn the_message_of_a_panic_comes_before_the_note_about_backtraces() {
        check_panic(
            "\nthread 'main' (7) panicked at src/a.rs:1:2:\nassertion `left == right` failed: sums\n  left: 1\n right: 2\n\
             note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
            "thread 'main' (7) panicked at src/a.rs:1:2: assertion `left == right` failed: sums left: 1 right: 2",
        );
    }

    #[test]
    fn of_many_panics_the_first_is_the_reason() {
        check_panic(
            "warming up\nthread 'a' panicked at a.rs:1:2:\nfirst\nstack backtrace:\n   0: main\n\
             thread 'b' panicked at b.rs:1:2:\nsecond\nnote: x\n",
            "thread 'a' panicked at a.rs:1:2: first",
        );
        check_panic(
            "thread 'a' panicked at a.rs:1:2:\nfirst\nthread 'b' panicked at b.rs:1:2:\nsecond\n",
            "thread 'a' panicked at a.rs:1:2: first",
        );
    }

    #[test]
    fn go_says_why_before_its_goroutines() {
        check_panic(
            "panic: no such thing\n\ngoroutine 1 [running]:\nmain.main()\nexit status 2\n",
            "panic: no such thing",
        );
        check_panic(
            "fatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1:\n",
            "fatal error: all goroutines are asleep - deadlock!",
        );
    }

    #[test]
    fn without_a_panic_it_is_the_last_line_that_is_none_or_says_something() {
        check("one\nstack overflow\n\n", None, Some("stack overflow"));
        check("", None, None);
    }
}
