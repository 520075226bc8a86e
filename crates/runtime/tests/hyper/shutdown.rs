//! The end of a server: gently by connection, and together with its runtime.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use quadrille::Runtime;
use quadrille::hyper::Timer;
use quadrille::net::TcpStream;
use quadrille::sync::oneshot;

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
    let mut connection = pin!(http1::Builder::new().timer(Timer).serve_connection(stream, service));
    let mut stop = pin!(stop);
    let mut is_stopping = false;
    poll_fn(|cx| {
        if !is_stopping && stop.as_mut().poll(cx).is_ready() {
            is_stopping = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(cx)
    })
    .await
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
