//! The connections of a listener as a stream: the types, made for each kind of listener by a macro.

/// The streams of `$listener`, which has `fn poll_accept`; to be called where no other type has their names.
macro_rules! incoming {
    ($listener:ident, $stream:ident) => {
        impl $listener {
            /// The connections as a stream without an end. Of several such streams of one listener only the last is
            /// woken; let several tasks call [`accept`](Self::accept) instead.
            pub fn incoming(&self) -> Incoming<'_> {
                Incoming { listener: self }
            }

            /// The same as a stream that has the listener: to be spawned, or kept.
            pub fn into_incoming(self) -> IntoIncoming {
                IntoIncoming { listener: self }
            }
        }

        #[doc = concat!("The connections of a listener; from [`", stringify!($listener), "::incoming`].")]
        #[derive(Debug)]
        #[must_use = "streams do nothing unless polled"]
        pub struct Incoming<'a> {
            listener: &'a $listener,
        }

        #[doc = concat!("The connections of a listener, and the listener; from [`", stringify!($listener), "::into_incoming`].")]
        #[derive(Debug)]
        #[must_use = "streams do nothing unless polled"]
        pub struct IntoIncoming {
            listener: $listener,
        }

        impl IntoIncoming {
            /// The listener again.
            pub fn into_inner(self) -> $listener {
                self.listener
            }
        }

        impl AsRef<$listener> for IntoIncoming {
            fn as_ref(&self) -> &$listener {
                &self.listener
            }
        }

        impl Stream for Incoming<'_> {
            type Item = io::Result<$stream>;

            fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
                let accepted = self.listener.poll_accept(cx);
                accepted.map(|accepted| Some(accepted.map(|(stream, _)| stream)))
            }
        }

        impl Stream for IntoIncoming {
            type Item = io::Result<$stream>;

            fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
                Pin::new(&mut self.listener.incoming()).poll_next(cx)
            }
        }
    };
}
pub(super) use incoming;
