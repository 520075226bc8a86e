//! A library that needs tokio's runtime, here reqwest, used from quadrille: a small tokio runtime beside it, on one
//! thread.
//!
//! Watch: `spawn` lets the library run over there; `InTokio` runs here what is awaited here. Its timers and sockets
//! are over there in both, and so is what the library spawns, as reqwest its connections.
#![expect(clippy::print_stdout, reason = "a program prints")]

mod shouting;

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use quadrille::net::TcpListener;
use tokio::runtime::{Builder, Handle};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Asks the server to shout a word.
async fn ask(client: reqwest::Client, server: SocketAddr, word: String) -> reqwest::Result<String> {
    let answer = client.post(format!("http://{server}/")).body(word).send().await?;
    answer.error_for_status()?.text().await
}

/// Polls a future of tokio's on whichever thread awaits it, and drops it there; and tells it where its runtime is.
struct InTokio<F> {
    tokio: Handle,
    /// There until it is dropped.
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> InTokio<F> {
    fn new(tokio: &Handle, future: F) -> Self {
        let tokio = tokio.clone();
        let future = Some(Box::pin(future));
        Self { tokio, future }
    }
}

impl<F: Future> Future for InTokio<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let _entered = this.tokio.enter();
        this.future.as_mut().expect("it is not dropped").as_mut().poll(cx)
    }
}

impl<F> Drop for InTokio<F> {
    fn drop(&mut self) {
        let _entered = self.tokio.enter();
        self.future = None;
    }
}

fn main() -> Result<(), Failure> {
    // One thread is enough for what only waits: the library's own work goes where it is awaited, below.
    let tokio = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let quadrille = quadrille::Runtime::new()?;
    let handle = tokio.handle().clone();
    let main = quadrille.spawn(async move {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let server = listener.local_addr()?;
        drop(quadrille::spawn(shouting::shout(listener)));

        // A server on the same machine is reached without a proxy.
        let client = reqwest::Client::builder().no_proxy().build()?;
        // Over there: tokio's `JoinHandle` is a future like any other.
        let there = handle.spawn(ask(client.clone(), server, "over there".to_owned()));
        let mut answers = vec![there.await??];
        // Here: on quadrille's workers, with timers and sockets over there.
        let calls = (0..10).map(|i| {
            let here = ask(client.clone(), server, format!("here {i}"));
            quadrille::spawn(InTokio::new(&handle, here))
        });
        for call in calls.collect::<Vec<_>>() {
            answers.push(call.await??);
        }
        Ok::<_, Failure>(answers)
    });
    let answers = quadrille.block_on(main)??;
    assert_eq!(
        (answers.len(), answers[0].as_str(), answers[10].as_str()),
        (11, "OVER THERE", "HERE 9")
    );
    println!("{answers:?}");

    // First the one that uses the other.
    drop(quadrille);
    tokio.shutdown_background();
    Ok(())
}
