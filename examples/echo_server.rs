//! An echo server with a thread for each connection, over a Unix socket; its clients are threads of the standard library.
//!
//! The server is the textbook's: accept, spawn, and in each thread read and write until the other side has had enough. What
//! waits is suspended, so a connection costs a stack and no thread of the operating system. When the runtime ends, the thread
//! that accepts is unwound out of its wait.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::io::{self, Read, Write};
use std::os::unix::net;
use std::path::{Path, PathBuf};

use quadrille::io::AsyncFd;
use quadrille::net::UnixStream;
use quadrille::{Wait, thread};

const CLIENTS: usize = 4;
const CONNECTIONS: usize = 25;
const LINES: usize = 20;

/// Serves until the runtime ends.
fn serve(listener: &AsyncFd<net::UnixListener>) -> io::Result<()> {
    loop {
        let (connection, _) = listener.read_with(net::UnixListener::accept).wait()?;
        let connection = UnixStream::from_std(connection)?;
        thread::Builder::new().spawn(move || echo(&connection))?;
    }
}

fn echo(connection: &UnixStream) -> io::Result<()> {
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
fn client(number: usize, path: &Path) -> io::Result<usize> {
    let connections: io::Result<Vec<_>> = (0..CONNECTIONS).map(|_| net::UnixStream::connect(path)).collect();
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

/// A socket's name in the file system, which goes when this does.
struct Name(PathBuf);

impl Drop for Name {
    fn drop(&mut self) {
        // It is a temporary file: to leave one is no reason to fail.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = quadrille::Runtime::new()?;
    let name = Name(std::env::temp_dir().join(format!("quadrille-echo-{}.sock", std::process::id())));
    let listener = {
        let _inside = runtime.enter();
        AsyncFd::new(net::UnixListener::bind(&name.0)?)?
    };
    let server = runtime.spawn_thread(move || serve(&listener));

    let bytes: io::Result<usize> = std::thread::scope(|scope| {
        let path = name.0.as_path();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || client(number, path)))
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
