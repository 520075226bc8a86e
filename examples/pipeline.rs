//! A parallel pipeline of tasks and threads: each stage is written in the style that suits it.
//!
//! ```text
//!   source (task) ──► jobs ──► parsers (threads) ──► answers ──► sink (task)
//! ```
//!
//! A parser is recursive and pulls its characters from a channel, wherever in its recursion it is: it waits there. As a
//! thread it is the plain program; as a future, each of its functions would have to become one. Source and sink only
//! wait for channels, so they are tasks. All of them run on the same workers, through the same channels.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::iter::Peekable;

use quadrille::sync::mpmc::{self, Receiver, Sender};
use quadrille::{Wait, thread};

const PARSERS: usize = 4;
const EXPRESSIONS: usize = 1000;

/// The text of an expression, which arrives in pieces.
type Text = Receiver<String>;

fn parse(text: &Text) -> i64 {
    // The iterator suspends the thread until there is another piece.
    let pieces = std::iter::from_fn(|| text.recv().wait().ok());
    let mut characters = pieces.flat_map(|piece| piece.chars().collect::<Vec<_>>()).peekable();
    sum(&mut characters)
}

/// sum = atom { ("+" | "-") atom }
fn sum<I: Iterator<Item = char>>(text: &mut Peekable<I>) -> i64 {
    let mut value = atom(text);
    while let Some(sign) = text.next_if(|c| matches!(c, '+' | '-')) {
        let right = atom(text);
        value += if sign == '+' { right } else { -right };
    }
    value
}

/// atom = digit { digit } | "(" sum ")"
fn atom<I: Iterator<Item = char>>(text: &mut Peekable<I>) -> i64 {
    if text.next_if_eq(&'(').is_some() {
        let value = sum(text);
        assert_eq!(text.next(), Some(')'));
        return value;
    }
    let mut value = 0;
    while let Some(digit) = text.peek().and_then(|c| c.to_digit(10)) {
        value = value * 10 + i64::from(digit);
        text.next();
    }
    value
}

/// Sends `7-(n+n)` for each number n, in pieces, each expression through a channel of its own.
async fn source(jobs: Sender<Text>) {
    for number in 0..EXPRESSIONS {
        let (pieces, text) = mpmc::bounded(1);
        jobs.send(text).await.expect("a parser is there");
        for piece in ["7-(", &number.to_string(), "+", &number.to_string(), ")"] {
            pieces.send(piece.to_owned()).await.expect("its parser reads on");
        }
    }
}

async fn sink(answers: Receiver<i64>) -> (usize, i64) {
    let (mut count, mut total) = (0, 0);
    while let Ok(answer) = answers.recv().await {
        count += 1;
        total += answer;
    }
    (count, total)
}

#[quadrille::main]
async fn main() {
    let (job_sender, jobs) = mpmc::bounded(PARSERS);
    let (answer_sender, answers) = mpmc::bounded(PARSERS);
    let source = quadrille::spawn(source(job_sender));
    let parsers: Vec<_> = (0..PARSERS)
        .map(|_| {
            let (jobs, answers) = (jobs.clone(), answer_sender.clone());
            thread::spawn(move || {
                let mut parsed = 0;
                while let Ok(text) = jobs.recv().wait() {
                    answers.send(parse(&text)).wait().expect("the sink takes them all");
                    parsed += 1;
                }
                parsed
            })
        })
        .collect();
    // The sink ends when the last parser has.
    drop((jobs, answer_sender));

    let (count, total) = quadrille::spawn(sink(answers)).await.expect("the sink does not panic");
    source.await.expect("the source does not panic");
    let mut parsed = 0;
    for parser in parsers {
        // A task awaits a thread as it would a task.
        parsed += parser.await.expect("no parser panics");
    }
    let expected: i64 = (0..EXPRESSIONS as i64).map(|number| 7 - 2 * number).sum();
    assert_eq!((count, parsed, total), (EXPRESSIONS, EXPRESSIONS, expected));
    println!("{EXPRESSIONS} expressions through {PARSERS} parsers sum up to {total}");
}
