//! A server that speaks the protocol of Redis: PING, GET, SET, INCR.
//!
//! Watch that all requests that have arrived together are answered by one write: a client that sends many at once (a
//! pipeline) costs two system calls for all of them. But the replies are not gathered without end: a short request may
//! have a reply of megabytes.
//!
//! With an address as argument it serves there until it is killed, so that real clients can load it:
//! `cargo run --release --example resp_server -- 127.0.0.1:7007` and
//! `redis-benchmark -p 7007 -t ping,set,get,incr -P 16 -q`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its result, and why nobody is let in"
)]

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{self, Read, Write};
use std::net::{self, Shutdown, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};

use quadrille::net::{Server, TcpListener, TcpStream};
use quadrille::time::{Duration, timeout};

#[path = "resp/protocol.rs"]
mod protocol;

/// There is room for so many bytes at each read.
const READ_MIN: usize = 16 << 10;
/// Replies of more bytes are written before the next request is answered, and room for more is given back.
const KEPT_MAX: usize = 64 << 10;
/// For how long, and how many bytes, a client that has been refused is listened to.
const PATIENCE: Duration = Duration::from_secs(1);
const IGNORED_MAX: usize = 16 << 20;

type Part = HashMap<Vec<u8>, Vec<u8>>;

/// Keys and values, in parts that have a lock each, which nobody holds while it waits.
#[derive(Default)]
struct Store {
    parts: [Mutex<Part>; 16],
    hasher: RandomState,
}

impl Store {
    fn part(&self, key: &[u8]) -> MutexGuard<'_, Part> {
        let index = self.hasher.hash_one(key) % 16;
        let index = usize::try_from(index).expect("it is below 16");
        self.parts[index].lock().expect("nobody panics under the lock")
    }

    /// Adds one to the number that is the value of `key`; `None` if it is none.
    fn increment(&self, key: &[u8]) -> Option<i64> {
        let mut part = self.part(key);
        let number = match part.get(key) {
            None => 0,
            Some(value) => protocol::decimal(value)?,
        };
        let number = number.checked_add(1)?;
        part.insert(key.to_vec(), number.to_string().into_bytes());
        Some(number)
    }
}

/// Serves until it is dropped.
async fn serve(listener: TcpListener) -> io::Result<()> {
    listener.set_nodelay(true)?;
    let store = Arc::new(Store::default());
    let server = Server::new(listener).on_accept_error(|error| eprintln!("cannot accept a connection: {error}"));
    server
        .serve(move |connection, _| attend(connection, Arc::clone(&store)))
        .await?;
    Ok(())
}

async fn attend(connection: TcpStream, store: Arc<Store>) -> io::Result<()> {
    let (mut input, mut output) = (Vec::new(), Vec::new());
    loop {
        input.reserve(READ_MIN);
        if connection.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
        let mut done = 0;
        let malformed = loop {
            match protocol::parse(&input[done..]) {
                Ok(Some((words, length))) => {
                    answer(&words, &store, &mut output);
                    done += length;
                }
                Ok(None) => break None,
                Err(malformed) => break Some(malformed),
            }
            if output.len() > KEPT_MAX {
                connection.write_all(&output).await?;
                output.clear();
            }
        };
        if done > 0 {
            input.drain(..done);
            input.shrink_to(KEPT_MAX);
        }
        if let Some(malformed) = &malformed {
            protocol::error(&mut output, malformed.0);
        }
        connection.write_all(&output).await?;
        output.clear();
        output.shrink_to(KEPT_MAX);
        if malformed.is_some() {
            return hang_up(&connection).await;
        }
    }
}

/// Ends a connection so that the last reply arrives. The system discards what is on its way if a socket is closed
/// while there is something to read.
async fn hang_up(connection: &TcpStream) -> io::Result<()> {
    connection.shutdown(Shutdown::Write)?;
    let ignore = async {
        let (mut ignored, mut buffer) = (0, vec![0; READ_MIN]);
        while ignored < IGNORED_MAX {
            match connection.read(&mut buffer).await? {
                0 => break,
                length => ignored += length,
            }
        }
        Ok(())
    };
    timeout(PATIENCE, ignore).await?
}

fn answer(words: &[&[u8]], store: &Store, out: &mut Vec<u8>) {
    let Some((command, arguments)) = words.split_first() else {
        return;
    };
    match (command.to_ascii_uppercase().as_slice(), arguments) {
        (b"PING", []) => protocol::simple(out, "PONG"),
        (b"PING", [text]) => protocol::bulk(out, Some(text)),
        (b"GET", [key]) => protocol::bulk(out, store.part(key).get(*key).map(Vec::as_slice)),
        (b"SET", [key, value]) => {
            store.part(key).insert(key.to_vec(), value.to_vec());
            protocol::simple(out, "OK");
        }
        (b"INCR", [key]) => match store.increment(key) {
            Some(number) => protocol::integer(out, number),
            None => protocol::error(out, "value is not an integer or out of range"),
        },
        _ => protocol::error(out, "unknown command, or not this number of arguments"),
    }
}

/// Sends `requests` at once, and expects `replies`.
fn converse(connection: &mut net::TcpStream, requests: &[u8], replies: &[u8]) -> io::Result<()> {
    connection.write_all(requests)?;
    let mut received = vec![0; replies.len()];
    connection.read_exact(&mut received)?;
    assert_eq!(String::from_utf8_lossy(&received), String::from_utf8_lossy(replies));
    Ok(())
}

fn client(address: SocketAddr, number: usize) -> io::Result<()> {
    let mut connection = net::TcpStream::connect(address)?;
    converse(&mut connection, b"PING\r\nping hello\r\n", b"+PONG\r\n$5\r\nhello\r\n")?;
    let set = format!("*3\r\n$3\r\nSET\r\n$2\r\nk{number}\r\n$3\r\na\r\n\r\n");
    let get = format!("*2\r\n$3\r\nGET\r\n$2\r\nk{number}\r\n");
    converse(
        &mut connection,
        (get.clone() + &set + &get).as_bytes(),
        b"$-1\r\n+OK\r\n$3\r\na\r\n\r\n",
    )?;
    let incr = format!("*2\r\n$4\r\nINCR\r\n$2\r\nn{number}\r\n");
    let replies: String = (1..=1000).map(|reply| format!(":{reply}\r\n")).collect();
    converse(&mut connection, incr.repeat(1000).as_bytes(), replies.as_bytes())?;
    let wrong = format!("INCR k{number}\r\nNONSENSE\r\n*1\r\n:\r\n");
    connection.write_all(wrong.as_bytes())?;
    let mut text = String::new();
    connection.read_to_string(&mut text)?;
    assert_eq!(text.matches("-ERR").count(), 3, "{text}");
    Ok(())
}

#[quadrille::main]
async fn main() -> io::Result<()> {
    let argument = std::env::args().nth(1);
    let listener = TcpListener::bind(argument.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let address = listener.local_addr()?;
    println!("listening on {address}");
    if argument.is_some() {
        return serve(listener).await;
    }
    quadrille::spawn(serve(listener));
    let clients: Vec<_> = (0..8)
        .map(|number| quadrille::spawn_blocking(move || client(address, number)))
        .collect();
    for client in clients {
        client.await.expect("no client panics")?;
    }
    println!("8 clients, 1005 requests each");
    Ok(())
}
