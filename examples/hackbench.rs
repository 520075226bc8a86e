//! hackbench: groups of senders and receivers, every sender to every receiver of its group. Watch the counters.
//!
//! `cargo run --release --example hackbench -- [GROUPS [LOOPS]]`; 10 groups of 20 x 20 tasks, 1000 loops by default.
//! `quadrille hackbench` of the bench crate has all flags of the program, and other runtimes beside this one.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::time::Instant;

use quadrille::sync::mpmc::{self, Receiver, Sender};

/// Senders, and receivers, a group.
const FDS: usize = 20;

/// What a pipe of 64 KiB holds, in messages.
const CAPACITY: usize = 655;

type Message = [u8; 100];

/// Where a task reports ready, and what closes when all may go.
type Gate = (Sender<()>, Receiver<()>);

async fn pass((ready, go): Gate) {
    ready.send(()).await.expect("somebody counts");
    // The start signal is that the channel closes.
    go.recv().await.expect_err("nothing is sent");
}

/// Both kinds of task return how many messages they received.
async fn send(receivers: Vec<Sender<Message>>, loops: usize, gate: Gate) -> usize {
    pass(gate).await;
    let mut message = [0; 100];
    for index in 0..loops {
        message[0] = index.to_le_bytes()[0];
        for receiver in &receivers {
            receiver.send(message).await.expect("it reads all");
        }
    }
    0
}

async fn receive(messages: Receiver<Message>, gate: Gate) -> usize {
    pass(gate).await;
    let mut count = 0;
    while messages.recv().await.is_ok() {
        count += 1;
    }
    count
}

async fn hackbench(groups: usize, loops: usize) -> (usize, f64) {
    let (start, go) = mpmc::bounded::<()>(1);
    let (ready, arrivals) = mpmc::bounded::<()>(1);
    let gate = (ready, go);
    let mut tasks = Vec::new();
    for _ in 0..groups {
        let mut ends = Vec::new();
        for _ in 0..FDS {
            let (end, messages) = mpmc::bounded(CAPACITY);
            ends.push(end);
            tasks.push(quadrille::spawn(receive(messages, gate.clone())));
        }
        for _ in 0..FDS {
            tasks.push(quadrille::spawn(send(ends.clone(), loops, gate.clone())));
        }
    }
    for _ in 0..tasks.len() {
        arrivals.recv().await.expect("every task reports");
    }
    let begin = Instant::now();
    start.close();
    let mut received = 0;
    for task in tasks {
        received += task.await.expect("no task panics");
    }
    (received, begin.elapsed().as_secs_f64())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse());
    let groups = numbers.next().transpose()?.unwrap_or(10);
    let loops = numbers.next().transpose()?.unwrap_or(1000);

    let runtime = quadrille::Runtime::new()?;
    println!("{}", runtime.handle().report());
    // A task of the runtime, so that the main thread stays out of it.
    let task = runtime.spawn(hackbench(groups, loops));
    let (received, seconds) = runtime.block_on(task)?;

    assert_eq!(received, groups * FDS * FDS * loops, "each arrives once");
    println!("{groups} groups of {FDS} x {FDS} tasks, {received} messages of 100 bytes");
    let ns = seconds * 1e9 / received as f64;
    println!("{seconds:.3} s, {ns:.0} ns a message");
    for (name, count) in runtime.metrics().total().iter() {
        println!("{name:20} {count}");
    }
    Ok(())
}
