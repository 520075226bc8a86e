//! A service of notes in JSON: axum's router, served by hyper, with metrics for Prometheus and a gentle end.
//!
//! ```text
//! POST /notes {"text":"..."}   201, the note with its number
//! GET /notes/{number}          200 and the note, or 404
//! GET /metrics                 what the runtime and this service count
//! ```
//!
//! `cargo run --example json_service -- 127.0.0.1:8080` serves until Ctrl-C (`SIGINT`) or `SIGTERM`. Then nobody is let
//! in any more, every request that has begun is answered, and the program ends. Whoever takes longer than 10 seconds
//! for the rest of a request is cut off; `-- 127.0.0.1:8080 0.5` makes it half a second. Without an address it asks
//! itself, and ends the same way.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its result, and why nobody is let in"
)]

use std::error::Error;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use quadrille::Handle;
use quadrille::hyper::{Timer, with_graceful_shutdown};
use quadrille::metrics::PROMETHEUS_CONTENT_TYPE;
use quadrille::net::{Served, Server, TcpListener, TcpStream};
use quadrille::signal;
use quadrille::sync::CancellationToken;
use quadrille::time::Duration;
use serde::{Deserialize, Serialize};
use tower_service::Service;

type Failure = Box<dyn Error + Send + Sync>;
type Notes = Arc<Mutex<Vec<String>>>;

/// What a connection gets at the end for the request that it is at, unless the second argument says otherwise.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct Draft {
    text: String,
}

#[derive(Deserialize, Serialize, PartialEq, Debug)]
struct Note {
    number: usize,
    text: String,
}

async fn write(State(notes): State<Notes>, Json(Draft { text }): Json<Draft>) -> (StatusCode, Json<Note>) {
    let mut notes = notes.lock().expect("nobody panics in between");
    notes.push(text.clone());
    let number = notes.len() - 1;
    (StatusCode::CREATED, Json(Note { number, text }))
}

async fn read(State(notes): State<Notes>, Path(number): Path<usize>) -> Result<Json<Note>, StatusCode> {
    let notes = notes.lock().expect("nobody panics in between");
    let text = notes.get(number).ok_or(StatusCode::NOT_FOUND)?.clone();
    Ok(Json(Note { number, text }))
}

async fn metrics(State(notes): State<Notes>) -> impl IntoResponse {
    let count = notes.lock().expect("nobody panics in between").len();
    let page = format!(
        "{}# HELP notes Notes that are kept.\n# TYPE notes gauge\nnotes {count}\n",
        Handle::current().metrics().prometheus()
    );
    ([(header::CONTENT_TYPE, PROMETHEUS_CONTENT_TYPE)], page)
}

fn router() -> Router {
    Router::new()
        .route("/notes", post(write))
        .route("/notes/{number}", get(read))
        .route("/metrics", get(metrics))
        .with_state(Notes::default())
}

/// Serves one connection until the client ends it, or until `stop`, then to the end of the request that it is at.
async fn converse(stream: TcpStream, router: Router, stop: CancellationToken) -> hyper::Result<()> {
    let service = service_fn(move |request: Request<Incoming>| router.clone().call(request));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(Timer)
        .serve_connection(stream, service)
        // For a handler that calls `hyper::upgrade::on`: this router has none.
        .with_upgrades();
    with_graceful_shutdown(connection, stop, |connection| connection.graceful_shutdown()).await
}

/// Serves until `stop`, and ends with the last connection, or when `patience` is over.
async fn serve(listener: TcpListener, stop: CancellationToken, patience: Duration) -> io::Result<Served> {
    listener.set_nodelay(true)?;
    let router = router();
    let server = Server::new(listener)
        .on_accept_error(|error| eprintln!("cannot accept a connection: {error}"))
        .graceful_shutdown(stop.cancelled())
        .shutdown_timeout(patience)
        .on_shutdown(|left| {
            // Whoever read this may be gone, which is no reason to cut anybody off.
            let _ = writeln!(io::stdout(), "stopping, connections left: {left}");
        });
    // A client's bad manners are no failure of the server: how a connection ended is nobody's business.
    server
        .serve(|stream, _| converse(stream, router.clone(), stop.clone()))
        .await
}

/// Seconds, as they are typed.
fn seconds(text: &str) -> Result<Duration, Failure> {
    let seconds = text
        .parse()
        .ok()
        .and_then(|number| Duration::try_from_secs_f64(number).ok());
    seconds.ok_or_else(|| format!("{text:?} as patience: expected seconds, such as 10 or 0.5").into())
}

/// Writes a note, reads it, and looks at the metrics, over one connection.
async fn try_out(address: SocketAddr) -> Result<(), Failure> {
    let stream = TcpStream::connect(address).await?;
    let (mut client, connection) = hyper::client::conn::http1::handshake(stream).await?;
    quadrille::spawn(connection);
    let mut ask = async |method: &str, path: &str, body: &'static str| {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("content-type", "application/json");
        // It may still be at the end of the last answer.
        client.ready().await?;
        let response = client.send_request(request.body(Full::<Bytes>::from(body))?).await?;
        let status = response.status();
        Ok::<_, Failure>((status, response.into_body().collect().await?.to_bytes()))
    };

    let (status, body) = ask("POST", "/notes", r#"{"text":"seventeen"}"#).await?;
    assert_eq!(status, StatusCode::CREATED);
    let written: Note = serde_json::from_slice(&body)?;
    let (_, body) = ask("GET", &format!("/notes/{}", written.number), "").await?;
    assert_eq!(serde_json::from_slice::<Note>(&body)?, written);
    assert_eq!(ask("GET", "/notes/1", "").await?.0, StatusCode::NOT_FOUND);
    let (_, page) = ask("GET", "/metrics", "").await?;
    let page = str::from_utf8(&page)?;
    assert!(page.contains("\nquadrille_polls_total ") && page.ends_with("\nnotes 1\n"));
    println!("wrote and read {written:?}; {} lines of metrics", page.lines().count());
    Ok(())
}

#[quadrille::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (argument, patience) = (arguments.next(), arguments.next());
    let patience = patience.map_or(Ok(PATIENCE), |text| seconds(&text))?;
    // Before anybody can know of the server: a signal that comes earlier ends the process.
    let termination = signal::termination()?;
    let listener = TcpListener::bind(argument.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let address = listener.local_addr()?;
    println!("listening on {address}");
    let stop = CancellationToken::new();
    let server = quadrille::spawn(serve(listener, stop.clone(), patience));
    if argument.is_some() {
        quadrille::spawn(async move {
            termination.await;
            stop.cancel();
        });
    } else {
        try_out(address).await?;
        stop.cancel();
    }
    let served = server.await??;
    let _ = writeln!(
        io::stdout(),
        "served {} connections, {} of them cut off",
        served.connections,
        served.cut_off
    );
    Ok(())
}
