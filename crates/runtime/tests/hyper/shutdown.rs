//! The end of a server: gently by connection, and together with its runtime.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use bytes::Bytes;
use futures_lite::future::{block_on, poll_once};
use futures_lite::{AsyncReadExt, AsyncWriteExt};
use http_body_util::Full;
use hyper::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use quadrille::hyper::{Io, Timer, with_graceful_shutdown};
use quadrille::io::duplex;
use quadrille::net::TcpStream;
use quadrille::sync::{CancellationToken, oneshot};
use quadrille::{Runtime, coop};

use crate::peers::{client, client_and_connection, get, listen, pair, serve, text};
use crate::watched::{on_runtimes, watched};

/// Serves `stream` until it ends; from `stop` on it ends after the request that it is at. A request says on `begun`
/// that it has begun, and waits for `answer`.
async fn serve_until(
    stream: TcpStream,
    stop: oneshot::Receiver<()>,
    begun: oneshot::Sender<()>,
    answer: oneshot::Receiver<&'static str>,
) -> hyper::Result<()> {
    let request = std::sync::Mutex::new(Some((begun, answer)));
    let service = service_fn(move |_| {
        let (begun, answer) = request.lock().unwrap().take().expect("one request");
        async move {
            begun.send(()).unwrap();
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(answer.await.unwrap())))
        }
    });
    let connection = http1::Builder::new().timer(Timer).serve_connection(stream, service);
    with_graceful_shutdown(connection, stop, |connection| connection.graceful_shutdown()).await
}

/// On a connection that is new, and on one that is kept.
#[test]
fn a_request_that_has_arrived_is_answered_though_the_end_is_told_first() {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for is_kept in [false, true] {
        block_on(async {
            let (mut ours, theirs) = duplex(1024);
            let stop = CancellationToken::new();
            let answer = service_fn(async |_| Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("answered"))));
            let connection = http1::Builder::new().serve_connection(Io::new(theirs), answer);
            let stopped = stop.cancelled();
            let mut server = pin!(with_graceful_shutdown(connection, stopped, |connection| {
                connection.graceful_shutdown();
            }));
            let mut answers = 1;
            if is_kept {
                ours.write_all(REQUEST).await.unwrap();
                assert!(poll_once(server.as_mut()).await.is_none());
                answers = 2;
            }
            ours.write_all(REQUEST).await.unwrap();
            stop.cancel();
            server.await.unwrap();
            let mut received = String::new();
            ours.read_to_string(&mut received).await.unwrap();
            assert_eq!(
                received.matches("answered").count(),
                answers,
                "kept: {is_kept}, {received}"
            );
        });
    }
}

/// In its first poll the connection can't read.
#[test]
fn without_budget_a_connection_is_not_told() {
    on_runtimes(|| async {
        let (mut ours, theirs) = duplex(1024);
        ours.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        let answer = service_fn(async |_| Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("answered"))));
        let connection = http1::Builder::new().serve_connection(Io::new(theirs), answer);
        while coop::has_budget_remaining() {
            coop::consume_budget().await;
        }
        let signal = std::future::ready(());
        with_graceful_shutdown(connection, signal, |connection| connection.graceful_shutdown())
            .await
            .unwrap();
        let mut received = String::new();
        ours.read_to_string(&mut received).await.unwrap();
        assert!(received.ends_with("answered"), "{received:?}");
    });
}

/// There is no unit left for the signal in any poll of it.
#[test]
fn a_connection_that_spends_its_budget_each_time_is_told() {
    let told = Arc::new(AtomicBool::new(false));
    let has_told = Arc::clone(&told);
    let connection = poll_fn(move |cx| {
        while let Poll::Ready(unit) = coop::poll_proceed(cx) {
            unit.made_progress();
        }
        if has_told.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    });
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    watched(move || {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let server = runtime.spawn(async move {
            with_graceful_shutdown(connection, stop.cancelled(), |_| told.store(true, Ordering::Relaxed)).await;
        });
        stopping.cancel();
        runtime.block_on(server).unwrap();
    });
}

#[test]
fn a_graceful_shutdown_answers_what_was_asked_and_closes() {
    on_runtimes(|| async {
        let (ours, theirs) = pair().await;
        let (stop, stopped) = oneshot::channel();
        let (begin, begun) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        let server = quadrille::spawn(serve_until(theirs, stopped, begin, answered));
        let (mut client, connection) = client_and_connection(ours).await;
        let response = {
            let request = client.send_request(get("/"));
            let request = quadrille::spawn(request);
            begun.await.unwrap();
            stop.send(()).unwrap();
            answer.send("answered").unwrap();
            request.await.unwrap().unwrap()
        };
        // The last answer: nobody knows whether it was begun before or after it was told to stop.
        assert_eq!(text(response).await, "answered");
        server.await.unwrap().unwrap();
        connection.await.unwrap().unwrap();
        assert!(client.send_request(get("/")).await.is_err(), "the connection is closed");
    });
}

#[test]
fn a_graceful_shutdown_closes_an_idle_connection_at_once() {
    on_runtimes(|| async {
        let (ours, theirs) = pair().await;
        let (stop, stopped) = oneshot::channel();
        let (begin, begun) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        answer.send("answered").unwrap();
        let server = quadrille::spawn(serve_until(theirs, stopped, begin, answered));
        let (mut client, connection) = client_and_connection(ours).await;
        let response = client.send_request(get("/")).await.unwrap();
        begun.await.unwrap();
        assert_eq!(text(response).await, "answered");
        stop.send(()).unwrap();
        server.await.unwrap().unwrap();
        connection.await.unwrap().unwrap();
        assert!(client.send_request(get("/")).await.is_err(), "the connection is closed");
    });
}

#[test]
fn a_runtime_ends_with_its_connections_open() {
    watched(|| {
        let serving = Runtime::builder().worker_threads(2).build().unwrap();
        let asking = Runtime::builder().worker_threads(1).build().unwrap();
        let (asked, question) = oneshot::channel();
        let address = serving.block_on(async {
            let (listener, address) = listen().await;
            quadrille::spawn(async move {
                let asked = std::sync::Mutex::new(Some(asked));
                let (stream, _) = listener.accept().await.unwrap();
                let never = move |_| {
                    let asked = asked.lock().unwrap().take().expect("one request");
                    asked.send(()).unwrap();
                    std::future::pending::<Response<Full<Bytes>>>()
                };
                serve(stream, never).await
            });
            address
        });
        let request = asking.spawn(async move {
            let mut client = client(TcpStream::connect(address).await.unwrap()).await;
            client.send_request(get("/")).await.map(drop)
        });
        asking.block_on(question).unwrap();
        drop(serving);
        assert!(asking.block_on(request).unwrap().is_err());
    });
}
