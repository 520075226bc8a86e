//! An echo server with a thread for each connection, over TCP; its clients are threads of the standard library.
//!
//! Watch that each thread is the textbook's: it reads and writes until the other side has had enough. What waits is
//! suspended, so a connection costs a stack and no thread of the operating system. When the runtime ends, the threads
//! are unwound out of their waits.
//!
//! With an address as argument it serves there until it is killed: `cargo run --example echo_server -- 127.0.0.1:7007`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its result, and why nobody is let in"
)]

use std::io::{self, Read, Write};
use std::net::{self, SocketAddr};

use quadrille::net::{Server, TcpListener, TcpStream};
use quadrille::{Runtime, Wait};

const CLIENTS: usize = 4;
const CONNECTIONS: usize = 25;
const LINES: usize = 20;

/// Serves until the runtime ends.
async fn serve(listener: TcpListener) -> io::Result<()> {
    listener.set_nodelay(true)?;
    let server = Server::new(listener).on_accept_error(|error| eprintln!("cannot accept a connection: {error}"));
    server.serve_threads(|connection, _| echo(&connection)).await?;
    Ok(())
}

fn echo(connection: &TcpStream) -> io::Result<()> {
    let mut buffer = [0; 1024];
    loop {
        let count = connection.read(&mut buffer).wait()?;
        if count == 0 {
            return Ok(());
        }
        connection.write_all(&buffer[..count]).wait()?;
    }
}

/// Talks over all its connections in turn, so that all are open at once. How many bytes have come back.
fn client(number: usize, address: SocketAddr) -> io::Result<usize> {
    let connections: io::Result<Vec<_>> = (0..CONNECTIONS).map(|_| net::TcpStream::connect(address)).collect();
    let mut connections = connections?;
    let mut bytes = 0;
    for line in 0..LINES {
        for (index, connection) in connections.iter_mut().enumerate() {
            let text = format!("client {number}, connection {index}, line {line}\n");
            connection.write_all(text.as_bytes())?;
            let mut answer = vec![0; text.len()];
            connection.read_exact(&mut answer)?;
            assert_eq!(answer, text.as_bytes());
            bytes += answer.len();
        }
    }
    Ok(bytes)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = std::env::args().nth(1);
    let runtime = Runtime::new()?;
    let listener = runtime.block_on(TcpListener::bind(argument.as_deref().unwrap_or("127.0.0.1:0")))?;
    let address = listener.local_addr()?;
    let server = runtime.spawn(serve(listener));
    println!("listening on {address}");
    if argument.is_some() {
        return Ok(server.wait()??);
    }

    let bytes: io::Result<usize> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || client(number, address)))
            .collect();
        let results = clients
            .into_iter()
            .map(|client| client.join().expect("no client panics"));
        results.sum()
    });
    let bytes = bytes?;
    assert!(!server.is_finished(), "it waits for further connections");
    drop(runtime);
    assert!(server.is_finished(), "the runtime has ended it");
    println!("{} connections, {bytes} bytes there and back", CLIENTS * CONNECTIONS);
    Ok(())
}
