//! Libraries that need tokio: one that needs its runtime, adapted by the crate `async-compat`, and one that needs its
//! traits only.
//!
//! Watch: `compat` around a future runs it on quadrille's workers, inside of a tokio runtime that the crate starts when
//! it is first needed, on a thread of its own. The `compat` of tokio-util turns the traits of futures-io into tokio's,
//! and no runtime takes part.
#![expect(clippy::print_stdout, reason = "a program prints")]

mod shouting;

use std::net::SocketAddr;

use async_compat::CompatExt as _;
use futures_lite::StreamExt as _;
use quadrille::JoinSet;
use quadrille::net::{TcpListener, TcpStream};
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::compat::FuturesAsyncReadCompatExt;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Asks the server to shout a word. Without a runtime of tokio's reqwest panics.
async fn ask(client: reqwest::Client, server: SocketAddr, word: String) -> reqwest::Result<String> {
    let answer = client.post(format!("http://{server}/")).body(word).send().await?;
    answer.error_for_status()?.text().await
}

/// All lines that a stream of ours brings, by a codec of tokio-util's.
async fn lines(stream: TcpStream) -> Result<Vec<String>, Failure> {
    let mut framed = FramedRead::new(FuturesAsyncReadCompatExt::compat(stream), LinesCodec::new());
    let mut lines = Vec::new();
    while let Some(line) = framed.next().await {
        lines.push(line?);
    }
    Ok(lines)
}

#[quadrille::main]
async fn main() -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let server = listener.local_addr()?;
    drop(quadrille::spawn(shouting::shout(listener)));

    // A server on the same machine is reached without a proxy.
    let client = reqwest::Client::builder().no_proxy().build()?;
    let mut calls = JoinSet::new();
    for i in 0..10 {
        calls.spawn(ask(client.clone(), server, format!("call {i}")).compat());
    }
    let mut answers = Vec::new();
    for answer in calls.join_all().await {
        answers.push(answer?);
    }
    answers.sort();
    assert_eq!((answers.len(), answers[9].as_str()), (10, "CALL 9"));

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let stream = TcpStream::connect(listener.local_addr()?).await?;
    let writer = quadrille::spawn(async move {
        let (stream, _) = listener.accept().await?;
        stream.write_all(b"one\ntwo\nthree").await
    });
    let lines = lines(stream).await?;
    writer.await??;
    assert_eq!(lines, ["one", "two", "three"]);
    println!("{answers:?}, {lines:?}");
    Ok(())
}
