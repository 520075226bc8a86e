//! A Rust file cut into code, comments and test code, line by line.
//!
//! This is a scanner, not a parser: it knows comments, strings and character literals, so that a word inside them is
//! not taken for code, and it follows braces from `#[cfg(test)]` or `#[test]` to the end of the item. That is enough
//! for every check here; what it does not understand it treats as code, so a check errs on the side of a finding.

/// One line of a Rust file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// What the compiler sees, with the contents of string and character literals removed.
    pub(crate) code: String,
    /// The comment on this line with its slashes, or nothing.
    pub(crate) comment: String,
    /// Whether only a test build compiles it.
    pub(crate) is_test: bool,
}

impl Line {
    /// A comment that is not documentation, without its slashes.
    pub(crate) fn remark(&self) -> Option<&str> {
        let text = self.comment.strip_prefix("//")?;
        let is_doc = text.starts_with('!') || (text.starts_with('/') && !text.starts_with("//"));
        (!is_doc).then(|| text.trim())
    }

    /// Documentation, without its slashes.
    pub(crate) fn doc(&self) -> Option<&str> {
        if self.remark().is_some() {
            return None;
        }
        self.comment.get(3..).map(str::trim)
    }
}

/// A Rust file. Line numbers start at 1; `lines[0]` is line 1.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) lines: Vec<Line>,
    /// Modules declared as `mod name;` under a test-only attribute: their files are test code as a whole.
    pub(crate) test_modules: Vec<String>,
}

impl Source {
    /// Scans `text`.
    pub(crate) fn scan(text: &str) -> Self {
        let mut lines = split_comments(text);
        let test_modules = mark_tests(&mut lines);
        Self { lines, test_modules }
    }

    /// Marks every line as test code.
    pub(crate) fn mark_all_as_test(&mut self) {
        for line in &mut self.lines {
            line.is_test = true;
        }
    }

    /// The lines of the product with their numbers.
    pub(crate) fn product(&self) -> impl Iterator<Item = (usize, &Line)> {
        self.lines
            .iter()
            .enumerate()
            .filter(|(_, line)| !line.is_test)
            .map(|(index, line)| (index + 1, line))
    }
}

/// What the scanner is inside of at the end of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    LineComment,
    /// Nesting depth.
    BlockComment(usize),
    /// Number of `#` of a raw string, or none for one with escapes.
    Text(Option<usize>),
}

fn split_comments(text: &str) -> Vec<Line> {
    let chars: Vec<char> = text.chars().collect();
    let mut lines = vec![Line::default()];
    let mut state = State::Code;
    let mut at = 0;
    while at < chars.len() {
        if chars[at] == '\n' {
            if state == State::LineComment {
                state = State::Code;
            }
            lines.push(Line::default());
            at += 1;
            continue;
        }
        let line = lines.last_mut().expect("there is always a line");
        let taken;
        (state, taken) = step(state, &chars[at..], line);
        at += taken;
    }
    if text.ends_with('\n') {
        lines.pop();
    }
    lines
}

/// Consumes one token or character of a line; returns the state after it and how many characters it took.
fn step(state: State, rest: &[char], line: &mut Line) -> (State, usize) {
    let starts = |text: &str| text.chars().enumerate().all(|(index, c)| rest.get(index) == Some(&c));
    match state {
        State::LineComment => {
            line.comment.push(rest[0]);
            (state, 1)
        }
        State::BlockComment(depth) if starts("*/") => {
            line.comment.push_str("*/");
            (
                if depth == 1 {
                    State::Code
                } else {
                    State::BlockComment(depth - 1)
                },
                2,
            )
        }
        State::BlockComment(depth) if starts("/*") => (State::BlockComment(depth + 1), 2),
        State::BlockComment(_) => {
            line.comment.push(rest[0]);
            (state, 1)
        }
        State::Text(None) if rest[0] == '\\' => (state, if rest.get(1) == Some(&'\n') { 1 } else { 2 }),
        State::Text(None) if rest[0] == '"' => close_text(line, 1),
        State::Text(Some(hashes)) if rest[0] == '"' && count_hashes(&rest[1..]) >= hashes => {
            close_text(line, 1 + hashes)
        }
        State::Text(_) => (state, 1),
        State::Code if starts("//") => {
            line.comment.push_str("//");
            (State::LineComment, 2)
        }
        State::Code if starts("/*") => {
            line.comment.push_str("/*");
            (State::BlockComment(1), 2)
        }
        State::Code => code_step(rest, line),
    }
}

fn close_text(line: &mut Line, taken: usize) -> (State, usize) {
    line.code.push('"');
    (State::Code, taken)
}

fn code_step(rest: &[char], line: &mut Line) -> (State, usize) {
    let first = rest[0];
    if first == '"' {
        line.code.push('"');
        return (State::Text(None), 1);
    }
    let continues_word = line.code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    if first == 'r' && (!continues_word || line.code.ends_with('b')) {
        let hashes = count_hashes(&rest[1..]);
        if rest.get(1 + hashes) == Some(&'"') {
            line.code.push('"');
            return (State::Text(Some(hashes)), 2 + hashes);
        }
    }
    if first == '\''
        && let Some(length) = char_literal(rest)
    {
        line.code.push_str("' '");
        return (State::Code, length);
    }
    line.code.push(first);
    (State::Code, 1)
}

fn count_hashes(rest: &[char]) -> usize {
    rest.iter().take_while(|&&c| c == '#').count()
}

/// The length of the character literal at the start of `rest`, or nothing if this is a lifetime.
fn char_literal(rest: &[char]) -> Option<usize> {
    if rest.get(1) == Some(&'\\') {
        let end = rest
            .iter()
            .skip(3)
            .take_while(|&&c| c != '\n')
            .position(|&c| c == '\'')?;
        return Some(end + 4);
    }
    (rest.get(2) == Some(&'\'')).then_some(3)
}

/// Marks the items under a test-only attribute and returns the modules that such attributes declare.
fn mark_tests(lines: &mut [Line]) -> Vec<String> {
    let mut modules = Vec::new();
    let mut index = 0;
    while index < lines.len() {
        let code = lines[index].code.trim();
        if code.starts_with("#![") && is_test_attribute(code) {
            lines.iter_mut().for_each(|line| line.is_test = true);
            return modules;
        }
        if code.starts_with("#[") && is_test_attribute(code) {
            let end = item_end(lines, index);
            modules.extend(declared_module(&lines[index..=end]));
            lines[index..=end].iter_mut().for_each(|line| line.is_test = true);
            index = end;
        }
        index += 1;
    }
    modules
}

/// `#[test]`, `#[cfg(test)]`, `#[cfg(all(test, ...))]`, but not `#[cfg(not(test))]` or `#[cfg(any(test, ...))]`.
fn is_test_attribute(code: &str) -> bool {
    let code: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    let body = code
        .trim_start_matches('#')
        .trim_start_matches('!')
        .trim_start_matches('[');
    body.starts_with("test]") || body.starts_with("cfg(test)") || {
        let list = body.strip_prefix("cfg(all(").unwrap_or("");
        list.split([',', ')']).any(|part| part == "test")
    }
}

/// The last line of the item whose attribute is at `start`: where its braces close, or its semicolon.
fn item_end(lines: &[Line], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut opened = false;
    for (index, line) in lines.iter().enumerate().skip(start) {
        // Brackets and parentheses count too: a semicolon inside them (`[u8; 4]`) ends nothing.
        for c in line.code.chars() {
            match c {
                '{' | '(' | '[' => {
                    depth += 1;
                    opened |= c == '{';
                }
                '}' | ')' | ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            let closes_item = opened && c == '}' || c == ';';
            if depth == 0 && closes_item {
                return index;
            }
        }
    }
    lines.len() - 1
}

/// The name in `mod name;`.
fn declared_module(lines: &[Line]) -> Option<String> {
    let last = lines.last()?.code.trim().strip_suffix(';')?;
    let (_, name) = last.rsplit_once("mod ")?;
    name.chars()
        .all(|c| c.is_alphanumeric() || c == '_')
        .then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::scan(text)
            .lines
            .iter()
            .map(|line| line.code.clone())
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn strings_and_comments_are_not_code() {
        assert_eq!(code("let a = \"asm!(\"; // asm!\nb"), "let a = \"\"; \nb");
        assert_eq!(code("let a = r#\"a \" b\"#; c"), "let a = \"\"; c");
        assert_eq!(code("let a = br\"x\"; c"), "let a = b\"\"; c");
        assert_eq!(code("a /* b /* c */ d */ e"), "a  e");
        assert_eq!(code("let a = \"x\\\" y\"; c"), "let a = \"\"; c");
        assert_eq!(code("let a = \"one \\\n  two\"; c"), "let a = \"\n\"; c");
    }

    #[test]
    fn lifetimes_are_code_and_characters_are_not() {
        assert_eq!(
            code("fn f<'a>(x: &'a str) -> char { '\"' }"),
            "fn f<'a>(x: &'a str) -> char { ' ' }"
        );
        assert_eq!(
            code(r"let a = ['\'', '\n', '\u{41}', 'x'];"),
            "let a = [' ', ' ', ' ', ' '];"
        );
    }

    #[test]
    fn remarks_and_docs_are_told_apart() {
        let source = Source::scan("//! Module.\n/// Item.\nx // Remark.\n//// Rule.\n");
        let remarks: Vec<_> = source.lines.iter().map(Line::remark).collect();
        assert_eq!(remarks, [None, None, Some("Remark."), Some("// Rule.")]);
        let docs: Vec<_> = source.lines.iter().map(Line::doc).collect();
        assert_eq!(docs, [Some("Module."), Some("Item."), None, None]);
    }

    /// Checks which lines of `text` are test code; those that should be end in `// T`.
    fn check_marks(text: &str) {
        for (index, line) in Source::scan(text).lines.iter().enumerate() {
            assert_eq!(line.is_test, line.comment == "// T", "line {} of {text}", index + 1);
        }
    }

    #[test]
    fn test_items_end_where_they_end() {
        check_marks("a();\n#[cfg(test)] // T\nmod tests { // T\n fn b() {} // T\n} // T\nc();\n");
        check_marks("#[cfg(test)] // T\nuse x::{a, b}; // T\nc();\n");
        check_marks("#[cfg(all(test, quadrille_loom))] // T\nmod loom; // T\nc();\n");
        check_marks("#[test] // T\nfn f(a: [u8; 4]) -> bool { // T\n true // T\n} // T\nc();\n");
        check_marks("#![cfg(test)] // T\nfn f() {} // T\n");
        check_marks("#[cfg(not(test))]\nfn f() {}\n");
        check_marks("#[cfg(any(test, feature))]\nfn f() {}\n");
    }

    #[test]
    fn test_modules_in_other_files_are_named() {
        let source =
            Source::scan("#[cfg(all(test, quadrille_loom))]\nmod loom;\n#[cfg(test)]\npub(crate) mod toy;\nmod a;\n");
        assert_eq!(source.test_modules, ["loom", "toy"]);
    }
}
