//! A theorem of the scheduler has a loom test of its name and mutations that make the test fail.
//!
//! The table in `crates/runtime/src/sched/README.md` whose header has the columns `theorem` and `loom test` is the
//! list. A row whose test cell holds no name in backticks is proven in another way and only read.

use super::finding::Finding;
use crate::mutate::Mutation;

/// Where the table is.
pub(super) const README: &str = "crates/runtime/src/sched/README.md";

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
struct Theorem {
    name: String,
    tests: Vec<String>,
    line: usize,
}

/// Checks the table against the names of all test functions and against the mutations.
pub(super) fn check(readme: &str, test_fns: &[String], mutations: &[Mutation]) -> Vec<Finding> {
    let theorems = table(readme);
    let mut found = Vec::new();
    if theorems.is_empty() {
        found.push(Finding::new(
            README,
            0,
            "no theorem in a table with the columns `theorem` and `loom test`",
        ));
    }
    for theorem in theorems.iter().filter(|theorem| !theorem.tests.is_empty()) {
        for test in &theorem.tests {
            if !test_fns.contains(test) {
                found.push(Finding::new(
                    README,
                    theorem.line,
                    format!("no test function is called `{test}`"),
                ));
            }
        }
        if !mutations.iter().any(|mutation| is_about(mutation, theorem)) {
            let message = format!(
                "`{}` has no mutation: nothing shows that its test can fail",
                theorem.name
            );
            found.push(Finding::new(README, theorem.line, message));
        }
    }
    for mutation in mutations {
        let path = mutation.path();
        match theorems.iter().find(|theorem| is_about(mutation, theorem)) {
            None => found.push(Finding::new(
                &path,
                0,
                format!("theorem `{}` is not in the table", mutation.theorem),
            )),
            Some(theorem) if !theorem.tests.contains(&mutation.test) => {
                found.push(Finding::new(
                    &path,
                    0,
                    format!("`{}` is not the test of `{}`", mutation.test, theorem.name),
                ));
            }
            Some(_) => {}
        }
    }
    found
}

fn is_about(mutation: &Mutation, theorem: &Theorem) -> bool {
    mutation.theorem.eq_ignore_ascii_case(&theorem.name)
}

/// The rows of the table. A theorem's name is its first cell up to a comma or colon: `**W1**, no lost wake-up` is `W1`.
fn table(readme: &str) -> Vec<Theorem> {
    let mut theorems = Vec::new();
    let mut columns = None;
    for (index, line) in readme.lines().enumerate() {
        let Some(cells) = cells(line) else {
            columns = None;
            continue;
        };
        let Some((name_column, test_column)) = columns else {
            let position = |name: &str| cells.iter().position(|cell| cell.eq_ignore_ascii_case(name));
            columns = position("theorem").zip(position("loom test"));
            continue;
        };
        let (Some(name), Some(test)) = (cells.get(name_column), cells.get(test_column)) else {
            continue;
        };
        let name = name.replace(['*', '`'], "");
        let name = name.split([',', ':']).next().unwrap_or_default().trim();
        if !name.chars().all(|c| c == '-') {
            let tests = test.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            theorems.push(Theorem {
                name: name.to_owned(),
                tests,
                line: index + 1,
            });
        }
    }
    theorems
}

fn cells(line: &str) -> Option<Vec<&str>> {
    let line = line.trim().strip_prefix('|')?;
    Some(
        line.strip_suffix('|')
            .unwrap_or(line)
            .split('|')
            .map(str::trim)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::check_findings;
    use super::*;

    const TABLE: &str = "| Theorem | Loom test | by |\n|---|:---|---|\n| **W1**, no loss | `w1_a`, `w1_b` | x |\n\
                         | two-level idle mask | `idle_mask` | y |\n| W5 | none: virtual time | z |\n\nText.\n";

    fn mutation(theorem: &str, test: &str) -> Mutation {
        let text = format!("theorem: {theorem}\ntest: {test}\nwhy: x\n--- find a.rs\na\n--- replace\nb\n--- end\n");
        Mutation::parse("m", &text).expect("the text is well formed")
    }

    fn check_table(tests: &[&str], mutations: &[Mutation], expected: &[(usize, &str)]) {
        let tests: Vec<String> = tests.iter().map(|&test| test.to_owned()).collect();
        check_findings(&check(TABLE, &tests, mutations), expected);
    }

    #[test]
    fn tests_and_mutations_for_every_row_pass() {
        let mutations = [mutation("W1", "w1_b"), mutation("Two-level idle mask", "idle_mask")];
        check_table(&["w1_a", "w1_b", "idle_mask"], &mutations, &[]);
    }

    #[test]
    fn missing_tests_and_mutations_fail() {
        let mutations = [mutation("W1", "w1_b")];
        let expected = [(3, "`w1_b`"), (4, "`two-level idle mask` has no mutation")];
        check_table(&["w1_a", "idle_mask"], &mutations, &expected);
    }

    #[test]
    fn mutations_name_what_the_table_has() {
        let all = [mutation("W1", "w1_a"), mutation("two-level idle mask", "idle_mask")];
        let wrong = [mutation("W9", "w9"), mutation("W1", "idle_mask")];
        let mutations: Vec<Mutation> = all.into_iter().chain(wrong).collect();
        let expected = [(0, "theorem `W9` is not"), (0, "`idle_mask` is not the test of `W1`")];
        check_table(&["w1_a", "w1_b", "idle_mask"], &mutations, &expected);
    }

    #[test]
    fn a_readme_without_the_table_fails() {
        check_findings(
            &check("| a | b |\n|---|---|\n", &[], &[]),
            &[(0, "no theorem in a table")],
        );
    }
}
