//! Crates depend on each other in one direction: `topology <- policy <- runtime <- bench, examples`.

use super::finding::Finding;

/// Every package of the workspace and those of its own that it may name.
const LAYERS: &[(&str, &[&str])] = &[
    ("quadrille-topology", &[]),
    ("quadrille-policy", &["quadrille-topology"]),
    ("quadrille-macros", &[]),
    (
        "quadrille",
        &["quadrille-topology", "quadrille-policy", "quadrille-macros"],
    ),
    (
        "quadrille-sim",
        &["quadrille-topology", "quadrille-policy", "quadrille"],
    ),
    (
        "quadrille-bench",
        &["quadrille-topology", "quadrille-policy", "quadrille", "quadrille-sim"],
    ),
    ("quadrille-examples", &["quadrille"]),
    ("quadrille-beside-tokio", &["quadrille"]),
    ("xtask", &[]),
];

/// Packages that a package may name for its tests only: the examples in the documentation of the macros need what the
/// macros expand to.
const FOR_TESTS: &[(&str, &[&str])] = &[("quadrille-macros", &["quadrille"])];

/// Checks the text of one `Cargo.toml`.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let Some(package) = package_name(text) else {
        return Vec::new();
    };
    let Some(allowed) = list(LAYERS, package) else {
        return vec![Finding::new(
            path,
            0,
            format!("package `{package}` has no place in the layers (xtask/src/tidy/manifest.rs)"),
        )];
    };
    let for_tests = list(FOR_TESTS, package).unwrap_or(&[]);
    let mut found = Vec::new();
    for dependency in dependencies(text) {
        let is_ours = list(LAYERS, dependency.package).is_some();
        let is_allowed =
            allowed.contains(&dependency.package) || dependency.for_tests && for_tests.contains(&dependency.package);
        if is_ours && !is_allowed {
            let message = format!(
                "`{package}` may not depend on `{}`: it is not below it",
                dependency.package
            );
            found.push(Finding::new(path, dependency.line, message));
        }
    }
    found
}

fn list<'a>(table: &'a [(&str, &'a [&'a str])], name: &str) -> Option<&'a [&'a str]> {
    table
        .iter()
        .find(|(package, _)| *package == name)
        .map(|(_, list)| *list)
}

struct Dependency<'a> {
    package: &'a str,
    for_tests: bool,
    line: usize,
}

/// The part of a manifest that a line is in, as far as dependencies go.
#[derive(Clone, Copy)]
enum Section<'a> {
    Other,
    /// Each key is a dependency.
    List {
        for_tests: bool,
    },
    /// `[dependencies.name]`: the keys belong to one dependency.
    One {
        name: &'a str,
        for_tests: bool,
    },
}

fn section(header: &str) -> Section<'_> {
    let name = header.trim_matches(['[', ']']);
    // `target.'cfg(x)'.dependencies` counts like `dependencies`.
    let name = if name.starts_with("target.") {
        let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
        let starts = kinds.iter().filter_map(|kind| name.find(&format!(".{kind}")));
        starts.min().map_or("", |start| &name[start + 1..])
    } else {
        name
    };
    let (kind, one) = name
        .split_once('.')
        .map_or((name, None), |(kind, one)| (kind, Some(one)));
    let for_tests = match kind {
        "dependencies" | "build-dependencies" => false,
        "dev-dependencies" => true,
        _ => return Section::Other,
    };
    match one {
        Some(name) => Section::One { name, for_tests },
        None => Section::List { for_tests },
    }
}

fn dependencies(text: &str) -> Vec<Dependency<'_>> {
    let mut found: Vec<Dependency<'_>> = Vec::new();
    let mut current = Section::Other;
    for (index, line) in text.lines().map(str::trim).enumerate() {
        let line_number = index + 1;
        if line.starts_with('[') {
            current = section(line);
            if let Section::One { name, for_tests } = current {
                found.push(Dependency {
                    package: name,
                    for_tests,
                    line: line_number,
                });
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        match current {
            Section::Other => {}
            Section::List { for_tests } => {
                let name = key.trim().split('.').next().unwrap_or_default().trim_matches('"');
                let package = renamed(value).unwrap_or(name);
                found.push(Dependency {
                    package,
                    for_tests,
                    line: line_number,
                });
            }
            Section::One { .. } if key.trim() == "package" => {
                if let Some(dependency) = found.last_mut() {
                    dependency.package = value.trim().trim_matches('"');
                }
            }
            Section::One { .. } => {}
        }
    }
    found
}

/// The name in `{ package = "name", ... }`.
fn renamed(value: &str) -> Option<&str> {
    let (_, after) = value.split_once("package")?;
    after
        .trim_start()
        .strip_prefix('=')?
        .trim_start()
        .strip_prefix('"')?
        .split('"')
        .next()
}

/// The name in the `[package]` table; a manifest without one is the workspace's.
fn package_name(text: &str) -> Option<&str> {
    let (_, package) = text.split_once("[package]")?;
    let line = package
        .lines()
        .take_while(|line| !line.starts_with('['))
        .find(|line| line.starts_with("name"))?;
    Some(line.split_once('=')?.1.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::super::finding::check_findings;
    use super::*;

    fn check_manifest(package: &str, rest: &str, expected: &[(usize, &str)]) {
        let text = format!("[package]\nname = \"{package}\"\n{rest}");
        check_findings(&check("Cargo.toml", &text), expected);
    }

    #[test]
    fn the_right_direction_passes() {
        check_manifest(
            "quadrille",
            "[dependencies]\nquadrille-policy.workspace = true\nlibc = \"0.2\"\n",
            &[],
        );
        check_manifest(
            "quadrille-bench",
            "[dependencies]\nquadrille = { workspace = true }\n",
            &[],
        );
        check_manifest(
            "quadrille-macros",
            "[dev-dependencies]\nquadrille.workspace = true\n",
            &[],
        );
    }

    #[test]
    fn the_wrong_direction_fails_however_it_is_written() {
        let policy = "`quadrille-policy` may not depend on `quadrille`";
        check_manifest(
            "quadrille-policy",
            "[dependencies]\nquadrille.workspace = true\n",
            &[(4, policy)],
        );
        check_manifest(
            "quadrille-policy",
            "[dependencies]\nq = { path = \"x\", package = \"quadrille\" }\n",
            &[(4, policy)],
        );
        check_manifest(
            "quadrille-policy",
            "[dependencies.quadrille]\npath = \"x\"\n",
            &[(3, policy)],
        );
        check_manifest(
            "quadrille-policy",
            "[dependencies.q]\npackage = \"quadrille\"\n",
            &[(3, policy)],
        );
        check_manifest(
            "quadrille-policy",
            "[dev-dependencies]\nquadrille.workspace = true\n",
            &[(4, policy)],
        );
        check_manifest(
            "quadrille-policy",
            "[target.'cfg(a.b)'.dependencies]\nquadrille = \"0\"\n",
            &[(4, policy)],
        );
        check_manifest(
            "quadrille-macros",
            "[dependencies]\nquadrille.workspace = true\n",
            &[(4, "may not depend")],
        );
        check_manifest(
            "xtask",
            "[build-dependencies]\nquadrille = \"0\"\n",
            &[(4, "`xtask` may not")],
        );
    }

    #[test]
    fn a_new_package_needs_a_layer() {
        check_manifest("quadrille-extra", "", &[(0, "no place in the layers")]);
        check_findings(&check("Cargo.toml", "[workspace]\nmembers = []\n"), &[]);
    }
}
