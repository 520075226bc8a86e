//! A library that needs tokio's runtime, as reqwest, sqlx and tonic do, used from quadrille: a small tokio runtime beside it, on one thread.
//!
//! Watch: `spawn` lets the library run over there; `InTokio` runs it here, and only its timers and sockets are over there.
#![expect(clippy::print_stdout, reason = "a program prints")]

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle, Runtime};

/// What stands for the library: it uses tokio's timers and sockets, and expects to be in its runtime.
async fn library_call(port: u16, word: &str) -> io::Result<String> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(word.as_bytes()).await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The other end: shouts back, over there.
async fn shout(listener: TcpListener) -> io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let mut word = String::new();
        stream.read_to_string(&mut word).await?;
        stream.write_all(word.to_uppercase().as_bytes()).await?;
    }
}

/// Polls a future of tokio's on whichever thread awaits it, and tells it where its runtime is.
struct InTokio<F> {
    tokio: Handle,
    future: Pin<Box<F>>,
}

impl<F: Future> InTokio<F> {
    fn new(tokio: &Handle, future: F) -> Self {
        let tokio = tokio.clone();
        let future = Box::pin(future);
        Self { tokio, future }
    }
}

impl<F: Future> Future for InTokio<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let _entered = this.tokio.enter();
        this.future.as_mut().poll(cx)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // One thread is enough for what only waits: the library's own work goes where it is awaited, below.
    let tokio: Runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let listener = tokio.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
    let port = listener.local_addr()?.port();
    let shouting = tokio.spawn(shout(listener));

    let quadrille = quadrille::Runtime::new()?;
    let handle = tokio.handle().clone();
    let main = quadrille.spawn(async move {
        // Over there: tokio's `JoinHandle` is a future like any other.
        let there = handle
            .spawn(library_call(port, "over there"))
            .await
            .map_err(io::Error::other)??;
        // Here: on quadrille's workers, with timers and sockets over there.
        let calls = (0..10).map(|i| {
            let handle = handle.clone();
            quadrille::spawn(async move { InTokio::new(&handle, library_call(port, &format!("here {i}"))).await })
        });
        let mut answers = vec![there];
        for call in calls.collect::<Vec<_>>() {
            answers.push(call.await.map_err(io::Error::other)??);
        }
        Ok::<_, io::Error>(answers)
    });
    let answers = quadrille.block_on(main)??;
    assert_eq!(
        (answers.len(), answers[0].as_str(), answers[10].as_str()),
        (11, "OVER THERE", "HERE 9")
    );
    println!("{answers:?}");

    // First the one that uses the other.
    drop(quadrille);
    shouting.abort();
    tokio.shutdown_background();
    Ok(())
}
