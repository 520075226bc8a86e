//! Relative links in markdown lead to a file.

use super::finding::Finding;

/// Checks the links of the file at `path`; `exists` answers for paths relative to the root.
pub(super) fn check(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut in_fence = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        }
        if in_fence {
            continue;
        }
        for target in targets(line) {
            if let Some(resolved) = resolve(path, &target)
                && !exists(&resolved)
            {
                found.push(Finding::new(
                    path,
                    index + 1,
                    format!("link to `{target}`: there is no `{resolved}`"),
                ));
            }
        }
    }
    found
}

/// What `[text](target)` and `[name]: target` lead to, outside of code.
fn targets(line: &str) -> Vec<String> {
    let prose = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let mut targets: Vec<String> = prose
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(first_word)
        .collect();
    if let Some((name, target)) = prose.trim_start().split_once("]: ")
        && name.starts_with('[')
    {
        targets.push(first_word((target, "")));
    }
    targets
}

/// A target may be followed by a title.
fn first_word((target, _): (&str, &str)) -> String {
    let word = target.split_whitespace().next().unwrap_or_default();
    word.trim_start_matches('<').trim_end_matches('>').to_owned()
}

/// The path from the root, or nothing for other hosts and for places on the same page.
fn resolve(path: &str, target: &str) -> Option<String> {
    let file = target.split('#').next().unwrap_or_default();
    let scheme = file
        .split_once(':')
        .is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()));
    if file.is_empty() || scheme {
        return None;
    }
    let mut parts: Vec<&str> = if file.starts_with('/') {
        Vec::new()
    } else {
        path.split('/').collect()
    };
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::check_findings;
    use super::*;

    fn check_links(text: &str, expected: &[(usize, &str)]) {
        let exists = |path: &str| ["README.md", "docs/a.md", "docs"].contains(&path);
        check_findings(&check("docs/b.md", text, exists), expected);
    }

    #[test]
    fn links_that_resolve_pass() {
        check_links(
            "[a](a.md), [b](../README.md#part \"title\"), [c](/docs/), [d](#here)\n[e]: ./a.md\n",
            &[],
        );
        check_links(
            "[a](https://example.org/x) <https://example.org> [b](mailto:a@example.org)\n",
            &[],
        );
    }

    #[test]
    fn links_that_lead_nowhere_fail() {
        check_links("x\n[a](README.md)\n", &[(2, "there is no `docs/README.md`")]);
        check_links(
            "[a](a.md) and [b](gone.md)\n[c]: ../gone.md\n",
            &[(1, "`gone.md`"), (2, "`gone.md`")],
        );
    }

    #[test]
    fn code_is_no_link() {
        check_links("`[a](gone.md)`\n```\n[a](gone.md)\n```\n", &[]);
    }
}
