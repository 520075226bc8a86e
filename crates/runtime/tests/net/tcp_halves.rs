//! Streams in two halves.

use std::io::{Read, Write};
use std::thread;

use futures_lite::future::zip;
use futures_lite::{AsyncReadExt, AsyncWriteExt};
use quadrille::io::Interest;

use crate::tcp::connection;
use crate::watched::on_runtimes;

#[test]
fn borrowed_halves_work_at_the_same_time() {
    on_runtimes(|| async {
        let (mut ours, mut theirs) = connection().await;
        let peer = thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                match theirs.read(&mut buffer).unwrap() {
                    0 => break,
                    count => theirs.write_all(&buffer[..count]).unwrap(),
                }
            }
        });
        let sent: Vec<u8> = (0..200_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let mut received = vec![0; sent.len()];
        let (reader, writer) = ours.split();
        let (wrote, read) = zip(writer.write_all(&sent), reader.read_exact(&mut received)).await;
        wrote.unwrap();
        read.unwrap();
        assert!(sent == received);
        // The writing goes on without the halves.
        ours.write_all(b"still open").await.unwrap();
        ours.read_exact(&mut received[..10]).await.unwrap();
        assert_eq!(&received[..10], b"still open");
        drop(ours);
        peer.join().unwrap();
    });
}

#[test]
fn owned_halves_go_to_different_tasks() {
    on_runtimes(|| async {
        let (ours, mut theirs) = connection().await;
        let peer = thread::spawn(move || {
            let mut all = Vec::new();
            // Comes to its end because the writing half is dropped, though the other one lives.
            theirs.read_to_end(&mut all).unwrap();
            theirs.write_all(&all).unwrap();
        });
        let (reader, writer) = ours.into_split();
        let write = quadrille::spawn(async move {
            for round in 0..=255 {
                writer.write_all(&[round; 100]).await.unwrap();
            }
        });
        let read = quadrille::spawn(async move {
            let mut all = Vec::new();
            let mut reader = reader;
            AsyncReadExt::read_to_end(&mut reader, &mut all).await.unwrap();
            all
        });
        write.await.unwrap();
        assert_eq!(read.await.unwrap().len(), 25_600);
        peer.join().unwrap();
    });
}

#[test]
fn halves_reunite_if_they_belong_together() {
    on_runtimes(|| async {
        let (ours, mut theirs) = connection().await;
        let (other, _peer) = connection().await;
        let address = ours.local_addr().unwrap();
        let (reader, writer) = ours.into_split();
        assert_eq!(
            (reader.local_addr().unwrap(), writer.local_addr().unwrap()),
            (address, address)
        );
        let (other_reader, other_writer) = other.into_split();
        let error = reader.reunite(other_writer).unwrap_err();
        assert!(error.to_string().contains("different streams"));
        let (reader, other_writer) = (error.0, error.1);
        drop(other_writer.reunite(other_reader).unwrap());
        let ours = writer.reunite(reader).unwrap();
        ours.write_all(b"a").await.unwrap();
        theirs.read_exact(&mut [0]).unwrap();
        theirs.write_all(b"b").unwrap();
        ours.read_exact(&mut [0]).await.unwrap();
    });
}

#[test]
fn a_forgotten_half_ends_nothing() {
    on_runtimes(|| async {
        let (ours, mut theirs) = connection().await;
        let (reader, mut writer) = ours.into_split();
        AsyncWriteExt::write_all(&mut writer, b"a").await.unwrap();
        writer.forget();
        theirs.read_exact(&mut [0]).unwrap();
        theirs.set_nonblocking(true).unwrap();
        assert_eq!(
            theirs.read(&mut [0]).unwrap_err().kind(),
            std::io::ErrorKind::WouldBlock,
            "the connection isn't ended"
        );
        theirs.write_all(b"b").unwrap();
        assert_eq!(reader.peek(&mut [0; 2]).await.unwrap(), 1);
    });
}

#[test]
fn halves_lend_their_stream_and_say_what_is_ready() {
    on_runtimes(|| async {
        let (mut ours, mut theirs) = connection().await;
        let (reader, writer) = ours.split();
        writer.as_ref().set_nodelay(true).unwrap();
        assert!(reader.as_ref().nodelay().unwrap());
        assert!(writer.ready(Interest::WRITABLE).await.unwrap().is_writable());
        let (reader, writer) = ours.into_split();
        assert!(writer.as_ref().nodelay().unwrap());
        theirs.write_all(b"x").unwrap();
        assert!(reader.ready(Interest::READABLE).await.unwrap().is_readable());
        assert_eq!(reader.as_ref().peek(&mut [0; 2]).await.unwrap(), 1);
    });
}
