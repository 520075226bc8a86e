//! A program for `std::thread`, ported by changing one line of it:
//!
//! ```diff
//! -use std::thread;
//! +use quadrille::thread;
//! ```
//!
//! The rest is in `ported/primes.rs`: scopes and what they borrow, names, parking, sleeping, joining. It is compiled
//! here under either line, and both must come to the same. The threads of one are the operating system's, those of the
//! other are user-level threads of the runtime that `main` has entered, so that a thousand of them are nothing special.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

mod original {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Duration;

    include!("ported/primes.rs");
}

mod ported {
    use quadrille::thread;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    include!("ported/primes.rs");
}

fn main() -> Result<(), quadrille::BuildError> {
    let runtime = quadrille::Runtime::new()?;
    let _inside = runtime.enter();

    let primes = original::count(100_000, 10);
    assert_eq!(primes, 9592);
    assert_eq!(ported::count(100_000, 1000), primes);
    assert_eq!(original::greeting_of("Ada"), "Ada is awake");
    assert_eq!(ported::greeting_of("Ada"), "Ada is awake");
    println!("{primes} primes below 100,000, counted by 10 threads, and by 1000 user-level threads");
    Ok(())
}
