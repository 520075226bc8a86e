//! Writing nothing.

use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice};
use std::pin::pin;
use std::time::Duration;

use futures_lite::AsyncWriteExt;
use futures_lite::future::poll_once;
use quadrille::net::{TcpListener, TcpStream, UnixStream, pipe};
use quadrille::time::timeout;

use crate::watched::on_runtimes;

const LIMIT: Duration = Duration::from_secs(10);

/// Nothing has room everywhere. What the system says of the other end it says all the same.
#[test]
fn nothing_is_written_without_a_wait_for_room() {
    /// In every way to write nothing; as each of them answers.
    macro_rules! writes {
        ($writer:expr) => {{
            let writer = &$writer;
            let none: [IoSlice<'_>; 2] = [IoSlice::new(&[]), IoSlice::new(&[])];
            let writes = async {
                [
                    writer.write(&[]).await,
                    writer.write_vectored(&none).await,
                    writer.write_vectored(&[]).await,
                    poll_fn(|cx| writer.poll_write(cx, &[])).await,
                    poll_fn(|cx| writer.poll_write_vectored(cx, &none)).await,
                    AsyncWriteExt::write(&mut &*writer, &[]).await,
                    AsyncWriteExt::write_vectored(&mut &*writer, &none).await,
                ]
            };
            timeout(LIMIT, writes).await.expect("it waits for room")
        }};
    }
    macro_rules! check {
        ($writer:ident, $reader:ident) => {
            let writer = &$writer;
            while writer.try_write(&[0; 4096]).is_ok() {}
            assert!(poll_once(pin!(writer.write(b"a"))).await.is_none(), "it is full");
            for written in writes!($writer) {
                assert_eq!(written.unwrap(), 0);
            }
            drop($reader);
        };
    }
    on_runtimes(|| async {
        let (near, far) = UnixStream::pair().unwrap();
        check!(near, far);
        for written in writes!(near) {
            assert_eq!(written.unwrap_err().kind(), ErrorKind::BrokenPipe);
        }
        let (reader, writer) = pipe().unwrap();
        check!(writer, reader);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        check!(client, server);
    });
}
