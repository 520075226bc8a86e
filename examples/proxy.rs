//! A proxy over TCP: what one side says, the other hears, until both have ended.
//!
//! Watch the ends: `copy_bidirectional` passes on the end of one direction (it closes the writer, which ends the
//! writing alone) while the other goes on. So a client that says "that was all" and then waits for an answer gets it.
//!
//! With two addresses as arguments it stands at the first for the second until it is killed:
//! `cargo run --example proxy -- 127.0.0.1:8080 127.0.0.1:80`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its result, and why nobody is let in"
)]

use std::io::{self, Read, Write};
use std::net::{self, Shutdown, SocketAddr};

use quadrille::io::{copy, copy_bidirectional};
use quadrille::net::{Server, TcpListener, TcpStream};

const CLIENTS: usize = 8;
const BYTES: usize = 300_000;

/// Both directions, until both have ended, or one has failed: then the connections are cut off.
async fn converse(mut client: TcpStream, target: SocketAddr) -> io::Result<(u64, u64)> {
    let mut server = TcpStream::connect(target).await?;
    server.set_nodelay(true)?;
    copy_bidirectional(&mut client, &mut server).await
}

/// Serves until it is dropped.
async fn serve(listener: TcpListener, target: SocketAddr) -> io::Result<()> {
    listener.set_nodelay(true)?;
    let server = Server::new(listener).on_accept_error(|error| eprintln!("cannot accept a connection: {error}"));
    // How it ended is the business of the two that have talked.
    server.serve(|client, _| converse(client, target)).await?;
    Ok(())
}

/// What the proxy stands for: answers when it has heard everything, with how many bytes that was, and with all of them.
async fn count(connection: TcpStream) -> io::Result<()> {
    let mut heard = Vec::new();
    copy(&connection, &mut heard).await?;
    connection.write_all(&(heard.len() as u64).to_le_bytes()).await?;
    connection.write_all(&heard).await
}

/// Asks, ends its writing, and reads the answer.
fn ask(address: SocketAddr, number: u8) -> io::Result<()> {
    let mut connection = net::TcpStream::connect(address)?;
    let sent = vec![number; BYTES];
    connection.write_all(&sent)?;
    connection.shutdown(Shutdown::Write)?;
    let mut length = [0; 8];
    connection.read_exact(&mut length)?;
    assert_eq!(u64::from_le_bytes(length), BYTES as u64);
    let mut heard = Vec::new();
    connection.read_to_end(&mut heard)?;
    assert!(heard == sent, "{} bytes came back, or others", heard.len());
    Ok(())
}

fn address(text: &str) -> io::Result<SocketAddr> {
    let wrong = |_| {
        io::Error::other(format!(
            "{text:?}: expected an address and a port, such as 127.0.0.1:80"
        ))
    };
    text.parse().map_err(wrong)
}

#[quadrille::main]
async fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let listener = TcpListener::bind(arguments.next().as_deref().unwrap_or("127.0.0.1:0")).await?;
    let proxy = listener.local_addr()?;
    println!("listening on {proxy}");
    if let Some(target) = arguments.next() {
        return serve(listener, address(&target)?).await;
    }
    let counter = TcpListener::bind("127.0.0.1:0").await?;
    quadrille::spawn(serve(listener, counter.local_addr()?));
    quadrille::spawn(Server::new(counter).serve(|connection, _| count(connection)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| quadrille::spawn_blocking(move || ask(proxy, number.to_le_bytes()[0])))
        .collect();
    for client in clients {
        client.await.expect("no client panics")?;
    }
    println!("{CLIENTS} connections, {BYTES} bytes there and back over each");
    Ok(())
}
