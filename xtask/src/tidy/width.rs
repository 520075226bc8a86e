//! Comments fit the width that rustfmt keeps code to; it leaves comments as they are.

use super::finding::Finding;

/// `max_width` of rustfmt.toml.
const COLUMNS_MAX: usize = 120;

/// Checks the lines of a Rust file that are nothing but comment. Rows of tables can't be wrapped.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let numbered = text.lines().enumerate();
    let wide = numbered.filter_map(|(index, line)| {
        let columns = line.chars().count();
        (columns > COLUMNS_MAX && is_prose(line.trim_start())).then_some((index + 1, columns))
    });
    wide.map(|(number, columns)| {
        Finding::new(
            path,
            number,
            format!("a comment of {columns} columns, expected {COLUMNS_MAX} at most"),
        )
    })
    .collect()
}

fn is_prose(line: &str) -> bool {
    let comment = line.strip_prefix("//");
    comment.is_some_and(|comment| !comment.trim_start_matches(['/', '!', ' ']).starts_with('|'))
}

#[cfg(test)]
mod tests {
    use super::super::finding::check_findings;
    use super::*;

    #[test]
    fn comments_are_as_wide_as_code_may_be() {
        let check = |line: &str, expected: &[(usize, &str)]| check_findings(&check("a.rs", line), expected);
        let words = "words ".repeat(19); // 114 columns
        check(&format!("//! {words}é\n"), &[]);
        check(&format!("//! {words}is\n//! {words}ist\n"), &[(2, "121 columns")]);
        check(&format!("    // {words}"), &[(1, "121 columns")]);
        check(&format!("    /// | {words} | {words} |"), &[]);
        check(&format!("    let text = \"{words}{words}\";"), &[]);
    }
}
