//! A server over HTTP/1: hyper, with nothing but quadrille underneath.
//!
//! `cargo run --release --example http_hello -- 127.0.0.1:8080` serves until it is stopped (try
//! `wrk -c 64 http://127.0.0.1:8080/`). Without an address it asks itself, by hyper's client, and ends.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its result, and why nobody is let in"
)]

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use quadrille::JoinSet;
use quadrille::hyper::Timer;
use quadrille::net::{Server, TcpListener, TcpStream};

const CLIENTS: usize = 8;
const REQUESTS: usize = 50;

type Failure = Box<dyn Error + Send + Sync>;

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("Hello, world!\n")))
}

/// Serves until it is dropped: a task for each connection, which ends with it.
async fn serve(listener: TcpListener) -> Result<(), Failure> {
    listener.set_nodelay(true)?;
    let mut http = hyper::server::conn::http1::Builder::new();
    // Without a timer a client may take for ever to send its headers.
    http.timer(Timer);
    let server = Server::new(listener).on_accept_error(|error| eprintln!("cannot accept a connection: {error}"));
    server
        .serve(|stream, _| http.serve_connection(stream, service_fn(hello)))
        .await?;
    Ok(())
}

/// Asks again and again over one connection. How many bytes the bodies of the answers have.
async fn ask(address: SocketAddr) -> Result<usize, Failure> {
    let stream = TcpStream::connect(address).await?;
    let (mut client, connection) = hyper::client::conn::http1::handshake(stream).await?;
    quadrille::spawn(connection);
    let mut bytes = 0;
    for _ in 0..REQUESTS {
        let request = Request::get("/").header("host", address.to_string());
        // It may still be at the end of the last answer.
        client.ready().await?;
        let response = client.send_request(request.body(Empty::<Bytes>::new())?).await?;
        assert!(response.status().is_success());
        bytes += response.into_body().collect().await?.to_bytes().len();
    }
    Ok(bytes)
}

#[quadrille::main]
async fn main() -> Result<(), Failure> {
    let argument = std::env::args().nth(1);
    let listener = TcpListener::bind(argument.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let address = listener.local_addr()?;
    println!("listening on {address}");
    let server = quadrille::spawn(serve(listener));
    if argument.is_some() {
        return server.await?;
    }

    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(ask(address));
    }
    let mut bytes = 0;
    for outcome in clients.join_all().await {
        bytes += outcome?;
    }
    println!(
        "{} answers over {CLIENTS} connections, {bytes} bytes",
        CLIENTS * REQUESTS
    );
    Ok(())
}
