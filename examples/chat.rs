//! A chat server: what one says, all others hear.
//!
//! Watch the room: it is one `broadcast` channel, and who speaks never waits. It keeps the last lines for those who are
//! late. A member who doesn't read as fast as the others talk misses the oldest (`Lagged`) and is told how many, rather
//! than hold anybody up or fill the memory.
//!
//! With an address as argument it serves there until it is killed: `cargo run --example chat -- 127.0.0.1:7007`, and
//! `nc 127.0.0.1 7007` for as many as like to talk.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its result, and why nobody is let in"
)]

use std::io::{self, BufRead, BufReader, Write};
use std::net::{self, SocketAddr};
use std::sync::Arc;

use quadrille::net::{Server, TcpListener, TcpSocket, TcpStream};
use quadrille::sync::broadcast::{self, RecvError};

/// Lines that a member may be behind.
const BEHIND_MAX: usize = 256;
/// Bytes that are kept of a line that has not ended. Whoever sends more is let go.
const LINE_MAX: usize = 4096;
/// Bytes that the system keeps for a member. What is beyond stays in the room, where it is counted.
const SEND_BUFFER: u32 = 64 << 10;

const MEMBERS: usize = 8;
const LINES: usize = 20;
/// Lines of a kilobyte: together more than a connection holds that nobody reads from.
const FLOOD: usize = 16 << 10;

/// What is said in the room.
#[derive(Clone)]
struct Line {
    from: SocketAddr,
    text: Arc<str>,
}

type Room = broadcast::Sender<Line>;

/// Says it to all who are there. That nobody is, is no failure.
fn say(room: &Room, from: SocketAddr, text: String) {
    let text = text.into();
    let _ = room.send(Line { from, text });
}

fn listen(address: &str) -> io::Result<TcpListener> {
    let address: SocketAddr = address.parse().map_err(|_| {
        io::Error::other(format!(
            "{address:?}: expected an address and a port, such as 127.0.0.1:7007"
        ))
    })?;
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    // Connections inherit it.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(1024)
}

/// Serves until it is dropped.
async fn serve(listener: TcpListener) -> io::Result<()> {
    listener.set_nodelay(true)?;
    let room = Room::new(BEHIND_MAX);
    let server = Server::new(listener).on_accept_error(|error| eprintln!("cannot accept a connection: {error}"));
    let enters = |connection, member| {
        // Before the next one is let in: everybody hears of those who come later, and of nobody else. And before
        // anybody is told of this one: what they say then it is to hear.
        let lines = room.subscribe();
        say(&room, member, format!("{member} is here\n"));
        attend(room.clone(), lines, connection, member)
    };
    server.serve(enters).await?;
    Ok(())
}

/// A member's time in the room: it ends when the connection does, in either direction and for whatever reason.
async fn attend(room: Room, lines: broadcast::Receiver<Line>, connection: TcpStream, member: SocketAddr) {
    let _ = quadrille::select! {
        outcome = hear(&connection, member, &room) => outcome,
        outcome = tell(&connection, member, lines) => outcome,
    };
}

/// From the member to the room.
async fn hear(connection: &TcpStream, member: SocketAddr, room: &Room) -> io::Result<()> {
    let mut text = Vec::new();
    let mut buffer = [0; LINE_MAX];
    while text.len() <= LINE_MAX {
        match connection.read(&mut buffer).await? {
            0 => break,
            count => text.extend_from_slice(&buffer[..count]),
        }
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            say(room, member, format!("{member}: {}", String::from_utf8_lossy(&line)));
        }
    }
    Ok(())
}

/// From the room to the member, but for what it says itself.
async fn tell(connection: &TcpStream, member: SocketAddr, mut lines: broadcast::Receiver<Line>) -> io::Result<()> {
    loop {
        match lines.recv().await {
            Ok(line) if line.from == member => {}
            Ok(line) => connection.write_all(line.text.as_bytes()).await?,
            // Its own may be among them.
            Err(RecvError::Lagged(missed)) => {
                let text = format!("(you are too slow: {missed} lines missed)\n");
                connection.write_all(text.as_bytes()).await?;
            }
            Err(RecvError::Closed) => return Ok(()),
        }
    }
}

/// Enters one after the other: who has come before is told of who comes.
fn enter(address: SocketAddr, count: usize) -> io::Result<Vec<BufReader<net::TcpStream>>> {
    let mut connections = Vec::new();
    for _ in 0..count {
        let newcomer = net::TcpStream::connect(address)?;
        for there in &mut connections {
            BufReader::read_line(there, &mut String::new())?;
        }
        connections.push(BufReader::new(newcomer));
    }
    Ok(connections)
}

/// When the last is there, all talk, and hear everybody out. How many lines they have heard.
fn all_talk(address: SocketAddr) -> io::Result<usize> {
    let member = |mut connection: BufReader<net::TcpStream>| {
        for line in 0..LINES {
            connection.get_mut().write_all(format!("line {line}\n").as_bytes())?;
        }
        let mut heard = 0;
        while heard < (MEMBERS - 1) * LINES && connection.read_line(&mut String::new())? > 0 {
            heard += 1;
        }
        io::Result::Ok(heard)
    };
    let members = enter(address, MEMBERS)?;
    std::thread::scope(|scope| {
        let members: Vec<_> = members
            .into_iter()
            .map(|connection| scope.spawn(|| member(connection)))
            .collect();
        members
            .into_iter()
            .map(|member| member.join().expect("no member panics"))
            .sum()
    })
}

/// Reads until somebody says "over". How many lines it has heard since then, and how many it is told that it missed.
fn hear_out(connection: &mut BufReader<net::TcpStream>) -> io::Result<(usize, usize)> {
    let (mut heard, mut missed) = (0, 0);
    for line in connection.lines() {
        let line = line?;
        match line
            .strip_prefix("(you are too slow: ")
            .and_then(|rest| rest.split_once(' '))
        {
            Some((count, _)) => missed += count.parse::<usize>().map_err(io::Error::other)?,
            None => heard += 1,
        }
        if line.ends_with(": over") {
            break;
        }
    }
    Ok((heard, missed))
}

/// One member talks and talks, another one begins to read when all is said. What that one hears and misses.
fn one_is_slow(address: SocketAddr) -> io::Result<(usize, usize)> {
    let mut members = enter(address, 3)?;
    let [slow, quick, talker] = members.as_mut_slice() else {
        unreachable!("three have entered");
    };
    let line = format!("{}\n", "blah".repeat(250));
    std::thread::scope(|scope| {
        let listening = scope.spawn(|| hear_out(quick));
        for _ in 0..FLOOD {
            talker.get_mut().write_all(line.as_bytes())?;
        }
        talker.get_mut().write_all(b"over\n")?;
        listening.join().expect("it doesn't panic")
    })?;
    hear_out(slow)
}

#[quadrille::main]
async fn main() -> io::Result<()> {
    let argument = std::env::args().nth(1);
    let listener = listen(argument.as_deref().unwrap_or("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    println!("listening on {address}");
    if argument.is_some() {
        return serve(listener).await;
    }
    quadrille::spawn(serve(listener));
    let heard = quadrille::spawn_blocking(move || all_talk(address)).await;
    println!("{MEMBERS} members heard {} lines", heard.expect("no member panics")?);
    let slow = quadrille::spawn_blocking(move || one_is_slow(address)).await;
    let (heard, missed) = slow.expect("no member panics")?;
    assert_eq!(heard + missed, FLOOD + 1, "each line was heard or counted");
    assert!(missed > 0, "the room doesn't wait for anybody");
    println!("one of three who was slow heard {heard} lines and was told of {missed} that it missed");
    Ok(())
}
