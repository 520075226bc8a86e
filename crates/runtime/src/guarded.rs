//! A closure and a guard that outlives it.

/// Dropped in this order.
struct Guarded<F, G> {
    f: F,
    guard: G,
}

impl<F, G> Guarded<F, G> {
    fn run<R>(self) -> R
    where
        F: FnOnce() -> R,
    {
        let Self { f, guard } = self;
        let result = f();
        drop(guard);
        result
    }
}

/// `f`, and a guard that is dropped after it: when the call has returned or panicked, or, if there is none, when all
/// that `f` has captured is dropped. A closure that captured both would drop them in an order that nobody promises.
pub(crate) fn guarded<F: FnOnce() -> R, R, G>(f: F, guard: G) -> impl FnOnce() -> R + use<F, R, G> {
    let guarded = Guarded { f, guard };
    move || guarded.run()
}
