//! One mutation: a text to find, what to put in its place, and the test that must notice.
//!
//! ```text
//! theorem: W1
//! test: w1_no_lost_wakeup
//! why: without the fence (A) the waker may read the idle bits before its push is seen;
//!      then neither side sees the other.
//! --- find crates/runtime/src/sched/idle/mod.rs
//!         fence(SeqCst);
//! --- replace
//! --- end
//! ```
//!
//! The text between `find` and `replace` is whole lines and must occur exactly once in the file; several blocks make
//! one mutation. Unlike a patch this survives every change that leaves those lines alone, and its failure to apply says
//! which lines are gone.

use super::FOLDER;

/// The build whose tests a mutation must make fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// The models.
    Loom,
    /// The soak.
    Stress,
}

/// A change that some test must notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mutation {
    /// File name without its extension.
    pub(crate) name: String,
    /// The theorem in the scheduler's README that the change breaks.
    pub(crate) theorem: String,
    /// The test function that must fail.
    pub(crate) test: String,
    /// Where that test is.
    pub(crate) build: Build,
    /// What goes wrong, in a sentence.
    pub(crate) why: String,
    edits: Vec<Edit>,
}

/// One replacement of whole lines in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Edit {
    file: String,
    find: String,
    replace: String,
}

impl Mutation {
    /// Reads the text of a mutation file.
    ///
    /// # Errors
    /// A sentence that names the line or field at fault.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut fields: Vec<(String, String)> = Vec::new();
        let mut edits = Vec::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(file) = line.strip_prefix("--- find ") {
                let find = block(&mut lines, "--- replace")?;
                let replace = block(&mut lines, "--- end")?;
                edits.push(Edit {
                    file: file.trim().to_owned(),
                    find,
                    replace,
                });
            } else if line.starts_with(' ') && !fields.is_empty() {
                let (_, value) = fields.last_mut().expect("checked not to be empty");
                *value = format!("{value} {}", line.trim());
            } else if let Some((key, value)) = line.split_once(':') {
                fields.push((key.trim().to_owned(), value.trim().to_owned()));
            } else if !line.trim().is_empty() {
                return Err(format!("neither a field nor a block: `{line}`"));
            }
        }
        let field = |key: &str| {
            let found = fields.iter().find(|(name, _)| name == key);
            found
                .map(|(_, value)| value.clone())
                .ok_or_else(|| format!("the field `{key}` is missing"))
        };
        let build = match field("build").as_deref() {
            Err(_) | Ok("loom") => Build::Loom,
            Ok("stress") => Build::Stress,
            Ok(other) => return Err(format!("unknown build `{other}`; there are `loom` and `stress`")),
        };
        let mutation = Self {
            name: name.to_owned(),
            theorem: field("theorem")?,
            test: field("test")?,
            build,
            why: field("why")?,
            edits,
        };
        if let Some((unknown, _)) = fields
            .iter()
            .find(|(key, _)| !["theorem", "test", "build", "why"].contains(&key.as_str()))
        {
            return Err(format!("unknown field `{unknown}`"));
        }
        if mutation.edits.is_empty() {
            return Err("there is no `--- find FILE` block".to_owned());
        }
        Ok(mutation)
    }

    /// Where the file of this mutation is.
    pub(crate) fn path(&self) -> String {
        format!("{FOLDER}{}.mut", self.name)
    }

    /// The changed files: path and new text of each. `read` gives the present text of a file.
    ///
    /// # Errors
    /// A sentence that names the file and the first line that is not there exactly once.
    pub(crate) fn apply(&self, read: impl Fn(&str) -> Option<String>) -> Result<Vec<(String, String)>, String> {
        let mut changed: Vec<(String, String)> = Vec::new();
        for edit in &self.edits {
            let earlier = changed.iter().position(|(file, _)| *file == edit.file);
            let text = match earlier {
                Some(index) => changed.swap_remove(index).1,
                None => read(&edit.file).ok_or_else(|| format!("there is no file `{}`", edit.file))?,
            };
            changed.push((edit.file.clone(), edit.apply(&text)?));
        }
        Ok(changed)
    }
}

impl Edit {
    fn apply(&self, text: &str) -> Result<String, String> {
        let first = self.find.lines().next().unwrap_or_default().trim();
        // Whole lines only: `a();` must not be found at the end of `not_a();`.
        let is_line_start = |start: usize| start == 0 || text[..start].ends_with('\n');
        let places: Vec<usize> = text
            .match_indices(&self.find)
            .map(|(start, _)| start)
            .filter(|start| is_line_start(*start))
            .collect();
        let &[start] = places.as_slice() else {
            let problem = if places.is_empty() {
                "not found"
            } else {
                "found more than once"
            };
            return Err(format!(
                "{problem} in {}: the lines that start with `{first}`",
                self.file
            ));
        };
        let (before, after) = (&text[..start], &text[start + self.find.len()..]);
        Ok(format!("{before}{}{after}", self.replace))
    }
}

/// The lines up to the one that is `end`, each with its line break.
fn block<'a>(lines: &mut impl Iterator<Item = &'a str>, end: &str) -> Result<String, String> {
    let mut text = String::new();
    for line in lines {
        if line == end {
            return Ok(text);
        }
        text.push_str(line);
        text.push('\n');
    }
    Err(format!("a block does not end with `{end}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOY: &str = "fn wake() {\n    push();\n    fence();\n    read_idle();\n}\n";

    fn toy(blocks: &str) -> Result<Vec<(String, String)>, String> {
        let text = format!("theorem: W1\ntest: w1\nwhy: one\n     two\n{blocks}");
        let read = |path: &str| (path == "toy.rs").then(|| TOY.to_owned());
        Mutation::parse("toy", &text).and_then(|mutation| mutation.apply(read))
    }

    #[test]
    fn reads_fields_and_joins_continued_lines() {
        let text = "theorem: W1\ntest: w1\nwhy: one\n     two: three\n\n--- find a.rs\na\n--- replace\n--- end\n";
        let mutation = Mutation::parse("drop-fence", text).expect("well formed");
        assert_eq!((mutation.theorem.as_str(), mutation.test.as_str()), ("W1", "w1"));
        assert_eq!(mutation.why, "one two: three");
        assert_eq!(mutation.build, Build::Loom);
        assert_eq!(mutation.path(), "mutations/drop-fence.mut");
    }

    #[test]
    fn removes_and_replaces_whole_lines() {
        let changed = toy("--- find toy.rs\n    fence();\n--- replace\n--- end\n").expect("applies");
        assert_eq!(changed, [("toy.rs".to_owned(), TOY.replace("    fence();\n", ""))]);
        let changed = toy("--- find toy.rs\n    push();\n    fence();\n--- replace\n    push();\n--- end\n");
        assert_eq!(changed.expect("applies")[0].1, TOY.replace("    fence();\n", ""));
    }

    #[test]
    fn several_blocks_change_the_same_file_in_turn() {
        let blocks = "--- find toy.rs\n    push();\n--- replace\n--- end\n\
                      --- find toy.rs\n    read_idle();\n--- replace\n    read_idle();\n    push();\n--- end\n";
        let changed = toy(blocks).expect("applies");
        assert_eq!(changed.len(), 1);
        assert_eq!(
            changed[0].1,
            "fn wake() {\n    fence();\n    read_idle();\n    push();\n}\n"
        );
    }

    #[test]
    fn says_what_does_not_apply() {
        let fail = |blocks: &str| toy(blocks).expect_err("does not apply");
        assert!(fail("--- find toy.rs\n    gone();\n--- replace\n--- end\n").contains("not found in toy.rs"));
        assert!(fail("--- find toy.rs\nfence();\n--- replace\n--- end\n").contains("not found in toy.rs"));
        assert!(fail("--- find other.rs\na\n--- replace\n--- end\n").contains("no file `other.rs`"));
        assert!(fail("").contains("no `--- find FILE` block"));
        assert!(fail("--- find toy.rs\na\n").contains("does not end with `--- replace`"));
        assert!(
            Mutation::parse("toy", "test: a\nwhy: b\n")
                .expect_err("no theorem")
                .contains("`theorem`")
        );
        assert!(fail("build: release\n--- find toy.rs\n}\n--- replace\n--- end\n").contains("unknown build `release`"));
        assert!(fail("colour: red\n--- find toy.rs\n}\n--- replace\n--- end\n").contains("unknown field `colour`"));
    }

    #[test]
    fn lines_that_occur_twice_are_refused() {
        let text = "theorem: W1\ntest: w1\nwhy: x\n--- find toy.rs\na();\n--- replace\n--- end\n";
        let mutation = Mutation::parse("toy", text).expect("well formed");
        let twice = mutation
            .apply(|_| Some("a();\nb();\na();\n".to_owned()))
            .expect_err("ambiguous");
        assert!(twice.contains("more than once"), "{twice}");
        let once = mutation
            .apply(|_| Some("not_a();\na();\n".to_owned()))
            .expect("whole lines only");
        assert_eq!(once[0].1, "not_a();\n");
    }
}
