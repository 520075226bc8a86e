//! Dining philosophers: five threads, five forks between them, and each eats with two.
//!
//! The forks are locks that suspend the thread which waits for one, so five philosophers dine on any number of workers,
//! one too. Nobody starves with a fork in the hand, because each takes the lower-numbered fork first: the last of a
//! circle of waiters would have to wait for a fork with a smaller number than the one it holds.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use quadrille::sync::Mutex;
use quadrille::{Wait, thread};

const PHILOSOPHERS: usize = 5;
const MEALS: usize = 1000;

/// Counts what was eaten with it.
type Fork = Mutex<usize>;

fn dine(seat: usize, forks: &[Fork; PHILOSOPHERS]) -> usize {
    let (left, right) = (seat, (seat + 1) % PHILOSOPHERS);
    for _ in 0..MEALS {
        let mut first = forks[left.min(right)].lock().wait();
        // Thinking with one fork in the hand gives the neighbours the chance to take the other one.
        thread::yield_now();
        let mut second = forks[left.max(right)].lock().wait();
        *first += 1;
        *second += 1;
    }
    MEALS
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = quadrille::Runtime::new()?;
    let _inside = runtime.enter();

    let forks: [Fork; PHILOSOPHERS] = Default::default();
    let meals: usize = thread::scope(|table| {
        let seats: Vec<_> = (0..PHILOSOPHERS)
            .map(|seat| {
                let forks = &forks;
                table.spawn(move || dine(seat, forks))
            })
            .collect();
        seats
            .into_iter()
            .map(|seat| seat.join().expect("no philosopher panics"))
            .sum()
    });

    let uses = forks.map(Mutex::into_inner);
    assert_eq!(meals, PHILOSOPHERS * MEALS);
    assert_eq!(uses, [2 * MEALS; PHILOSOPHERS], "each fork has two neighbours");
    println!("{meals} meals with {PHILOSOPHERS} forks, each used {} times", 2 * MEALS);
    Ok(())
}
