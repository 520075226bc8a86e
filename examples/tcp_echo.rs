//! An echo server with a task for each connection; its clients are threads of the standard library.
//!
//! Watch the two halves: one task for each direction, with a channel between them, so that a client which sends without
//! reading fills the channel and then its own connection, and nothing else. `echo_server` is the same with threads.
//!
//! With an address as argument it serves there until it is killed: `cargo run --example tcp_echo -- 127.0.0.1:7007`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its result, and why nobody is let in"
)]

use std::io::{self, Read, Write};
use std::net::{self, Shutdown, SocketAddr};

use quadrille::net::{Server, TcpListener, TcpStream};
use quadrille::sync::mpmc;

const CLIENTS: u32 = 20;
const BYTES: usize = 300_000;

/// Serves until it is dropped.
async fn serve(listener: TcpListener) -> io::Result<()> {
    let server = Server::new(listener).on_accept_error(|error| eprintln!("cannot accept a connection: {error}"));
    server.serve(|connection, _| echo(connection)).await?;
    Ok(())
}

async fn echo(connection: TcpStream) -> io::Result<()> {
    let (reader, writer) = connection.into_split();
    let (sender, chunks) = mpmc::bounded::<Vec<u8>>(4);
    quadrille::spawn(async move {
        while let Ok(chunk) = chunks.recv().await {
            writer.write_all(&chunk).await?;
        }
        // Dropping the writer tells the client that this was all.
        io::Result::Ok(())
    });
    let mut buffer = [0; 4096];
    loop {
        match reader.read(&mut buffer).await? {
            0 => return Ok(()),
            count if sender.send(buffer[..count].to_vec()).await.is_err() => return Ok(()),
            _ => {}
        }
    }
}

/// Sends everything before it reads everything, each in a thread of its own.
fn client(number: u32, address: SocketAddr) -> io::Result<usize> {
    let mut connection = net::TcpStream::connect(address)?;
    let sent: Vec<u8> = (number..).flat_map(u32::to_le_bytes).take(BYTES).collect();
    let mut received = Vec::new();
    std::thread::scope(|scope| {
        let mut writer = connection.try_clone()?;
        let sent = &sent;
        let write = scope.spawn(move || {
            writer.write_all(sent)?;
            writer.shutdown(Shutdown::Write)
        });
        connection.read_to_end(&mut received)?;
        write.join().expect("the writer doesn't panic")
    })?;
    assert!(received == sent);
    Ok(received.len())
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
    let server = quadrille::spawn(serve(listener));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| quadrille::spawn_blocking(move || client(number, address)))
        .collect();
    let mut bytes = 0;
    for client in clients {
        bytes += client.await.expect("no client panics")?;
    }
    server.abort();
    println!("{CLIENTS} connections, {bytes} bytes there and back");
    Ok(())
}
