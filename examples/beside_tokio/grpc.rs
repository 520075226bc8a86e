//! gRPC by tonic: a server on quadrille, and a client that is tokio's or quadrille's.
//!
//! Watch: tonic makes an answer of a request, and hyper serves that over HTTP/2. `Channel`, which is the client, spawns
//! and connects where it is told to: on tokio unless it has an executor and a connector. Its timeouts are tokio's in
//! any case. Whoever asks by it may do that anywhere.
//!
//! What stands here for a service and its client is otherwise written by tonic-prost-build, from a file of protobuf.
#![expect(clippy::print_stdout, reason = "a program prints")]

mod connector;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;

use hyper::body::Incoming;
use hyper::http::uri::PathAndQuery;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use quadrille::JoinSet;
use quadrille::hyper::{Executor, Timer};
use quadrille::net::{Server, TcpListener, TcpStream};
use quadrille::time::{Duration, timeout};
use tokio::runtime::{Builder, Handle};
use tonic::body::Body;
use tonic::server::UnaryService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::connector::Connector;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const METHOD: &str = "/shouting.Shouting/Shout";
const CALLS: usize = 100;
/// What a call may take, and a client's first bytes.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, PartialEq, prost::Message)]
struct Word {
    #[prost(string, tag = "1")]
    text: String,
}

/// The method of the service.
struct Shout;

impl UnaryService<Word> for Shout {
    type Response = Word;
    type Future = Ready<Result<Response<Word>, Status>>;

    fn call(&mut self, request: Request<Word>) -> Self::Future {
        let text = request.into_inner().text.to_uppercase();
        ready(if text.is_empty() {
            Err(Status::invalid_argument("there is nothing to shout"))
        } else {
            Ok(Response::new(Word { text }))
        })
    }
}

/// The service: which method is meant, and its answer.
async fn answer(request: hyper::Request<Incoming>) -> Result<hyper::Response<Body>, Infallible> {
    Ok(if request.uri().path() == METHOD {
        let codec = ProstCodec::<Word, Word>::default();
        tonic::server::Grpc::new(codec).unary(Shout, request).await
    } else {
        Status::unimplemented("there is no such method").into_http()
    })
}

/// Serves a client until it ends the connection, or is gone.
async fn converse(stream: TcpStream) {
    // hyper waits for a client's first bytes for ever.
    if timeout(PATIENCE, stream.readable()).await.is_err() {
        return;
    }
    let connection = http2::Builder::new(Executor)
        .timer(Timer)
        .keep_alive_interval(Some(PATIENCE))
        .serve_connection(stream, service_fn(answer));
    // A client's bad manners are no failure of the server.
    let _ = connection.await;
}

/// Serves until it is dropped.
async fn serve(listener: TcpListener) -> io::Result<()> {
    listener.set_nodelay(true)?;
    Server::new(listener).serve(|stream, _| converse(stream)).await?;
    Ok(())
}

/// The client: asks the server to shout a word.
async fn shout(channel: Channel, text: String) -> Result<String, Status> {
    let mut client = tonic::client::Grpc::new(channel);
    let ready = client.ready().await;
    ready.map_err(|error| Status::unavailable(error.to_string()))?;
    let (path, codec) = (PathAndQuery::from_static(METHOD), ProstCodec::<Word, Word>::default());
    let answer = client.unary(Request::new(Word { text }), path, codec).await?;
    Ok(answer.into_inner().text)
}

/// Many calls at a time over one channel, by tasks of quadrille.
async fn try_out(channel: Channel) -> Result<(), Status> {
    let mut calls = JoinSet::new();
    for i in 0..CALLS {
        calls.spawn(shout(channel.clone(), format!("word {i}")));
    }
    let answers: Result<Vec<String>, Status> = calls.join_all().await.into_iter().collect();
    let mut answers = answers?;
    answers.sort();
    assert_eq!((answers.len(), answers[CALLS - 1].as_str()), (CALLS, "WORD 99"));
    let refused = shout(channel, String::new()).await.expect_err("there is no word");
    assert_eq!(refused.code(), Code::InvalidArgument);
    Ok(())
}

async fn run(tokio: Handle) -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = Endpoint::from_shared(format!("http://{}", listener.local_addr()?))?;
    drop(quadrille::spawn(serve(listener)));

    // Over there: the connection, what drives it, and the timer of each call.
    let there = endpoint.clone().timeout(PATIENCE);
    try_out(tokio.spawn(async move { there.connect().await }).await??).await?;
    // Here, all of it. A limit is what is around a call.
    let here = endpoint.executor(Executor).connect_with_connector(Connector).await?;
    timeout(PATIENCE, try_out(here)).await??;
    Ok(())
}

fn main() -> Result<(), Failure> {
    let tokio = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let quadrille = quadrille::Runtime::new()?;
    // A task, so that nothing is awaited inside of tokio's context or on this thread.
    let main = quadrille.spawn(run(tokio.handle().clone()));
    quadrille.block_on(main)??;
    println!("{CALLS} calls over a channel of tokio's, and {CALLS} over one of quadrille's");

    // First the one that uses the other.
    drop(quadrille);
    tokio.shutdown_background();
    Ok(())
}
