//! From text to shape and attributes.
//!
//! ```text
//! machine   = shape { attribute }
//! shape     = ( level ":" count )* [ level ":" "[" item { "," item } "]" ]    at least one level, outside in
//! item      = [ count "*" ] shape
//! attribute = name ":" value { "," value }
//! value     = number | number "-" number
//! ```

use alloc::{format, string::String, vec::Vec};

use super::{Attribute, Level, Shape};
use crate::{Topology, TopologyError};

/// An attribute lists at most this many values, so that a range cannot ask for all memory.
const VALUES_MAX: usize = 1 << 20;

/// Each attribute at most once, with its values.
type Attributes = Vec<(Attribute, Vec<u64>)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// Letters, digits, `-` and `_`.
    Word(&'a str),
    /// Any other character that is not white space.
    Sign(char),
}

/// Tokens with the character they start at, counted from 1.
struct Parser<'a> {
    tokens: Vec<(usize, Token<'a>)>,
    next: usize,
}

/// Reads a whole machine.
pub(super) fn machine(text: &str) -> Result<(Shape, Attributes), TopologyError> {
    let mut parser = Parser {
        tokens: tokens(text),
        next: 0,
    };
    if parser.tokens.is_empty() {
        return Err(TopologyError::syntax(
            "empty machine: expected levels such as `node:2 llc:4 core:8 pu:2`",
        ));
    }
    let shape = parser.shape(None)?;
    let mut attributes = Vec::new();
    while let Some(attribute) = parser.attribute_name(&attributes)? {
        let values = parser.values()?;
        attributes.push((attribute, values));
    }
    Ok((shape, attributes))
}

fn tokens(text: &str) -> Vec<(usize, Token<'_>)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let mut tokens = Vec::new();
    let mut rest = text.char_indices().zip(1..).peekable();
    while let Some(((start, c), column)) = rest.next() {
        if c.is_whitespace() {
            continue;
        }
        if !is_word(c) {
            tokens.push((column, Token::Sign(c)));
            continue;
        }
        let mut end = start + c.len_utf8();
        while let Some(((at, c), _)) = rest.next_if(|((_, c), _)| is_word(*c)) {
            end = at + c.len_utf8();
        }
        tokens.push((column, Token::Word(&text[start..end])));
    }
    tokens
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next).map(|(_, token)| *token)
    }

    /// Takes the next token if it is this sign.
    fn take(&mut self, sign: char) -> bool {
        let found = self.peek() == Some(Token::Sign(sign));
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, sign: char) -> Result<(), TopologyError> {
        if self.take(sign) {
            Ok(())
        } else {
            Err(self.error(&format!("`{sign}`")))
        }
    }

    /// The levels inside `outer` (nothing: the whole machine), as far as they go.
    fn shape(&mut self, outer: Option<Level>) -> Result<Shape, TopologyError> {
        let mut shape = Shape::default();
        let mut last = outer;
        while let Some(level) = self.level(last, last == outer, outer.is_some())? {
            last = Some(level);
            self.expect(':')?;
            if level != Level::Pu && self.take('[') {
                let items = self.items(level)?;
                shape.listed = Some((level, items));
                break;
            }
            let wanted = if level == Level::Pu { "" } else { " or `[`" };
            let count = self.count(wanted)?;
            shape.counts.push((level, count));
        }
        Ok(shape)
    }

    /// A level below `above`; nothing if the shape ends here. The first one must be there.
    fn level(&mut self, above: Option<Level>, first: bool, nested: bool) -> Result<Option<Level>, TopologyError> {
        let allowed = || Level::ALL.into_iter().filter(|level| above.is_none_or(|a| *level > a));
        let word = match self.peek() {
            Some(Token::Word(word)) => word,
            Some(Token::Sign(',' | ']')) if nested && !first => return Ok(None),
            None if !nested && !first => return Ok(None),
            _ => "",
        };
        if let Some(level) = allowed().find(|level| level.name() == word) {
            self.next += 1;
            return Ok(Some(level));
        }
        if !nested && !first && Attribute::ALL.iter().any(|a| a.name() == word) {
            return Ok(None);
        }
        let mut wanted: Vec<&str> = allowed().map(Level::name).collect();
        match (nested, first) {
            (true, false) => wanted.extend(["`,`", "`]`"]),
            (false, false) => {
                wanted.extend(Attribute::ALL.iter().map(|a| a.name()));
                wanted.push("the end");
            }
            (_, true) => {}
        }
        Err(self.error(&alternatives(&wanted)))
    }

    /// The members of `level`, up to and with the closing bracket.
    fn items(&mut self, level: Level) -> Result<Vec<(u64, Shape)>, TopologyError> {
        let mut items = Vec::new();
        loop {
            let starred = self.tokens.get(self.next + 1).map(|(_, token)| *token) == Some(Token::Sign('*'));
            let repeat = if starred { self.count("")? } else { 1 };
            if starred {
                self.expect('*')?;
            }
            items.push((repeat, self.shape(Some(level))?));
            if self.take(']') {
                return Ok(items);
            }
            if !self.take(',') {
                return Err(self.error("`,` or `]`"));
            }
        }
    }

    fn count(&mut self, or: &str) -> Result<u64, TopologyError> {
        let max = Topology::PU_COUNT_MAX as u64;
        if let Some(Token::Word(word)) = self.peek()
            && let Some(count) = number(word).filter(|n| (1..=max).contains(n))
        {
            self.next += 1;
            return Ok(count);
        }
        Err(self.error(&format!("a count from 1 to {max}{or}")))
    }

    /// The name of the next attribute with its colon; nothing at the end.
    fn attribute_name(&mut self, seen: &[(Attribute, Vec<u64>)]) -> Result<Option<Attribute>, TopologyError> {
        let Some(token) = self.peek() else {
            return Ok(None);
        };
        let allowed = || Attribute::ALL.into_iter().filter(|a| seen.iter().all(|(s, _)| s != a));
        if let Some(attribute) = allowed().find(|a| token == Token::Word(a.name())) {
            self.next += 1;
            self.expect(':')?;
            return Ok(Some(attribute));
        }
        let mut wanted: Vec<&str> = allowed().map(Attribute::name).collect();
        wanted.push("the end");
        Err(self.error(&alternatives(&wanted)))
    }

    fn values(&mut self) -> Result<Vec<u64>, TopologyError> {
        let mut values = Vec::new();
        loop {
            let range = match self.peek() {
                Some(Token::Word(word)) => {
                    let (start, end) = word.split_once('-').unwrap_or((word, word));
                    number(start).zip(number(end)).filter(|(start, end)| start <= end)
                }
                _ => None,
            };
            let Some((start, end)) = range else {
                return Err(self.error("a number or an ascending range such as 0-3"));
            };
            let room = VALUES_MAX - values.len();
            if end - start >= room as u64 {
                return Err(self.error(&format!("at most {VALUES_MAX} values")));
            }
            self.next += 1;
            values.extend(start..=end);
            if !self.take(',') {
                return Ok(values);
            }
        }
    }

    /// The next token is not what was wanted.
    fn error(&self, wanted: &str) -> TopologyError {
        TopologyError::syntax(match self.tokens.get(self.next) {
            Some((column, Token::Word(word))) => {
                format!("`{word}` at character {column}: expected {wanted}")
            }
            Some((column, Token::Sign(sign))) => {
                format!("`{sign}` at character {column}: expected {wanted}")
            }
            None => format!("end of the machine: expected {wanted}"),
        })
    }
}

fn number(digits: &str) -> Option<u64> {
    digits
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

fn alternatives(wanted: &[&str]) -> String {
    match wanted {
        [init @ .., last] if !init.is_empty() => format!("{} or {last}", init.join(", ")),
        _ => wanted.concat(),
    }
}
