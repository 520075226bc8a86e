//! What hackbench's counters say: whether every message was counted, and how far tasks moved for it.

use std::collections::BTreeMap;

/// How far a task moves that leaves its LLC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Far {
    /// To another LLC of the node.
    Llc,
    /// To another node.
    Node,
}

/// Each distance, the counter of its moves, and what they are called.
const FAR: [(Far, &str, &str); 2] = [
    (Far::Llc, "migrations_node", "LLCs"),
    (Far::Node, "migrations_machine", "nodes"),
];

/// One or more runs of hackbench.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moves {
    /// Messages, all received.
    pub(crate) messages: u64,
    /// Moves of tasks, in the order of [`FAR`].
    pub(crate) far: [u64; 2],
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
        let far = FAR.map(|(_, name, _)| get(name));
        let [llc, node] = far;
        Ok(Self {
            messages,
            far: [llc?, node?],
        })
    }

    /// Both together.
    pub(crate) fn add(&mut self, other: Self) {
        self.messages += other.messages;
        for (sum, far) in self.far.iter_mut().zip(other.far) {
            *sum += far;
        }
    }

    /// Moves of one kind for a thousand messages, rounded down.
    fn per_thousand(&self, far: usize) -> u64 {
        (self.far[far] * 1000).checked_div(self.messages).unwrap_or(0)
    }
}

/// Compares moves with the policies on and off: those of either kind have to fall, unless there were none. Those that
/// `must` be there are there without the policies; else nothing was compared.
pub(crate) fn compare(on: &Moves, off: &Moves, must: Option<Far>) -> Result<String, String> {
    let mut holds = true;
    let mut lines = Vec::new();
    for (index, (far, _, name)) in FAR.into_iter().enumerate() {
        let (with, without) = (on.far[index], off.far[index]);
        // Exact: a/b < c/d without dividing.
        let falls = u128::from(with) * u128::from(off.messages) < u128::from(without) * u128::from(on.messages);
        holds &= falls || (with == 0 && without == 0 && must != Some(far));
        lines.push(format!(
            "between {name} {with} with policies, {without} without ({} and {} a thousand messages)",
            on.per_thousand(index),
            off.per_thousand(index)
        ));
    }
    let line = format!("moves {}", lines.join("; "));
    if holds { Ok(line) } else { Err(line) }
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
                far: [2, 1408]
            }
        );
        let lost = Moves::from_hackbench(TEXT, 40_001).expect_err("one is lost");
        assert_eq!(lost, "hackbench counted 40000 messages of 40001");
        let cut = Moves::from_hackbench("  messages  3\n", 3).expect_err("no counters");
        assert_eq!(cut, "hackbench prints no `migrations_node`");
        assert!(Moves::from_hackbench("FAILED: sum", 3).is_err());
    }

    const fn moves(messages: u64, llc: u64, node: u64) -> Moves {
        Moves {
            messages,
            far: [llc, node],
        }
    }

    #[test]
    fn moves_have_to_fall_for_each_message() {
        // The same holds of either kind.
        for moves in [|n, far| moves(n, far, 0), |n, far| moves(n, 0, far)] {
            assert!(compare(&moves(100, 5), &moves(100, 6), None).is_ok());
            assert!(compare(&moves(100, 6), &moves(100, 6), None).is_err());
            assert!(compare(&moves(200, 10), &moves(100, 6), None).is_ok());
            assert!(compare(&moves(100, 4), &moves(200, 6), None).is_err());
            assert!(compare(&moves(100, 0), &moves(100, 0), None).is_ok());
        }
        // Neither makes up for the other.
        assert!(compare(&moves(100, 1, 9), &moves(100, 90, 8), None).is_err());
        assert!(compare(&moves(100, 9, 1), &moves(100, 8, 90), None).is_err());
        let line = compare(&moves(1000, 7, 9), &moves(500, 8, 2), None).expect_err("more");
        assert_eq!(
            line,
            "moves between LLCs 7 with policies, 8 without (7 and 16 a thousand messages); \
             between nodes 9 with policies, 2 without (9 and 4 a thousand messages)"
        );
        let mut sum = moves(100, 5, 50);
        sum.add(moves(10, 1, 2));
        assert_eq!(sum, moves(110, 6, 52));
    }

    #[test]
    fn what_does_not_move_without_policies_shows_nothing() {
        let (none, some) = (moves(100, 0, 0), moves(100, 4, 3));
        for far in [Far::Llc, Far::Node] {
            assert!(compare(&none, &none, Some(far)).is_err());
            assert!(compare(&none, &some, Some(far)).is_ok());
        }
        assert!(compare(&none, &moves(100, 0, 3), Some(Far::Llc)).is_err());
        assert!(compare(&none, &moves(100, 3, 0), Some(Far::Node)).is_err());
    }
}
