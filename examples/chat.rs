//! A chat server: what one says, all others hear.
//!
//! Watch the room: each member has a channel of its own, and who speaks never waits. A member who doesn't read as fast as the
//! others talk is thrown out, rather than hold them up or fill the memory.
//!
//! With an address as argument it serves there until it is killed: `cargo run --example chat -- 127.0.0.1:7007`, and
//! `nc 127.0.0.1 7007` for as many as like to talk.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{self, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quadrille::net::{TcpListener, TcpStream};
use quadrille::sync::mpmc::{self, Sender};
use quadrille::time::sleep;

/// Lines that a member may be behind.
const BEHIND_MAX: usize = 1000;
const MEMBERS: usize = 8;
const LINES: usize = 20;

/// Who is there, and how each is reached.
#[derive(Default)]
struct Room(Mutex<HashMap<SocketAddr, Sender<Arc<str>>>>);

impl Room {
    /// Says `line` to all but who says it.
    fn say(&self, from: SocketAddr, line: &str) {
        let line: Arc<str> = line.into();
        let mut members = self.0.lock().expect("nobody panics in the room");
        // Dropping its channel throws a member out.
        members.retain(|member, channel| *member == from || channel.try_send(Arc::clone(&line)).is_ok());
    }

    fn enter(&self, member: SocketAddr, channel: Sender<Arc<str>>) {
        self.0
            .lock()
            .expect("nobody panics in the room")
            .insert(member, channel);
    }

    fn leave(&self, member: SocketAddr) {
        self.0.lock().expect("nobody panics in the room").remove(&member);
    }
}

async fn serve(listener: TcpListener) {
    let room = Arc::new(Room::default());
    loop {
        match listener.accept().await {
            Ok((connection, member)) => {
                let room = Arc::clone(&room);
                quadrille::spawn(async move {
                    // It ends when the member is gone, for whatever reason.
                    let _ = attend(&room, connection, member).await;
                    room.leave(member);
                });
            }
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn attend(room: &Room, connection: TcpStream, member: SocketAddr) -> io::Result<()> {
    let (reader, writer) = connection.into_split();
    let (channel, lines) = mpmc::bounded::<Arc<str>>(BEHIND_MAX);
    room.enter(member, channel);
    quadrille::spawn(async move {
        while let Ok(line) = lines.recv().await {
            writer.write_all(line.as_bytes()).await?;
        }
        io::Result::Ok(())
    });
    // It is in the room.
    room.say(member, &format!("{member} is here\n"));
    let mut text = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        match reader.read(&mut buffer).await? {
            0 => return Ok(()),
            count => text.extend_from_slice(&buffer[..count]),
        }
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            room.say(member, &format!("{member}: {}", String::from_utf8_lossy(&line)));
        }
    }
}

/// Waits until all have come, talks, and hears everybody out. How many lines it has heard.
fn member(mut connection: net::TcpStream, others: usize) -> io::Result<usize> {
    for line in 0..LINES {
        connection.write_all(format!("line {line}\n").as_bytes())?;
    }
    let mut heard = 0;
    for line in BufReader::new(connection).lines() {
        heard += usize::from(line?.contains("line"));
        if heard == others * LINES {
            break;
        }
    }
    Ok(heard)
}

#[quadrille::main]
async fn main() -> io::Result<()> {
    let argument = std::env::args().nth(1);
    let listener = TcpListener::bind(argument.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let address = listener.local_addr()?;
    if argument.is_some() {
        println!("serves at {address}");
        serve(listener).await;
        return Ok(());
    }
    quadrille::spawn(serve(listener));
    let heard = quadrille::spawn_blocking(move || all_members(address)).await;
    println!("{MEMBERS} members heard {} lines", heard.expect("no member panics")?);
    Ok(())
}

/// One enters after the other; when the last is there, all talk.
fn all_members(address: SocketAddr) -> io::Result<usize> {
    let mut connections = Vec::<net::TcpStream>::new();
    for _ in 0..MEMBERS {
        let newcomer = net::TcpStream::connect(address)?;
        for there in &connections {
            // Whoever has come before is told.
            BufReader::with_capacity(1, there).read_line(&mut String::new())?;
        }
        connections.push(newcomer);
    }
    std::thread::scope(|scope| {
        let members: Vec<_> = connections
            .into_iter()
            .map(|connection| scope.spawn(move || member(connection, MEMBERS - 1)))
            .collect();
        members
            .into_iter()
            .map(|member| member.join().expect("no member panics"))
            .sum()
    })
}
