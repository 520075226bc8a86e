//! Every model can fail: some mutation names it.
//!
//! A model is a test in a module called `loom`, which is what `cargo xtask loom` runs. One that no mutation can make
//! fail, though it is worth having, says why by a remark above it: `// no mutation: REASON`.

use super::finding::Finding;
use super::source::{Line, Source};
use crate::mutate::{Build, Mutation};

/// What the remark of an exception begins with.
const EXCEPTION: &str = "no mutation:";

/// A test in a module called `loom`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) path: String,
    pub(super) name: String,
    line: usize,
    /// What the remark above it says, if there is one.
    exception: Option<String>,
}

/// The models of a file.
pub(super) fn of(path: &str, source: &Source) -> Vec<Model> {
    let is_whole = path.split('/').any(|part| part == "loom" || part == "loom.rs");
    let mut models = Vec::new();
    let mut depth = 0_usize;
    let mut module = None;
    for (index, line) in source.lines.iter().enumerate() {
        let code = line.code.trim();
        if module.is_none() && (code.starts_with("mod loom {") || code.ends_with(" mod loom {")) {
            module = Some(depth);
        }
        if code.starts_with("#[test]") && (is_whole || module.is_some()) {
            models.extend(model(path, &source.lines, index));
        }
        depth += line.code.matches('{').count();
        depth = depth.saturating_sub(line.code.matches('}').count());
        if module.is_some_and(|outside| depth <= outside) {
            module = None;
        }
    }
    models
}

/// The model whose `#[test]` is at `index`.
fn model(path: &str, lines: &[Line], index: usize) -> Option<Model> {
    let (below, name) = lines[index..].iter().enumerate().find_map(|(below, line)| {
        let (_, name) = line.code.split_once("fn ")?;
        Some((below, name.split(['(', '<']).next().unwrap_or_default().trim()))
    })?;
    let above = lines[..index].iter().rev();
    let exception = above
        .take_while(|line| {
            let code = line.code.trim();
            code.starts_with("#[") || (code.is_empty() && !line.comment.is_empty())
        })
        .find_map(|line| line.remark()?.strip_prefix(EXCEPTION));
    Some(Model {
        path: path.to_owned(),
        name: name.to_owned(),
        line: index + below + 1,
        exception: exception.map(|reason| reason.trim().to_owned()),
    })
}

/// Checks all models against all mutations.
pub(super) fn check(models: &[Model], mutations: &[Mutation]) -> Vec<Finding> {
    let mut found = Vec::new();
    for model in models {
        let is_named = mutations.iter().any(|mutation| mutation.test == model.name);
        let message = match &model.exception {
            None if !is_named => "is named by no mutation: nothing shows that it can fail",
            Some(_) if is_named => "is named by a mutation: the remark that there is none is wrong",
            Some(reason) if reason.is_empty() => "has no mutation, and does not say why",
            _ => continue,
        };
        found.push(Finding::new(
            &model.path,
            model.line,
            format!("`{}` {message}", model.name),
        ));
    }
    for mutation in mutations.iter().filter(|mutation| mutation.build == Build::Loom) {
        if !models.iter().any(|model| model.name == mutation.test) {
            let message = format!("`{}` is no test in a module called `loom`", mutation.test);
            found.push(Finding::new(&mutation.path(), 0, message));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::finding::check_findings;
    use super::*;

    const MODELS: &str = "#[test]\nfn w1_a() {\n    check(|| {});\n}\n\nfn helper() {}\n\n\
                          /// Docs.\n// no mutation: holds by construction\n#[test]\n#[should_panic]\nfn w1_b() {}\n";

    fn mutation(test: &str, build: &str) -> Mutation {
        let text =
            format!("theorem: W1\ntest: {test}\nbuild: {build}\nwhy: x\n--- find a.rs\na\n--- replace\nb\n--- end\n");
        Mutation::parse("m", &text).expect("the text is well formed")
    }

    fn check_file(path: &str, text: &str, tests: &[&str], expected: &[(usize, &str)]) {
        let mutations: Vec<Mutation> = tests.iter().map(|test| mutation(test, "loom")).collect();
        check_findings(&check(&of(path, &Source::scan(text)), &mutations), expected);
    }

    #[test]
    fn models_with_a_mutation_or_a_reason_pass() {
        check_file("src/loom.rs", MODELS, &["w1_a"], &[]);
        check_file("src/sched/loom/w1.rs", MODELS, &["w1_a"], &[]);
    }

    #[test]
    fn a_model_that_no_mutation_names_fails() {
        check_file("src/loom.rs", MODELS, &[], &[(2, "`w1_a` is named by no mutation")]);
        let no_reason = MODELS.replace(" holds by construction", "");
        check_file(
            "src/loom.rs",
            &no_reason,
            &["w1_a"],
            &[(12, "`w1_b` has no mutation, and does not")],
        );
        check_file(
            "src/loom.rs",
            MODELS,
            &["w1_a", "w1_b"],
            &[(12, "`w1_b` is named by a mutation")],
        );
    }

    /// What is said of one model is not said of the next.
    #[test]
    fn a_reason_is_that_of_the_test_below_it() {
        let text =
            "// no mutation: x\n#[test]\nfn a() {}\n#[test]\nfn b() {}\n\n// no mutation: y\n\n#[test]\nfn c() {}\n";
        check_file(
            "loom.rs",
            text,
            &[],
            &[(5, "`b` is named by no"), (10, "`c` is named by no")],
        );
    }

    #[test]
    fn a_module_in_a_file_ends_where_it_ends() {
        let text = "fn product() {}\n#[cfg(all(test, quadrille_loom))]\nmod loom {\n    #[test]\n    fn r() {\n        f(|| {});\n    }\n}\n\
                    mod tests {\n    #[test]\n    fn t() {}\n}\n";
        check_file("src/roll.rs", text, &[], &[(5, "`r` is named by no mutation")]);
        check_file("src/roll.rs", text, &["r"], &[]);
        check_file("src/bloom.rs", &text.replace("mod loom", "mod tests"), &[], &[]);
    }

    #[test]
    fn a_mutation_names_a_model_unless_it_is_for_the_soak() {
        check_file(
            "src/loom.rs",
            MODELS,
            &["w1_a", "t"],
            &[(0, "`t` is no test in a module called")],
        );
        check_findings(&check(&[], &[mutation("soak", "stress")]), &[]);
    }
}
