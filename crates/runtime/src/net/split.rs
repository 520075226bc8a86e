//! The two halves of a stream, one that reads and one that writes: the types, made for each kind of stream by a macro.
//!
//! All methods of a stream take a shared reference, so the halves add no ability. They say in types who reads and who
//! writes, they implement `AsyncRead` and `AsyncWrite` for themselves, and the owned half that writes ends the writing
//! when it is dropped.

/// The halves of `$stream`, which has `fn fd` and the methods of a std socket behind it.
macro_rules! halves {
    ($stream:ident, $address:ty) => {
        /// The half of a stream that reads; from [`split`](super::$stream::split).
        #[derive(Debug)]
        pub struct ReadHalf<'a>(&'a $stream);

        /// The half of a stream that writes; from [`split`](super::$stream::split). Dropping it leaves the stream as it
        /// is.
        #[derive(Debug)]
        pub struct WriteHalf<'a>(&'a $stream);

        /// The half of a stream that reads; from [`into_split`](super::$stream::into_split). The socket is closed when
        /// both halves are gone.
        #[derive(Debug)]
        pub struct OwnedReadHalf(Arc<$stream>);

        /// The half of a stream that writes; from [`into_split`](super::$stream::into_split). Dropping it ends the
        /// writing, so that the other end reads to its end; [`forget`](Self::forget) doesn't.
        #[derive(Debug)]
        pub struct OwnedWriteHalf {
            stream: Arc<$stream>,
            end_on_drop: bool,
        }

        /// Two halves that don't belong together, as they were given to [`reunite`](OwnedReadHalf::reunite).
        #[derive(Debug)]
        pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

        impl fmt::Display for ReuniteError {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the halves are of different streams")
            }
        }

        impl std::error::Error for ReuniteError {}

        /// Splits what is borrowed.
        pub(super) fn split(stream: &$stream) -> (ReadHalf<'_>, WriteHalf<'_>) {
            (ReadHalf(stream), WriteHalf(stream))
        }

        /// Splits what is owned.
        pub(super) fn into_split(stream: $stream) -> (OwnedReadHalf, OwnedWriteHalf) {
            let stream = Arc::new(stream);
            let writer = OwnedWriteHalf {
                stream: Arc::clone(&stream),
                end_on_drop: true,
            };
            (OwnedReadHalf(stream), writer)
        }

        impl ReadHalf<'_> {
            fn stream(&self) -> &$stream {
                self.0
            }

            halves!(read, $stream, $address);
        }

        impl WriteHalf<'_> {
            fn stream(&self) -> &$stream {
                self.0
            }

            halves!(write, $stream, $address);
        }

        impl OwnedReadHalf {
            fn stream(&self) -> &$stream {
                &self.0
            }

            /// Puts the halves together again.
            ///
            /// # Errors
            ///
            /// They are of different streams; they are in the error.
            pub fn reunite(self, writer: OwnedWriteHalf) -> Result<$stream, ReuniteError> {
                if !Arc::ptr_eq(&self.0, &writer.stream) {
                    return Err(ReuniteError(self, writer));
                }
                writer.forget();
                Ok(Arc::into_inner(self.0).expect("there are two halves of a stream, and the other one is gone"))
            }

            halves!(read, $stream, $address);
        }

        impl OwnedWriteHalf {
            fn stream(&self) -> &$stream {
                &self.stream
            }

            /// Puts the halves together again.
            ///
            /// # Errors
            ///
            /// They are of different streams; they are in the error.
            pub fn reunite(self, reader: OwnedReadHalf) -> Result<$stream, ReuniteError> {
                reader.reunite(self)
            }

            /// Drops the half without ending the writing.
            pub fn forget(mut self) {
                self.end_on_drop = false;
            }

            halves!(write, $stream, $address);
        }

        impl Drop for OwnedWriteHalf {
            fn drop(&mut self) {
                if self.end_on_drop {
                    // It fails where there is nothing to end any more.
                    let _ = self.stream.shutdown(Shutdown::Write);
                }
            }
        }

        halves!(as_ref, $stream: ReadHalf<'_>, WriteHalf<'_>, OwnedReadHalf, OwnedWriteHalf);
        impl_read!(ReadHalf<'_>, OwnedReadHalf);
        impl_write!(WriteHalf<'_>, OwnedWriteHalf);
    };

    (read, $stream:ident, $address:ty) => {
        halves!(both, $stream, $address);
        read_methods!();

        /// Copies what is there, at least one byte, to `buffer`, and leaves it to be read; see
        #[doc = concat!("[`", stringify!($stream), "::peek`](super::", stringify!($stream), "::peek).")]
        ///
        /// # Errors
        ///
        /// Those of `recv(2)`; the runtime shuts down.
        ///
        /// # Cancel safety
        ///
        /// Strict: nothing is consumed.
        pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
            self.stream().peek(buffer).await
        }
    };

    (write, $stream:ident, $address:ty) => {
        halves!(both, $stream, $address);
        write_methods!();

        fn end(&self) -> io::Result<()> {
            self.stream().end()
        }
    };

    (as_ref, $stream:ident: $($half:ty),+) => {$(
        /// The stream: for its options and its descriptor. What is read or written by it the halves don't see.
        impl AsRef<$stream> for $half {
            fn as_ref(&self) -> &$stream {
                self.stream()
            }
        }
    )+};

    (both, $stream:ident, $address:ty) => {
        ready_methods!();

        fn fd(&self) -> &AsyncFd<net::$stream> {
            self.stream().fd()
        }

        /// The address of the other end.
        ///
        /// # Errors
        ///
        /// The connection is broken; others of `getpeername(2)`.
        pub fn peer_addr(&self) -> io::Result<$address> {
            self.stream().peer_addr()
        }

        /// The address of this end.
        ///
        /// # Errors
        ///
        /// Those of `getsockname(2)`.
        pub fn local_addr(&self) -> io::Result<$address> {
            self.stream().local_addr()
        }
    };
}
pub(super) use halves;
