//! HTTP/2, which wants an executor, and timers for its pings.

use std::convert::Infallible;
use std::io::Read;
use std::net;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::rt::bounds::Http2ClientConnExec;
use hyper::server;
use hyper::service::service_fn;
use quadrille::hyper::{Executor, Timer};
use quadrille::net::TcpStream;
use quadrille::sync::Barrier;
use quadrille::time::timeout;
use quadrille::{Handle, JoinSet, Runtime};

use crate::peers::{get, listen, noise, pair, post, text};
use crate::watched::{on_runtimes, watched};

/// Much longer than it takes until a peer is given up.
const LIMIT: Duration = Duration::from_secs(10);

/// A client over `stream`; its connection is a task.
async fn client<E>(stream: TcpStream, executor: E) -> SendRequest<Full<Bytes>>
where
    E: Http2ClientConnExec<Full<Bytes>, TcpStream> + Unpin + Clone + Send + 'static,
{
    let (client, connection) = http2::handshake(executor, stream).await.unwrap();
    quadrille::spawn(connection);
    client
}

#[test]
fn requests_of_one_connection_are_tasks_beside_each_other() {
    on_runtimes(|| async {
        const REQUESTS: usize = 50;
        let (ours, theirs) = pair().await;
        // None is answered before all are there.
        let all = Arc::new(Barrier::new(REQUESTS));
        let service = service_fn(move |_| {
            let all = Arc::clone(&all);
            async move {
                all.wait().await;
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("together")))
            }
        });
        let server = server::conn::http2::Builder::new(Executor)
            .timer(Timer)
            .serve_connection(theirs, service);
        let server = quadrille::spawn(server);
        let client = client(ours, Executor).await;
        let mut requests = JoinSet::new();
        for _ in 0..REQUESTS {
            let mut client = client.clone();
            requests.spawn(async move { text(client.send_request(get("/")).await.unwrap()).await });
        }
        for answer in requests.join_all().await {
            assert_eq!(answer, "together");
        }
        drop(client);
        server.await.unwrap().unwrap();
    });
}

#[test]
fn large_bodies_pass_both_ways() {
    on_runtimes(|| async {
        let sent = noise(1_000_003);
        let (ours, theirs) = pair().await;
        let service =
            service_fn(
                |request: hyper::Request<_>| async move { Ok::<_, Infallible>(Response::new(request.into_body())) },
            );
        let server = server::conn::http2::Builder::new(Executor).serve_connection(theirs, service);
        let server = quadrille::spawn(server);
        let mut client = client(ours, Executor).await;
        let response = client.send_request(post("/", sent.clone())).await.unwrap();
        assert!(text(response).await == sent);
        drop(client);
        server.await.unwrap().unwrap();
    });
}

#[test]
fn a_handle_is_the_executor_of_its_runtime() {
    watched(|| {
        let answering = Runtime::builder().worker_threads(3).build().unwrap();
        let connecting = Runtime::builder().worker_threads(1).build().unwrap();
        let executor = answering.handle().clone();
        let workers = connecting.block_on(async move {
            let (ours, theirs) = pair().await;
            let service = service_fn(|_| async {
                let workers = Handle::current().worker_count().to_string();
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(workers)))
            });
            let server = server::conn::http2::Builder::new(executor).serve_connection(theirs, service);
            quadrille::spawn(server);
            let mut client = client(ours, Handle::current()).await;
            text(client.send_request(get("/")).await.unwrap()).await
        });
        assert_eq!(workers, "3");
    });
}

#[test]
fn a_peer_that_answers_no_ping_is_given_up() {
    on_runtimes(|| async {
        let (listener, address) = listen().await;
        // Takes whatever comes and never says a word.
        let mute = thread::spawn(move || {
            let mut socket = net::TcpStream::connect(address).unwrap();
            socket.read_to_end(&mut Vec::new()).map(drop)
        });
        let (stream, _) = listener.accept().await.unwrap();
        let begun = Instant::now();
        let (client, connection) = http2::Builder::new(Executor)
            .timer(Timer)
            .keep_alive_interval(Duration::from_millis(5))
            .keep_alive_timeout(Duration::from_millis(5))
            .keep_alive_while_idle(true)
            .handshake::<_, Full<Bytes>>(stream)
            .await
            .unwrap();
        // It has ended in any case, while we hold the client. hyper's own task for the connection has found out, and
        // has left both a word and the end of itself for the half that sends requests: which of them that one sees
        // first decides whether the end is an error.
        if let Err(error) = timeout(LIMIT, connection).await.unwrap() {
            assert!(error.is_timeout(), "{error:?}");
        }
        // Not before a ping and the time for its answer.
        assert!(begun.elapsed() >= Duration::from_millis(10));
        drop(client);
        // Closed, or reset: it did not read to the end.
        let _ = quadrille::spawn_blocking(|| mute.join().unwrap()).await.unwrap();
    });
}

/// What the documentation says of timeouts. hyper has none before the client's first bytes.
#[quadrille::test(start_paused = true)]
async fn who_says_nothing_is_let_go_by_a_timeout_of_readable_alone() {
    let hour = Duration::from_secs(3600);
    let (_ours, theirs) = pair().await;
    assert!(timeout(hour, theirs.readable()).await.is_err());
    let service = service_fn(async |_| Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())));
    let server = server::conn::http2::Builder::new(Executor)
        .timer(Timer)
        .keep_alive_interval(Some(LIMIT))
        .serve_connection(theirs, service);
    assert!(timeout(hour, server).await.is_err());
}
