//! Notes about size and `unsafe`: the trend matters, no number fails.

use std::collections::BTreeMap;

use super::finding::Finding;
use super::source::Source;

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;

/// Notes about one file's length and its long functions, tests left out.
pub(super) fn notes(path: &str, source: &Source) -> Vec<Finding> {
    let mut notes = Vec::new();
    let lines = source.product().count();
    if lines > FILE_LINES_MAX {
        notes.push(Finding::new(
            path,
            0,
            format!("{lines} lines before its tests (aim: {FILE_LINES_MAX})"),
        ));
    }
    for (start, length) in functions(source) {
        if length > FUNCTION_LINES_MAX {
            notes.push(Finding::new(
                path,
                start,
                format!("a function of {length} lines (aim: {FUNCTION_LINES_MAX})"),
            ));
        }
    }
    notes
}

/// First line and length of every function of the product that has a body.
fn functions(source: &Source) -> Vec<(usize, usize)> {
    let lines: Vec<(usize, &str)> = source
        .product()
        .map(|(number, line)| (number, line.code.as_str()))
        .collect();
    let starts = lines
        .iter()
        .enumerate()
        .filter(|(_, (_, code))| words(code).any(|word| word == "fn"));
    starts
        .filter_map(|(index, _)| Some((lines[index].0, body_length(&lines[index..])?)))
        .collect()
}

/// Lines from the signature to the closing brace; nothing for a declaration without a body.
fn body_length(lines: &[(usize, &str)]) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, (_, code)) in lines.iter().enumerate() {
        for c in code.chars() {
            match c {
                '{' => depth += 1,
                ';' if depth == 0 => return None,
                '}' if depth <= 1 => return Some(index + 1),
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    None
}

/// Counts the unsafe blocks, functions and implementations of the product, by module (folder or file below `src`).
pub(super) fn count_unsafe(path: &str, source: &Source, counts: &mut BTreeMap<String, usize>) {
    let count: usize = source
        .product()
        .map(|(_, line)| words(&line.code).filter(|word| *word == "unsafe").count())
        .sum();
    if count > 0 && path.contains("/src/") {
        *counts.entry(module(path)).or_default() += count;
    }
}

/// `crates/x/src/task/cell.rs` belongs to `crates/x/src/task`, `crates/x/src/lib.rs` to itself.
fn module(path: &str) -> String {
    let after_src = path.find("/src/").map_or(0, |start| start + "/src/".len());
    let end = path[after_src..].find('/').map_or(path.len(), |end| after_src + end);
    path[..end].to_owned()
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
}

#[cfg(test)]
mod tests {
    use super::super::finding::check_findings;
    use super::*;

    #[test]
    fn long_files_and_functions_are_noted() {
        let text = format!("fn short() {{}}\nfn long() {{\n{}}}\n", "    a();\n".repeat(70));
        check_findings(&notes("a.rs", &Source::scan(&text)), &[(2, "72 lines")]);
        let text = "const A: u8 = 1;\n".repeat(501);
        check_findings(&notes("a.rs", &Source::scan(&text)), &[(0, "501 lines")]);
        let tests = format!("fn a();\n#[cfg(test)]\nmod tests {{\n{}}}\n", "a();\n".repeat(600));
        check_findings(&notes("a.rs", &Source::scan(&tests)), &[]);
    }

    #[test]
    fn unsafe_is_counted_by_module() {
        let mut counts = BTreeMap::new();
        let source = Source::scan("unsafe fn f() { unsafe { g() } } // unsafe\n#[test]\nfn t() { unsafe { g() } }\n");
        count_unsafe("crates/x/src/task/cell.rs", &source, &mut counts);
        count_unsafe("crates/x/src/task/mod.rs", &source, &mut counts);
        count_unsafe("crates/x/src/lib.rs", &source, &mut counts);
        let counts: Vec<_> = counts.iter().map(|(path, count)| (path.as_str(), *count)).collect();
        assert_eq!(counts, [("crates/x/src/lib.rs", 2), ("crates/x/src/task", 4)]);
    }
}
