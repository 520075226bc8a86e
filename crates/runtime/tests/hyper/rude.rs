//! Peers that are slow, go away in the middle, or don't speak HTTP.

use std::convert::Infallible;
use std::io::{ErrorKind, Read, Write};
use std::net::{self, Shutdown, SocketAddr};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use quadrille::hyper::Timer;
use quadrille::net::TcpListener;
use quadrille::sync::oneshot;

use crate::peers::{client, get, listen, noise, pair, serve, text};
use crate::watched::on_runtimes;

/// A peer that sends `bytes`, ends its side if `and_ends`, and reads to the end; what it read.
fn peer(address: SocketAddr, bytes: &'static [u8], and_ends: bool) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut socket = net::TcpStream::connect(address).unwrap();
        socket.write_all(bytes).unwrap();
        if and_ends {
            socket.shutdown(Shutdown::Write).unwrap();
        }
        let mut answer = Vec::new();
        match socket.read_to_end(&mut answer) {
            Ok(_) => answer,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => answer,
            Err(error) => panic!("{error}"),
        }
    })
}

/// What `peer` has read.
async fn heard(peer: thread::JoinHandle<Vec<u8>>) -> String {
    let answer = quadrille::spawn_blocking(|| peer.join().unwrap()).await.unwrap();
    String::from_utf8(answer).unwrap()
}

/// Answers `ok` when it has the whole body.
async fn ok(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let answer = match request.into_body().collect().await {
        Ok(_) => "ok",
        Err(_) => "half",
    };
    Response::new(Full::from(answer))
}

async fn accept_and_serve(listener: TcpListener) -> hyper::Result<()> {
    let (stream, _) = listener.accept().await.unwrap();
    serve(stream, ok).await
}

#[test]
fn headers_that_take_too_long_end_the_connection() {
    on_runtimes(|| async {
        let (listener, address) = listen().await;
        // The second request gets as much time as the first, and isn't ended either.
        let peer = peer(
            address,
            b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\nGET / HTTP/1.1\r\nhost: loc",
            false,
        );
        let (stream, _) = listener.accept().await.unwrap();
        // The time of the first request is for what is there, and not for the peer to come to write it.
        stream.readable().await.unwrap();
        let service = service_fn(|request| async { Ok::<_, Infallible>(ok(request).await) });
        let error = http1::Builder::new()
            .timer(Timer)
            .header_read_timeout(Duration::from_millis(20))
            .serve_connection(stream, service)
            .await
            .unwrap_err();
        assert!(error.is_timeout(), "{error:?}");
        let answers = heard(peer).await;
        assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 1, "{answers}");
    });
}

#[test]
fn a_request_that_breaks_off_is_an_error_of_its_connection() {
    on_runtimes(|| async {
        let (listener, address) = listen().await;
        let peer = peer(address, b"GET / HTTP/1.1\r\nhost: loc", true);
        let error = accept_and_serve(listener).await.unwrap_err();
        assert!(error.is_incomplete_message(), "{error:?}");
        assert_eq!(heard(peer).await, "");
    });
}

#[test]
fn a_body_that_breaks_off_is_an_error_of_its_reader() {
    on_runtimes(|| async {
        let (listener, address) = listen().await;
        let peer = peer(
            address,
            b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\nonly this",
            true,
        );
        // The service sees it, and its answer still goes out: the other side of the connection is open.
        let _ = accept_and_serve(listener).await;
        let answer = heard(peer).await;
        assert!(answer.ends_with("half"), "{answer}");
    });
}

#[test]
fn what_is_not_http_is_refused() {
    on_runtimes(|| async {
        let (listener, address) = listen().await;
        let peer = peer(address, b"\x16\x03\x01 is no method\r\n\r\n", false);
        let error = accept_and_serve(listener).await.unwrap_err();
        assert!(error.is_parse(), "{error:?}");
        let answer = heard(peer).await;
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request"), "{answer}");
    });
}

#[test]
fn a_peer_that_comes_and_goes_is_no_error() {
    on_runtimes(|| async {
        let (listener, address) = listen().await;
        drop(net::TcpStream::connect(address).unwrap());
        accept_and_serve(listener).await.unwrap();
    });
}

#[test]
fn a_client_that_does_not_read_its_answer_ends_the_connection() {
    on_runtimes(|| async {
        let (listener, address) = listen().await;
        let (go, gone) = oneshot::channel();
        let peer = thread::spawn(move || {
            let mut socket = net::TcpStream::connect(address).unwrap();
            socket.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
            // The beginning of an answer that is larger than what the system keeps on the way.
            socket.read_exact(&mut [0; 15]).unwrap();
            drop(socket);
            go.send(()).unwrap();
        });
        let (stream, _) = listener.accept().await.unwrap();
        let outcome = serve(stream, |_| async { Response::new(Full::new(noise(20_000_000))) }).await;
        assert!(outcome.is_err());
        gone.await.unwrap();
        quadrille::spawn_blocking(|| peer.join().unwrap()).await.unwrap();
    });
}

/// What it asked for is of no use to anybody: the service doesn't go on for it.
#[test]
fn a_client_that_goes_away_ends_the_service_that_it_waits_for() {
    on_runtimes(|| async {
        let (ours, theirs) = pair().await;
        let (asked, question) = oneshot::channel::<()>();
        let (held, dropped) = oneshot::channel::<()>();
        let both = std::sync::Mutex::new(Some((asked, held)));
        let server = quadrille::spawn(serve(theirs, move |_| {
            let (asked, held) = both.lock().unwrap().take().expect("one request");
            async move {
                asked.send(()).unwrap();
                std::future::pending::<()>().await;
                drop(held);
                Response::new(Full::<Bytes>::default())
            }
        }));
        ours.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        question.await.unwrap();
        drop(ours);
        assert!(dropped.await.is_err());
        assert!(server.await.unwrap().unwrap_err().is_incomplete_message());
    });
}

#[test]
fn a_server_that_goes_away_is_an_error_of_the_request() {
    on_runtimes(|| async {
        let (ours, theirs) = pair().await;
        let (asked, question) = oneshot::channel();
        let asked = std::sync::Mutex::new(Some(asked));
        let server = quadrille::spawn(serve(theirs, move |_| {
            let asked = asked.lock().unwrap().take().expect("one request");
            async move {
                asked.send(()).unwrap();
                std::future::pending::<Response<Full<Bytes>>>().await
            }
        }));
        let mut client = client(ours).await;
        let request = quadrille::spawn(async move { client.send_request(get("/")).await.map(drop) });
        question.await.unwrap();
        server.abort();
        assert!(server.await.is_err());
        let error = request.await.unwrap().unwrap_err();
        assert!(error.is_incomplete_message(), "{error:?}");
    });
}

#[test]
fn a_connection_that_is_reset_leaves_the_others_alone() {
    on_runtimes(|| async {
        let (ours, theirs) = pair().await;
        let (reset, victim) = pair().await;
        let broken = quadrille::spawn(serve(victim, ok));
        quadrille::spawn(serve(theirs, ok));
        reset
            .write_all(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n1")
            .await
            .unwrap();
        // Closed with a reset: what is on its way is thrown away.
        reset.set_linger(Some(Duration::ZERO)).unwrap();
        drop(reset);
        broken.await.unwrap().unwrap_err();
        let mut client = client(ours).await;
        assert_eq!(text(client.send_request(get("/")).await.unwrap()).await, "ok");
    });
}
