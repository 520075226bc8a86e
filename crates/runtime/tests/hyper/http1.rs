//! HTTP/1 between hyper and hyper, and between hyper and a socket of std.

use std::io::{Read, Write};
use std::net;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use bytes::Bytes;
use futures_lite::{AsyncReadExt, AsyncWriteExt};
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONNECTION, UPGRADE};
use hyper::{Request, Response, StatusCode};
use quadrille::JoinSet;
use quadrille::hyper::Io;
use quadrille::net::{TcpStream, UnixStream};

use crate::peers::{ask, client, get, listen, noise, pair, post, serve, text};
use crate::watched::on_runtimes;

/// Says which path was asked for.
async fn name(request: Request<Incoming>) -> Response<Full<Bytes>> {
    Response::new(Full::from(request.uri().path().to_owned()))
}

/// Sends the body back, each part as it comes.
async fn echo(request: Request<Incoming>) -> Response<Incoming> {
    Response::new(request.into_body())
}

#[test]
fn connections_are_kept_for_many_requests() {
    on_runtimes(|| async {
        const CLIENTS: usize = 16;
        const REQUESTS: usize = 25;
        let (listener, address) = listen().await;
        let server = quadrille::spawn(async move {
            let mut connections = JoinSet::new();
            for _ in 0..CLIENTS {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, name));
            }
            connections.join_all().await
        });
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            clients.spawn(async move {
                let mut client = client(TcpStream::connect(address).await.unwrap()).await;
                for request in 0..REQUESTS {
                    let path = format!("/{number}/{request}");
                    let response = ask(&mut client, get(&path)).await;
                    assert_eq!(text(response).await, path);
                }
            });
        }
        clients.join_all().await;
        // Each client had one connection, and each ended well.
        for outcome in server.await.unwrap() {
            outcome.unwrap();
        }
    });
}

#[test]
fn requests_in_one_piece_are_answered_in_their_order() {
    on_runtimes(|| async {
        const REQUESTS: usize = 100;
        let (listener, address) = listen().await;
        let client = thread::spawn(move || {
            let mut socket = net::TcpStream::connect(address).unwrap();
            let mut requests = String::new();
            for request in 1..=REQUESTS {
                let last = if request == REQUESTS {
                    "connection: close\r\n"
                } else {
                    ""
                };
                requests.push_str(&format!("GET /{request}. HTTP/1.1\r\nhost: localhost\r\n{last}\r\n"));
            }
            socket.write_all(requests.as_bytes()).unwrap();
            let mut answers = String::new();
            socket.read_to_string(&mut answers).unwrap();
            answers
        });
        let (stream, _) = listener.accept().await.unwrap();
        serve(stream, name).await.unwrap();
        let answers = quadrille::spawn_blocking(|| client.join().unwrap()).await.unwrap();
        let mut rest = answers.as_str();
        for request in 1..=REQUESTS {
            let body = format!("\r\n\r\n/{request}.");
            let at = rest
                .find(&body)
                .unwrap_or_else(|| panic!("no answer to {request}, or too early"));
            assert_eq!(rest[..at].matches("HTTP/1.1 200 OK").count(), 1, "before {request}");
            rest = &rest[at + body.len()..];
        }
        assert!(rest.is_empty());
    });
}

#[test]
fn large_bodies_pass_both_ways_at_once() {
    on_runtimes(|| async {
        let sent = noise(5_000_003);
        let (ours, theirs) = pair().await;
        let server = quadrille::spawn(serve(theirs, echo));
        let mut client = client(ours).await;
        for _ in 0..2 {
            let response = ask(&mut client, post("/", sent.clone())).await;
            assert!(text(response).await == sent);
        }
        drop(client);
        server.await.unwrap().unwrap();
    });
}

#[test]
fn a_body_of_unknown_length_arrives_part_by_part() {
    on_runtimes(|| async {
        let (ours, theirs) = pair().await;
        quadrille::spawn(serve(theirs, echo));
        let mut client = client(ours).await;
        let (parts, body) = quadrille::sync::mpmc::bounded::<Result<Frame<Bytes>, std::io::Error>>(1);
        let request = Request::post("/").body(StreamBody::new(body)).unwrap();
        let response = client.send_request(request).await.unwrap();
        let mut echoed = response.into_body();
        // A part is sent only when the one before has come back: nobody waits for more than there is.
        for part in 0..100 {
            let sent = noise(1 << (part % 17));
            parts.send(Ok(Frame::data(sent.clone()))).await.unwrap();
            let mut received = Vec::new();
            while received.len() < sent.len() {
                let frame = echoed.frame().await.unwrap().unwrap();
                received.extend_from_slice(&frame.into_data().unwrap());
            }
            assert!(received == sent);
        }
        drop(parts);
        assert!(echoed.frame().await.is_none());
    });
}

#[test]
fn unix_sockets_and_other_streams_are_connections_too() {
    on_runtimes(|| async {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = quadrille::spawn(serve(theirs, echo));
        let mut over_unix = client(ours).await;
        assert_eq!(
            text(over_unix.send_request(post("/", "abc")).await.unwrap()).await,
            "abc"
        );
        drop(over_unix);
        server.await.unwrap().unwrap();

        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = quadrille::spawn(serve(Io::new(theirs), echo));
        let sent = noise(1_000_003);
        let mut over_futures = client(Io::vectored(ours)).await;
        let response = over_futures.send_request(post("/", sent.clone())).await.unwrap();
        assert!(text(response).await == sent);
        drop(over_futures);
        server.await.unwrap().unwrap();
    });
}

#[test]
fn what_is_upgraded_goes_on_as_a_stream() {
    on_runtimes(|| async {
        let (ours, theirs) = pair().await;
        let server = quadrille::spawn(serve(theirs, |mut request| async move {
            quadrille::spawn(async move {
                let mut stream = Io::new(hyper::upgrade::on(&mut request).await.unwrap());
                let mut line = [0; 4];
                stream.read_exact(&mut line).await.unwrap();
                line.reverse();
                stream.write_all(&line).await.unwrap();
                stream.close().await.unwrap();
            });
            let answer = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
            let answer = answer.header(CONNECTION, "upgrade").header(UPGRADE, "reverse");
            answer.body(Empty::<Bytes>::new()).unwrap()
        }));
        let mut client = client(ours).await;
        let request = Request::get("/")
            .header(CONNECTION, "upgrade")
            .header(UPGRADE, "reverse");
        let response = client.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await;
        let mut stream = Io::new(hyper::upgrade::on(response.unwrap()).await.unwrap());
        stream.write_all(b"abcd").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "dcba");
        server.await.unwrap().unwrap();
    });
}

#[test]
fn services_run_as_tasks_of_the_runtime() {
    on_runtimes(|| async {
        let (ours, theirs) = pair().await;
        let spawned = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&spawned);
        let server = quadrille::spawn(serve(theirs, move |_| {
            let count = Arc::clone(&count);
            async move {
                // Needs a current runtime: a task, a timer and the blocking pool.
                let task = quadrille::spawn(async { quadrille::time::sleep(std::time::Duration::ZERO).await });
                task.await.unwrap();
                let number = quadrille::spawn_blocking(move || count.fetch_add(1, Ordering::Relaxed));
                Response::new(Full::<Bytes>::from(number.await.unwrap().to_string()))
            }
        }));
        let mut client = client(ours).await;
        for number in 0..10 {
            let response = ask(&mut client, get("/")).await;
            assert_eq!(text(response).await, number.to_string());
        }
        drop(client);
        server.await.unwrap().unwrap();
        assert_eq!(spawned.load(Ordering::Relaxed), 10);
    });
}
