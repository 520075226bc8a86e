//! The protocol of Redis, as far as the server needs it: requests in, replies out, bytes to bytes.
//!
//! A request is an array of words, or a line of them, as typed by hand. Quotes in such a line are not read: they are
//! part of the words.

/// A client that announces more bytes for a request is refused before they come: they are kept until it is complete.
/// There is room for a value of 64 MiB.
const REQUEST_MAX: usize = (64 << 20) + LINE_MAX;
/// A line that doesn't end within so many bytes never will.
const LINE_MAX: usize = 64 << 10;
/// Most words of a request, which is parsed from its beginning whenever more of it has come.
const WORDS_MAX: i64 = 1024;

/// A request that isn't one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// The words of a request, and how many bytes it takes.
pub(crate) type Request<'a> = (Vec<&'a [u8]>, usize);

/// The first request in `input`; `None` if it isn't complete.
pub(crate) fn parse(input: &[u8]) -> Result<Option<Request<'_>>, Malformed> {
    let Some((line, mut at)) = take_line(input, 0)? else {
        return Ok(None);
    };
    let Some(count) = line.strip_prefix(b"*") else {
        // Typed by hand: words on a line.
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        return Ok(Some((words.collect(), at)));
    };
    let count = decimal(count).filter(|count| *count <= WORDS_MAX);
    let mut words = Vec::new();
    // Of less than nothing there are no words, as with Redis.
    for _ in 0..count.ok_or(Malformed("invalid multibulk length"))? {
        let Some((line, start)) = take_line(input, at)? else {
            return Ok(None);
        };
        let length = line.strip_prefix(b"$").ok_or(Malformed("expected '$'"))?;
        let end = word_end(start, length).ok_or(Malformed("invalid bulk length"))?;
        if input.len() < end + 2 {
            return Ok(None);
        }
        words.push(&input[start..end]);
        at = end + 2;
    }
    Ok(Some((words, at)))
}

/// The line at `at` without its end, and where the next one begins; `None` if its end isn't there.
fn take_line(input: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, Malformed> {
    let rest = &input[at..];
    let rest = &rest[..rest.len().min(LINE_MAX)];
    let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
        let may_end = rest.len() < LINE_MAX;
        return may_end.then_some(None).ok_or(Malformed("too big inline request"));
    };
    let line = &rest[..length];
    Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), at + length + 1)))
}

/// Where a word of this length ends; `None` if that is none, or the request would be too long.
fn word_end(start: usize, length: &[u8]) -> Option<usize> {
    let length = usize::try_from(decimal(length)?).ok()?;
    start.checked_add(length).filter(|end| *end <= REQUEST_MAX)
}

/// A number as it would be written: `+1` and `01` are none.
pub(crate) fn decimal(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_written_so = text == b"0" || matches!(digits.first(), Some(b'1'..=b'9'));
    str::from_utf8(text).ok()?.parse().ok().filter(|_| is_written_so)
}

/// `+text`
pub(crate) fn simple(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(format!("+{text}\r\n").as_bytes());
}

/// `-ERR text`
pub(crate) fn error(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(format!("-ERR {text}\r\n").as_bytes());
}

/// `:number`
pub(crate) fn integer(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(format!(":{number}\r\n").as_bytes());
}

/// `$length`, and the bytes; `None` is nil.
pub(crate) fn bulk(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => out.extend_from_slice(b"$-1\r\n"),
        Some(bytes) => {
            out.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
            out.extend_from_slice(bytes);
            out.extend_from_slice(b"\r\n");
        }
    }
}
