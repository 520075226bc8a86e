//! Futures that stay where they are, on the stack.

/// Pins futures on the stack, by the names that they have; tokio's by name. The same as
/// `let mut future = std::pin::pin!(future)` for each.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::time::{Duration, Instant, sleep};
///
/// let idle = sleep(Duration::from_secs(3600));
/// quadrille::pin!(idle);
/// idle.as_mut().reset(Instant::now() + Duration::from_millis(1));
/// (&mut idle).await;
///
/// quadrille::pin! {
///     let one = async { 1 };
///     let two = async { 2 };
/// }
/// assert_eq!((one.await, two.await), (1, 2));
/// # });
/// ```
#[macro_export]
macro_rules! pin {
    ($($future:ident),* $(,)?) => {
        $(
            #[allow(unused_mut, reason = "not all of them are polled by reference")]
            let mut $future = ::core::pin::pin!($future);
        )*
    };
    ($(let $future:ident = $made:expr;)*) => {
        $(
            #[allow(unused_mut, reason = "not all of them are polled by reference")]
            let mut $future = ::core::pin::pin!($made);
        )*
    };
}
