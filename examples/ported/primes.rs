// A program for `std::thread`, without its `use std::thread;`: ../ported.rs puts that above it, and another line in its
// place.

/// Numbers that a worker takes at a time.
const CHUNK: u32 = 500;

/// Counts the primes below `limit`.
pub(super) fn count(limit: u32, workers: usize) -> usize {
    let next = AtomicU32::new(2);
    let count_some = || {
        let mut found = 0;
        loop {
            // Relaxed: each number is handed out once, whoever sees it when.
            let first = next.fetch_add(CHUNK, Ordering::Relaxed);
            if first >= limit {
                return found;
            }
            let chunk = first..limit.min(first + CHUNK);
            found += chunk.filter(|&number| is_prime(number)).count();
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(count_some)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    })
}

fn is_prime(number: u32) -> bool {
    (2..)
        .take_while(|divisor| divisor * divisor <= number)
        .all(|divisor| !number.is_multiple_of(divisor))
}

/// What a thread called `name` says when somebody wakes it.
pub(super) fn greeting_of(name: &str) -> String {
    let sleeper = thread::Builder::new()
        .name(name.to_owned())
        .spawn(|| {
            thread::park();
            thread::sleep(Duration::from_millis(1));
            format!("{} is awake", thread::current().name().unwrap())
        })
        .unwrap();
    sleeper.thread().unpark();
    sleeper.join().unwrap()
}
