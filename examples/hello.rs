//! The smallest program: tasks, a channel between them, and a result.
#![expect(clippy::print_stdout, reason = "a program prints")]

use quadrille::sync::mpmc;

#[quadrille::main]
async fn main() {
    let (sender, receiver) = mpmc::bounded(16);
    for worker in 0..4 {
        let sender = sender.clone();
        // Dropping the handle detaches the task.
        quadrille::spawn(async move { sender.send(format!("hello from task {worker}")).await });
    }
    drop(sender);

    let printer = quadrille::spawn(async move {
        let mut count = 0;
        while let Ok(line) = receiver.recv().await {
            println!("{line}");
            count += 1;
        }
        count
    });
    let count = printer.await.expect("the printer doesn't panic");
    assert_eq!(count, 4);
}
