//! Many buffers of which the first have no place, or no byte: the system looks at 1024 of those that it is given.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_lite::{AsyncRead, AsyncWrite};
use quadrille::net::{PipeReader, PipeWriter, TcpListener, TcpStream, UnixStream, pipe};
use quadrille::time::timeout;

use crate::watched::on_runtimes;

/// As many as the system looks at, all of them empty.
const EMPTY: usize = 1024;

/// The ways to read into several buffers, `poll` and `try` by their names in the API.
trait Reads: AsyncRead + Unpin {
    async fn read(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
    fn poll(&self, cx: &mut Context<'_>, buffers: &mut [IoSliceMut<'_>]) -> Poll<io::Result<usize>>;
    fn try_read(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
}

/// The ways to write from several buffers.
trait Writes: AsyncWrite + Unpin {
    async fn write(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize>;
    fn poll(&self, cx: &mut Context<'_>, buffers: &[IoSlice<'_>]) -> Poll<io::Result<usize>>;
    fn try_write(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize>;
}

macro_rules! reads {
    ($($type:ty),+) => {$(
        impl Reads for $type {
            async fn read(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.read_vectored(buffers).await
            }

            fn poll(&self, cx: &mut Context<'_>, buffers: &mut [IoSliceMut<'_>]) -> Poll<io::Result<usize>> {
                self.poll_read_vectored(cx, buffers)
            }

            fn try_read(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.try_read_vectored(buffers)
            }
        }
    )+};
}
reads!(TcpStream, UnixStream, PipeReader);

macro_rules! writes {
    ($($type:ty),+) => {$(
        impl Writes for $type {
            async fn write(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
                self.write_vectored(buffers).await
            }

            fn poll(&self, cx: &mut Context<'_>, buffers: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
                self.poll_write_vectored(cx, buffers)
            }

            fn try_write(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
                self.try_write_vectored(buffers)
            }
        }
    )+};
}
writes!(TcpStream, UnixStream, PipeWriter);

async fn soon<T>(operation: impl Future<Output = io::Result<T>>) -> T {
    let outcome = timeout(Duration::from_secs(10), operation).await;
    outcome.expect("it does not wait").unwrap()
}

/// Passes `word` on in every way to write, and in every way to read, behind buffers that are empty.
async fn check(mut writer: impl Writes, mut reader: impl Reads) {
    let word = b"hello";
    let mut full: Vec<_> = (0..EMPTY).map(|_| IoSlice::new(&[])).collect();
    full.push(IoSlice::new(word));
    let mut heard = [0; 8];
    let mut place: Vec<_> = (0..EMPTY).map(|_| IoSliceMut::new(&mut [])).collect();
    place.push(IoSliceMut::new(&mut heard));

    assert_eq!(reader.try_read(&mut place).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(writer.try_write(&full).unwrap(), word.len());
    assert_eq!(soon(reader.read(&mut place)).await, word.len());
    assert_eq!(soon(writer.write(&full)).await, word.len());
    assert_eq!(soon(poll_fn(|cx| reader.poll(cx, &mut place))).await, word.len());
    assert_eq!(soon(poll_fn(|cx| writer.poll(cx, &full))).await, word.len());
    let read = poll_fn(|cx| Pin::new(&mut reader).poll_read_vectored(cx, &mut place));
    assert_eq!(soon(read).await, word.len());
    let written = poll_fn(|cx| Pin::new(&mut writer).poll_write_vectored(cx, &full));
    assert_eq!(soon(written).await, word.len());
    // What is there is known once there was a wait for it.
    let mut first = [0];
    assert_eq!(soon(reader.read(&mut [IoSliceMut::new(&mut first)])).await, 1);
    assert_eq!(reader.try_read(&mut place).unwrap(), word.len() - 1);

    drop(writer);
    assert_eq!(soon(reader.read(&mut place)).await, 0, "and the end is the end");
}

#[test]
fn a_place_behind_many_empty_buffers_is_found() {
    on_runtimes(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        check(client, server).await;
        let (left, right) = UnixStream::pair().unwrap();
        check(left, right).await;
        let (reader, writer) = pipe().unwrap();
        check(writer, reader).await;
    });
}

/// Passes on `buffers`, with an empty one before and after each, and all of a stream comes in order.
async fn passes_on(writer: &impl Writes, reader: &impl Reads, buffers: &[&[u8]]) {
    let mut slices = vec![IoSlice::new(&[])];
    slices.extend(
        buffers
            .iter()
            .flat_map(|buffer| [IoSlice::new(buffer), IoSlice::new(&[])]),
    );
    let all = buffers.concat();
    assert_eq!(soon(writer.write(&slices)).await, all.len());
    let mut heard = vec![0; all.len() + 1];
    assert_eq!(soon(reader.read(&mut [IoSliceMut::new(&mut heard)])).await, all.len());
    assert!(
        heard.starts_with(&all),
        "{} bytes in {} buffers",
        all.len(),
        buffers.len()
    );
}

#[test]
fn few_and_many_bytes_from_several_buffers_come_in_order() {
    on_runtimes(|| async {
        let bytes: Vec<u8> = (0..=250).cycle().take(3000).collect();
        let (left, right) = UnixStream::pair().unwrap();
        let (reader, writer) = pipe().unwrap();
        // A kibibyte is where one way to write ends and another begins.
        for length in [1_usize, 2, 1023, 1024, 1025, 3000] {
            for part in [1, 7, length] {
                // No more than the system looks at.
                let part = part.max(length.div_ceil(500));
                let buffers: Vec<_> = bytes[..length].chunks(part).collect();
                passes_on(&left, &right, &buffers).await;
                passes_on(&writer, &reader, &buffers).await;
            }
        }
    });
}
