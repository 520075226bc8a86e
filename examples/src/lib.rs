//! What the servers among the examples share. The examples are the files beside the manifest:
//! `cargo run --example hello`.

use std::net::SocketAddr;

use quadrille::net::{TcpListener, TcpStream};
use quadrille::time::{Duration, sleep};

/// Until the next attempt to accept, after one that has failed.
const PAUSE: Duration = Duration::from_millis(10);

/// Waits for the next connection, and tells who made it. What is written to it leaves at once (`TCP_NODELAY`).
///
/// A failed `accept` is no reason to end a server: mostly no descriptor is left, and connections that end give some
/// back. So it waits 10 ms and tries again. If that fails, too, it says why on standard error, once, and goes on like
/// this.
///
/// ```
/// use quadrille::net::{TcpListener, TcpStream};
///
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let client = TcpStream::connect(listener.local_addr()?).await?;
/// let (server, from) = quadrille_examples::accept(&listener).await;
/// assert_eq!(from, client.local_addr()?);
/// assert!(server.nodelay()?);
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
///
/// # Panics
///
/// If it has something to say and standard error is closed.
///
/// # Cancel safety
///
/// Strict: no connection is taken by a call that is dropped.
#[expect(clippy::print_stderr, reason = "a server says why nobody is let in")]
pub async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    let mut failures: u64 = 0;
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                // Where that fails the client is gone already, as the first read will say.
                let _ = stream.set_nodelay(true);
                return (stream, from);
            }
            Err(error) => {
                failures += 1;
                if failures == 2 {
                    eprintln!("cannot accept a connection: {error}");
                }
                sleep(PAUSE).await;
            }
        }
    }
}
