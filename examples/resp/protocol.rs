//! The protocol of Redis, as far as the server needs it: requests in, replies out, bytes to bytes.

/// Longest word that is accepted, and most words of a request.
const WORD_MAX: usize = 64 << 20;
const WORDS_MAX: usize = 1 << 16;

/// A request that isn't one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// The words of a request, and how many bytes it takes.
pub(crate) type Request<'a> = (Vec<&'a [u8]>, usize);

/// The first request in `input`; `None` if it isn't complete.
pub(crate) fn parse(input: &[u8]) -> Result<Option<Request<'_>>, Malformed> {
    let Some((line, mut at)) = take_line(input, 0) else {
        return Ok(None);
    };
    let Some(count) = line.strip_prefix(b"*") else {
        // Typed by hand: words on a line.
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        return Ok(Some((words.collect(), at)));
    };
    let count = number(count, WORDS_MAX)?;
    let mut words = Vec::with_capacity(count.min(16));
    for _ in 0..count {
        let Some((line, start)) = take_line(input, at) else {
            return Ok(None);
        };
        let length = line.strip_prefix(b"$").ok_or(Malformed("expected '$'"))?;
        let end = start + number(length, WORD_MAX)?;
        if input.len() < end + 2 {
            return Ok(None);
        }
        words.push(&input[start..end]);
        at = end + 2;
    }
    Ok(Some((words, at)))
}

/// The line at `at` without its end, and where the next one begins.
fn take_line(input: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = &input[at..];
    let length = rest.iter().position(|byte| *byte == b'\n')?;
    let line = &rest[..length];
    Some((line.strip_suffix(b"\r").unwrap_or(line), at + length + 1))
}

fn number(digits: &[u8], max: usize) -> Result<usize, Malformed> {
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number
        .filter(|number| *number <= max)
        .ok_or(Malformed("expected a length"))
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
