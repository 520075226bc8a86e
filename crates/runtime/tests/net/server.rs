//! Servers: who is let in, and how they end.

use std::future::pending;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{self, Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use quadrille::net::{Server, TcpListener, TcpStream, UnixListener, UnixStream};
use quadrille::sync::{CancellationToken, Notify, oneshot};
use quadrille::{JoinSet, Runtime, Wait, thread};
use socket2::SockRef;

use crate::temporary::Folder;
use crate::watched::{on_runtimes, watched};

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A server, where it is, and what ends it.
async fn stoppable() -> (
    Server<TcpListener, impl Future<Output = ()> + Send>,
    SocketAddr,
    CancellationToken,
) {
    let (listener, address) = listener().await;
    let stop = CancellationToken::new();
    (Server::new(listener).graceful_shutdown(stop.clone()), address, stop)
}

async fn echo(stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 64];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count]).await?,
        }
    }
}

async fn ask(address: SocketAddr) -> io::Result<()> {
    let client = TcpStream::connect(address).await?;
    client.write_all(b"word").await?;
    let mut answer = [0; 4];
    client.read_exact(&mut answer).await?;
    assert_eq!(&answer, b"word");
    Ok(())
}

#[test]
fn every_connection_is_served_and_counted() {
    on_runtimes(|| async {
        let (server, address, stop) = stoppable().await;
        let server = quadrille::spawn(server.serve(|stream, _| echo(stream)));
        let mut clients = JoinSet::new();
        for _ in 0..50 {
            clients.spawn(ask(address));
        }
        clients
            .join_all()
            .await
            .into_iter()
            .collect::<io::Result<()>>()
            .unwrap();
        stop.cancel();
        let served = server.await.unwrap().unwrap();
        assert_eq!((served.connections, served.panicked, served.cut_off), (50, 0, 0));
    });
}

#[test]
fn after_the_signal_nobody_is_let_in_and_who_is_there_goes_on() {
    on_runtimes(|| async {
        let (server, address, stop) = stoppable().await;
        let (closed, left) = oneshot::channel();
        let server = server.on_shutdown(|left| closed.send(left).unwrap());
        let server = quadrille::spawn(server.serve(|stream, _| echo(stream)));
        let client = TcpStream::connect(address).await.unwrap();
        let talk = async || {
            client.write_all(b"word").await.unwrap();
            client.read_exact(&mut [0; 4]).await.unwrap();
        };
        talk().await;
        stop.cancel();
        assert_eq!(left.await.unwrap(), 1);
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        talk().await;
        assert!(!server.is_finished());
        drop(client);
        let served = server.await.unwrap().unwrap();
        assert_eq!((served.connections, served.cut_off), (1, 0));
    });
}

/// Says when it is dropped.
pub(crate) struct Told(pub(crate) Arc<AtomicBool>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn who_takes_longer_than_the_limit_is_cut_off() {
    on_runtimes(|| async {
        for threads in [false, true] {
            let (listener, address) = listener().await;
            let begun = Arc::new(Notify::new());
            let gone = Arc::new(AtomicBool::new(false));
            let (notify, told) = (Arc::clone(&begun), Arc::clone(&gone));
            let server = Server::new(listener)
                .graceful_shutdown(async move { begun.notified().await })
                .shutdown_timeout(Duration::from_millis(1));
            let hold = move |stream: TcpStream| {
                let guard = (Told(Arc::clone(&told)), stream);
                notify.notify_one();
                async move {
                    let _guard = guard;
                    pending::<()>().await;
                }
            };
            let server = if threads {
                quadrille::spawn(server.serve_threads(move |stream, _| hold(stream).wait()))
            } else {
                quadrille::spawn(server.serve(move |stream, _| hold(stream)))
            };
            let client = TcpStream::connect(address).await.unwrap();
            let served = server.await.unwrap().unwrap();
            assert_eq!((served.connections, served.cut_off), (1, 1), "threads: {threads}");
            // Its end of the connection is dropped with what served it.
            assert!(!matches!(client.read(&mut [0; 1]).await, Ok(1..)));
            while !gone.load(Ordering::SeqCst) {
                quadrille::task::yield_now().await;
            }
        }
    });
}

#[test]
fn no_more_than_the_limit_are_served_at_a_time() {
    on_runtimes(|| async {
        let (listener, address) = listener().await;
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let seen = Arc::clone(&most);
        let server = Server::new(listener).max_connections(2);
        let server = quadrille::spawn(server.serve(move |stream, _| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let outcome = echo(stream).await;
                now.fetch_sub(1, Ordering::SeqCst);
                outcome
            }
        }));
        // Two that stay, so that the third waits.
        let first = TcpStream::connect(address).await.unwrap();
        let second = TcpStream::connect(address).await.unwrap();
        for client in [&first, &second] {
            client.write_all(b"word").await.unwrap();
            client.read_exact(&mut [0; 4]).await.unwrap();
        }
        let mut clients = JoinSet::new();
        for _ in 0..20 {
            clients.spawn(ask(address));
        }
        drop(first);
        clients
            .join_all()
            .await
            .into_iter()
            .collect::<io::Result<()>>()
            .unwrap();
        drop(second);
        server.abort();
        assert_eq!(seen.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn a_connection_that_panics_is_counted_and_ends_alone() {
    on_runtimes(|| async {
        for threads in [false, true] {
            let (server, address, stop) = stoppable().await;
            let answer = |stream: TcpStream| async move {
                let mut word = [0; 4];
                stream.read_exact(&mut word).await.unwrap();
                assert_ne!(&word, b"oops", "meant to panic");
                stream.write_all(&word).await.unwrap();
            };
            let server = if threads {
                quadrille::spawn(server.serve_threads(move |stream, _| answer(stream).wait()))
            } else {
                quadrille::spawn(server.serve(move |stream, _| answer(stream)))
            };
            let client = TcpStream::connect(address).await.unwrap();
            client.write_all(b"oops").await.unwrap();
            assert_eq!(client.read(&mut [0; 4]).await.unwrap(), 0);
            ask(address).await.unwrap();
            stop.cancel();
            let served = server.await.unwrap().unwrap();
            assert_eq!((served.connections, served.panicked), (2, 1), "threads: {threads}");
        }
    });
}

#[test]
fn connections_end_with_the_future_of_their_server() {
    on_runtimes(|| async {
        let (listener, address) = listener().await;
        let server = quadrille::spawn(Server::new(listener).serve(|stream, _| echo(stream)));
        let client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"word").await.unwrap();
        client.read_exact(&mut [0; 4]).await.unwrap();
        server.abort();
        assert!(server.await.unwrap_err().is_cancelled());
        assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn threads_serve_in_blocking_style() {
    watched(|| {
        let runtime = Runtime::builder().worker_threads(2).build().unwrap();
        let (server, address, stop) = runtime.block_on(stoppable());
        let server = runtime.spawn(server.serve_threads(|stream, from: SocketAddr| {
            let mut word = [0; 4];
            stream.read_exact(&mut word).wait().unwrap();
            stream.write_all(format!("{from}").as_bytes()).wait().unwrap();
        }));
        for _ in 0..10 {
            let mut client = net::TcpStream::connect(address).unwrap();
            client.write_all(b"word").unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert_eq!(answer, client.local_addr().unwrap().to_string());
        }
        stop.cancel();
        assert_eq!(server.wait().unwrap().unwrap().connections, 10);
    });
}

#[test]
fn a_thread_has_the_name_that_its_builder_gives_it() {
    on_runtimes(|| async {
        let (listener, address) = listener().await;
        let builder = |from: &SocketAddr| thread::Builder::new().name(from.to_string());
        let server = quadrille::spawn(
            Server::new(listener).serve_threads_with(builder, |stream: TcpStream, _| {
                let name = thread::current().name().unwrap().to_owned();
                stream.write_all(name.as_bytes()).wait().unwrap();
            }),
        );
        let client = TcpStream::connect(address).await.unwrap();
        let name = client.local_addr().unwrap().to_string();
        let mut answer = vec![0; name.len()];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, name.as_bytes());
        server.abort();
    });
}

#[test]
fn a_listener_that_was_shut_down_ends_its_server() {
    on_runtimes(|| async {
        let (tcp, _) = listener().await;
        let folder = Folder::new();
        let unix = UnixListener::bind(folder.join("socket")).unwrap();
        SockRef::from(&tcp).shutdown(Shutdown::Both).unwrap();
        SockRef::from(&unix).shutdown(Shutdown::Both).unwrap();
        let error = Server::new(tcp).serve(|stream, _| echo(stream)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let error = Server::new(unix).serve(async |_, _| {}).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_server_of_the_unix_domain() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let path = folder.join("socket");
        let server = Server::new(UnixListener::bind(&path).unwrap());
        let server =
            quadrille::spawn(server.serve(|stream: UnixStream, _| async move { stream.write_all(b"hi").await }));
        let client = UnixStream::connect(&path).await.unwrap();
        let mut answer = [0; 2];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!((&answer, client.read(&mut [0; 1]).await.unwrap()), (b"hi", 0));
        server.abort();
    });
}
