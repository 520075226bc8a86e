//! Panics of the user's: such as end where they are, and such as go on once all is done.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Calls `f`, which runs destructors, wakers or hooks of the user's, and lets no panic out of them: it has been
/// reported by the panic hook, and others are none the worse.
pub(crate) fn quietly(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        // Its own destructor might panic as well, and nobody is left to be told.
        mem::forget(payload);
    }
}

/// Runs steps of which each is to be done though the one before it panics: the first panic goes on after the last step.
#[derive(Default)]
pub(crate) struct FirstPanic(Option<Box<dyn Any + Send>>);

impl FirstPanic {
    pub(crate) fn catch(&mut self, step: impl FnOnce()) {
        match catch_unwind(AssertUnwindSafe(step)) {
            Err(payload) if self.0.is_none() => self.0 = Some(payload),
            // Reported by the panic hook; its destructor may panic as well.
            Err(payload) => mem::forget(payload),
            Ok(()) => {}
        }
    }

    pub(crate) fn go_on(self) {
        if let Some(payload) = self.0 {
            resume_unwind(payload);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #[cfg(not(quadrille_loom))]
    use std::sync::Arc;
    #[cfg(not(quadrille_loom))]
    use std::task::{Wake, Waker};

    use super::*;

    /// Panics when it is dropped, also as the payload of another panic.
    #[derive(Debug)]
    pub(crate) struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("for the test, from a destructor");
        }
    }

    /// Panics whenever it is called.
    #[cfg(not(quadrille_loom))]
    pub(crate) fn waker_that_panics() -> Waker {
        struct Panics;
        impl Wake for Panics {
            fn wake(self: Arc<Self>) {
                panic!("for the test, from a waker");
            }
        }
        Waker::from(Arc::new(Panics))
    }

    #[test]
    fn the_first_panic_goes_on_when_all_is_done() {
        let mut done = Vec::new();
        let steps = || {
            let mut panic = FirstPanic::default();
            for step in 0..4 {
                panic.catch(|| {
                    done.push(step);
                    match step {
                        1 => panic!("the first"),
                        2 => std::panic::panic_any(Bomb),
                        _ => {}
                    }
                });
            }
            panic.go_on();
        };
        let payload = catch_unwind(AssertUnwindSafe(steps)).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"the first"));
        assert_eq!(done, [0, 1, 2, 3]);
    }
}
