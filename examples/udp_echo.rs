//! An echo server over UDP.
//!
//! Watch that several tasks receive from one socket: each datagram goes to one of them, and a slow one holds up nobody.
//! The client doesn't trust the network: it asks again when no answer comes in time.
//!
//! With an address as argument it serves there until it is killed: `cargo run --example udp_echo -- 127.0.0.1:7007`.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quadrille::JoinSet;
use quadrille::net::UdpSocket;
use quadrille::time::{sleep, timeout};

const RECEIVERS: usize = 4;
const CLIENTS: u32 = 10;
const QUESTIONS: u32 = 50;

async fn serve(socket: Arc<UdpSocket>) {
    let mut buffer = [0; 65536];
    loop {
        match socket.recv_from(&mut buffer).await {
            // Somebody who can't be answered is no reason to end.
            Ok((length, from)) => drop(socket.send_to(&buffer[..length], from).await),
            // Mostly that the system has no memory at the moment.
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
}

/// How often it had to ask.
async fn client(number: u32, server: SocketAddr) -> io::Result<u32> {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).await?;
    socket.connect(server).await?;
    let mut asked = 0;
    for question in 0..QUESTIONS {
        let text = format!("client {number}, question {question}");
        loop {
            socket.send(text.as_bytes()).await?;
            asked += 1;
            let mut buffer = [0; 1500];
            // An answer to an earlier question, which came late, is passed over with the next question.
            let answer = timeout(Duration::from_millis(200), socket.recv(&mut buffer)).await;
            if let Ok(length) = answer
                && buffer[..length?] == *text.as_bytes()
            {
                break;
            }
        }
    }
    Ok(asked)
}

#[quadrille::main]
async fn main() -> io::Result<()> {
    let argument = std::env::args().nth(1);
    let socket = Arc::new(UdpSocket::bind(argument.as_deref().unwrap_or("127.0.0.1:0")).await?);
    let address = socket.local_addr()?;
    let mut servers = JoinSet::new();
    for _ in 0..RECEIVERS {
        servers.spawn(serve(Arc::clone(&socket)));
    }
    println!("listening on {address}");
    if argument.is_some() {
        servers.join_all().await;
        return Ok(());
    }
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(client(number, address));
    }
    let asked: io::Result<u32> = clients.join_all().await.into_iter().sum();
    println!("{} answers to {} questions", CLIENTS * QUESTIONS, asked?);
    Ok(())
}
