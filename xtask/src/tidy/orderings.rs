//! Every ordering stronger than `Relaxed` says why it is there.

use super::finding::Finding;
use super::source::Source;

const STRONG: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];
/// Lines of code that a comment may be above the access; lines of comments are free.
const DISTANCE_MAX: usize = 6;

/// Checks one file of the runtime.
pub(super) fn check(path: &str, source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut in_import = false;
    for (number, line) in source.product() {
        let code = line.code.trim();
        in_import |= code.starts_with("use ") || code.starts_with("pub(crate) use ") || code.starts_with("pub use ");
        let strong = STRONG.iter().find(|name| names_ordering(code, name));
        if let Some(name) = strong
            && !in_import
            && !has_reason(source, number - 1)
        {
            found.push(Finding::new(
                path,
                number,
                format!("{name} without an `// Ordering:` comment above it"),
            ));
        }
        in_import &= !code.ends_with(';');
    }
    found
}

/// Looks for the comment on the line itself and above, not beyond the start of the function.
fn has_reason(source: &Source, index: usize) -> bool {
    let mut distance = 0;
    for line in source.lines[..=index].iter().rev() {
        if line.remark().is_some_and(|text| text.contains("Ordering:")) {
            return true;
        }
        if !line.code.trim().is_empty() {
            distance += 1;
        }
        if distance > DISTANCE_MAX + 1 || has_word(&line.code, "fn") {
            return false;
        }
    }
    false
}

/// Whether `name` stands there by itself, and is no type of that name: `Acquire<'_>`, `Acquire::new`.
fn names_ordering(code: &str, name: &str) -> bool {
    has_word(code, name)
        && code
            .match_indices(name)
            .any(|(at, _)| !code[at + name.len()..].starts_with(['<', ':']))
}

fn has_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::super::finding::check_findings;
    use super::*;

    fn check_orderings(text: &str, expected: &[(usize, &str)]) {
        check_findings(&check("a.rs", &Source::scan(text)), expected);
    }

    #[test]
    fn a_reason_above_or_beside_is_enough() {
        check_orderings(
            "fn f() {\n // Ordering: Acquire (W1 a); pairs.\n a.load(Acquire);\n}\n",
            &[],
        );
        check_orderings(
            "fn f() {\n // Ordering: AcqRel (W2);\n // goes on.\n a.swap(\n  1,\n  AcqRel,\n );\n}\n",
            &[],
        );
        check_orderings("fn f() {\n fence(SeqCst); // Ordering: W1 (A)\n}\n", &[]);
    }

    #[test]
    fn a_type_of_that_name_is_no_ordering() {
        check_orderings("fn f() -> Acquire<'_> {\n Acquire::new(1)\n}\n", &[]);
        check_orderings(
            "fn f(a: Acquire<'_>) {\n a.load(Acquire);\n}\n",
            &[(2, "Acquire without")],
        );
    }

    #[test]
    fn no_reason_fails() {
        check_orderings("fn f() {\n a.load(Acquire);\n}\n", &[(2, "Acquire without")]);
        check_orderings("fn f() {\n a.load(Ordering::SeqCst);\n}\n", &[(2, "SeqCst without")]);
        let far = format!(
            "fn f() {{\n // Ordering: x\n{} a.load(Acquire);\n}}\n",
            " b();\n".repeat(7)
        );
        check_orderings(&far, &[(10, "Acquire")]);
    }

    #[test]
    fn the_reason_of_another_function_does_not_count() {
        let text = "fn f() {\n // Ordering: x\n a.load(Acquire);\n}\nfn g() {\n a.load(Acquire);\n}\n";
        check_orderings(text, &[(6, "Acquire")]);
    }

    #[test]
    fn relaxed_imports_and_tests_are_free() {
        check_orderings(
            "use Ordering::{\n Acquire,\n Release,\n};\nfn f() {\n a.load(Relaxed);\n}\n",
            &[],
        );
        check_orderings("#[test]\nfn f() {\n a.load(Acquire);\n}\n", &[]);
        check_orderings("struct Released;\n", &[]);
    }
}
