//! What hackbench's counters say: whether every message was counted, and how far tasks moved for it.

use std::collections::BTreeMap;

/// The counters for moves out of an LLC: to another one of the node, to another node.
const FAR: [&str; 2] = ["migrations_node", "migrations_machine"];

/// One or more runs of hackbench.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moves {
    /// Messages, all received.
    pub(crate) messages: u64,
    /// Moves of tasks between LLCs and between nodes.
    pub(crate) far: u64,
}

impl Moves {
    /// Reads what `quadrille hackbench` prints after a run that was asked for `expected` messages.
    ///
    /// # Errors
    /// If not every message was counted, or a counter is missing.
    pub(crate) fn from_hackbench(text: &str, expected: u64) -> Result<Self, String> {
        let counters: BTreeMap<&str, u64> = text.lines().filter_map(counter).collect();
        let get = |name: &str| {
            let count = counters.get(name).copied();
            count.ok_or_else(|| format!("hackbench prints no `{name}`"))
        };
        let messages = get("messages")?;
        if messages != expected {
            return Err(format!("hackbench counted {messages} messages of {expected}"));
        }
        let far = FAR.iter().map(|name| get(name)).sum::<Result<u64, _>>()?;
        Ok(Self { messages, far })
    }

    /// Both together.
    pub(crate) fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.far += other.far;
    }

    /// Moves for a thousand messages, rounded down.
    fn per_thousand(&self) -> u64 {
        (self.far * 1000).checked_div(self.messages).unwrap_or(0)
    }
}

/// Compares moves with the policies on and off: they have to fall, unless there were none.
pub(crate) fn compare(on: &Moves, off: &Moves) -> Result<String, String> {
    let line = format!(
        "moves between LLCs or nodes: {} with policies, {} without ({} and {} a thousand messages)",
        on.far,
        off.far,
        on.per_thousand(),
        off.per_thousand()
    );
    // Exact: a/b < c/d without dividing.
    let falls = u128::from(on.far) * u128::from(off.messages) < u128::from(off.far) * u128::from(on.messages);
    if falls || (on.far == 0 && off.far == 0) {
        Ok(line)
    } else {
        Err(line)
    }
}

/// A line `name  1,234`.
fn counter(line: &str) -> Option<(&str, u64)> {
    let (name, number) = line.trim().split_once(' ')?;
    let digits: String = number.trim().chars().filter(|c| *c != ',').collect();
    Some((name, digits.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "32 workers on node:4 (sysfs), kernel 6.1\nhackbench: groups 1\n\nquadrille (async-channel)\n  \
                        time          0.595 s\n  messages      40,000\n  messages/s    67,221\n  \
                        migrations_machine  1,408\n  migrations_node     2\n";

    #[test]
    fn reads_the_counters() {
        let moves = Moves::from_hackbench(TEXT, 40_000).expect("a whole run");
        assert_eq!(
            moves,
            Moves {
                messages: 40_000,
                far: 1410
            }
        );
        let lost = Moves::from_hackbench(TEXT, 40_001).expect_err("one is lost");
        assert_eq!(lost, "hackbench counted 40000 messages of 40001");
        let cut = Moves::from_hackbench("  messages  3\n", 3).expect_err("no counters");
        assert_eq!(cut, "hackbench prints no `migrations_node`");
        assert!(Moves::from_hackbench("FAILED: sum", 3).is_err());
    }

    #[test]
    fn moves_have_to_fall_for_each_message() {
        let moves = |messages, far| Moves { messages, far };
        assert!(compare(&moves(100, 5), &moves(100, 6)).is_ok());
        assert!(compare(&moves(100, 6), &moves(100, 6)).is_err());
        assert!(compare(&moves(200, 10), &moves(100, 6)).is_ok());
        assert!(compare(&moves(100, 4), &moves(200, 6)).is_err());
        assert!(compare(&moves(100, 0), &moves(100, 0)).is_ok());
        let line = compare(&moves(1000, 9), &moves(500, 2)).expect_err("more");
        assert!(
            line.ends_with("9 with policies, 2 without (9 and 4 a thousand messages)"),
            "{line}"
        );
        let mut sum = moves(100, 5);
        sum.add(moves(10, 1));
        assert_eq!(sum, moves(110, 6));
    }
}
