//! Servers of threads: an accept loop and a thread a connection, as they were written before there were tasks.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::Dialogue;
use crate::adapters::blocking::{ThreadRuntime, spawn_failed};
use crate::outcome::Stop;

/// Until the next attempt to accept, after one that has failed: mostly no descriptor is left, and connections that end
/// give some back.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// Listeners and streams of TCP that suspend, or block, the thread that waits for them.
pub trait ThreadServers: ThreadRuntime {
    /// Accepts connections.
    type Listener: Send + 'static;
    /// A connection.
    type Stream: Send + 'static;

    /// Listens on a free port of this machine's loopback; called inside a thread of the runtime.
    ///
    /// # Errors
    /// [`Stop::Failed`] if the kernel or the runtime refuses; [`Stop::Unsupported`] if it has no such servers.
    fn listen(self) -> Result<(Self::Listener, SocketAddr), Stop>;

    /// Waits for a client. The connection sends at once what it is given (`TCP_NODELAY`).
    ///
    /// # Errors
    /// What the kernel says.
    fn accept(listener: &Self::Listener) -> io::Result<Self::Stream>;

    /// Reads what there is, waiting while there is nothing; 0 at the end.
    ///
    /// # Errors
    /// What the kernel says.
    fn read(stream: &mut Self::Stream, room: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// What the kernel says.
    fn write_all(stream: &mut Self::Stream, bytes: &[u8]) -> io::Result<()>;
}

/// The items of [`ThreadServers`] for a runtime whose listener and stream have the names of std's.
macro_rules! by_names_of_std {
    ($($net:ident)::+) => {
        type Listener = $($net)::+::TcpListener;
        type Stream = $($net)::+::TcpStream;

        fn listen(self) -> Result<(Self::Listener, std::net::SocketAddr), $crate::outcome::Stop> {
            Self::Listener::bind((std::net::Ipv4Addr::LOCALHOST, 0))
                .and_then(|listener| listener.local_addr().map(|address| (listener, address)))
                .map_err(|error| $crate::adapters::servers::refused(&error))
        }

        fn accept(listener: &Self::Listener) -> std::io::Result<Self::Stream> {
            let (stream, _) = listener.accept()?;
            // Where that fails the client is gone already, as the first read will say.
            let _ = stream.set_nodelay(true);
            Ok(stream)
        }

        fn read(stream: &mut Self::Stream, room: &mut [u8]) -> std::io::Result<usize> {
            std::io::Read::read(stream, room)
        }

        fn write_all(stream: &mut Self::Stream, bytes: &[u8]) -> std::io::Result<()> {
            std::io::Write::write_all(stream, bytes)
        }
    };
}

pub(super) use by_names_of_std;

/// Starts a server that talks to every client in a thread of its own, until the process ends. Where it is.
///
/// # Errors
/// [`Stop::Failed`] if it cannot listen, or there is no thread; [`Stop::Unsupported`] if the runtime has no such
/// servers.
pub fn start<R: ThreadServers, D: Dialogue>(runtime: R) -> Result<SocketAddr, Stop> {
    runtime.run(move || {
        let (listener, address) = runtime.listen()?;
        // Its handle is dropped: it goes on by itself.
        runtime
            .spawn(move || accept::<R, D>(runtime, &listener))
            .map_err(|error| spawn_failed(&error))?;
        Ok(address)
    })
}

/// Accepts until there are no more threads.
pub(super) fn accept<R: ThreadServers, D: Dialogue>(runtime: R, listener: &R::Listener) {
    loop {
        let Ok(stream) = R::accept(listener) else {
            R::sleep(PAUSE);
            continue;
        };
        // An error is a connection that the generator has closed.
        if runtime.spawn(move || drop(talk::<R, D>(stream))).is_err() {
            return;
        }
    }
}

/// Talks to a client until it closes the other end. The dialogue is on the heap: stacks are small.
fn talk<R: ThreadServers, D: Dialogue>(mut stream: R::Stream) -> io::Result<()> {
    let mut dialogue = Box::<D>::default();
    loop {
        let length = R::read(&mut stream, dialogue.room())?;
        if length == 0 {
            return Ok(());
        }
        let answer = dialogue.heard(length)?;
        if !answer.is_empty() {
            R::write_all(&mut stream, answer)?;
        }
    }
}
