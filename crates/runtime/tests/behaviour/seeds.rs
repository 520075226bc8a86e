//! The same seed, the same course; another one, another course.

use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quadrille::policy::Config;
use quadrille::time::sleep;
use quadrille::{Runtime, select, sync::mpmc};

/// What happened, in order.
type Log = Arc<Mutex<Vec<u64>>>;

/// What is polled first of three that are ready.
async fn any_of_three() -> u64 {
    select! { n = ready(0) => n, n = ready(1) => n, n = ready(2) => n }
}

fn paused(seed: u64) -> Runtime {
    Runtime::builder().start_paused(true).seed(seed).build().unwrap()
}

/// Which branches the body takes, which the tasks do, and in which order tasks run, of which each works for `work`
/// every time.
fn course(runtime: &Runtime, work: Duration) -> Vec<u64> {
    let log = Log::default();
    runtime.block_on(async {
        let (tx, rx) = mpmc::bounded::<u64>(3);
        for number in 0..150 {
            let (log, tx) = (log.clone(), tx.clone());
            drop(quadrille::spawn(async move {
                for round in 0..3 {
                    let begin = Instant::now();
                    while begin.elapsed() < work {
                        std::hint::spin_loop();
                    }
                    match any_of_three().await {
                        0 => sleep(Duration::from_millis(number % 5)).await,
                        1 => drop(quadrille::spawn(note(log.clone(), 10_000 + number))),
                        _ => quadrille::task::yield_now().await,
                    }
                    log.lock().unwrap().push(1_000 * round + number);
                }
                tx.send(number).await.unwrap();
            }));
        }
        drop(tx);
        while let Ok(number) = rx.recv().await {
            let branch = any_of_three().await;
            log.lock().unwrap().push(20_000 + number * 10 + branch);
            if branch == 0 {
                // From outside: through the injector.
                drop(quadrille::spawn(note(log.clone(), 30_000 + number)));
            }
        }
    });
    std::mem::take(&mut log.lock().unwrap())
}

async fn note(log: Log, number: u64) {
    log.lock().unwrap().push(number);
}

/// Nor does it matter what ran before on this thread, nor how long the tasks take.
#[test]
fn a_seed_determines_the_course() {
    let (quick, slow) = (Duration::ZERO, Duration::from_micros(60));
    let first = course(&paused(7), quick);
    assert!(first.len() >= 150 * 4, "{}", first.len());
    for round in 0..5 {
        let _other = Runtime::builder()
            .build()
            .unwrap()
            .block_on(async { any_of_three().await });
        let work = if round % 2 == 0 { slow } else { quick };
        assert_eq!(course(&paused(7), work), first, "round {round}");
    }
}

#[test]
fn another_seed_gives_another_course() {
    let of = |seed| course(&paused(seed), Duration::ZERO);
    let (first, second) = (of(1), of(2));
    let of_body = |course: &[u64]| {
        course
            .iter()
            .copied()
            .filter(|n| (20_000..30_000).contains(n))
            .collect::<Vec<_>>()
    };
    let of_tasks = |course: &[u64]| course.iter().copied().filter(|n| *n < 20_000).collect::<Vec<_>>();
    assert_ne!(of_body(&first), of_body(&second));
    assert_ne!(of_tasks(&first), of_tasks(&second));
}

/// Each `block_on` of a runtime has a generator of its own, and gives back the one that it came in.
#[test]
fn calls_of_block_on_draw_apart() {
    let draws = |runtime: &Runtime| runtime.block_on(async { many().await });
    let both = |nested: bool| {
        let (runtime, inner) = (paused(3), paused(4));
        let first = runtime.block_on(async {
            let mut course = many().await;
            if nested {
                assert_eq!(draws(&inner), draws(&paused(4)));
            }
            course.extend(many().await);
            course
        });
        (first, draws(&runtime))
    };
    let (first, second) = both(false);
    assert_ne!(first[..64], second[..]);
    assert_eq!(both(true), (first, second));
}

async fn many() -> Vec<u64> {
    let mut course = Vec::new();
    for _ in 0..64 {
        course.push(any_of_three().await);
    }
    course
}

#[test]
fn a_seed_is_that_of_the_configuration_unless_the_builder_has_one() {
    let with = |config: Config, seed: Option<u64>| {
        let builder = Runtime::builder().worker_threads(1).config(config);
        let builder = match seed {
            Some(seed) => builder.seed(seed),
            None => builder,
        };
        builder.build().unwrap().block_on(many())
    };
    let config = |seed| Config {
        seed,
        ..Config::default()
    };
    assert_eq!(with(config(9), None), with(config(1), Some(9)));
    assert_ne!(with(config(9), None), with(config(1), None));
    assert_eq!(with(Config::default(), None), with(config(1), Some(0x5EED)));
}

#[quadrille::test(start_paused = true, seed = 0x5EED)]
async fn the_attribute_has_a_seed() {
    let expected = std::thread::spawn(|| paused(0x5EED).block_on(many())).join().unwrap();
    assert_eq!(many().await, expected);
}
