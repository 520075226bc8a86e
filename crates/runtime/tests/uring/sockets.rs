//! Accepting, reading, writing.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{self, Shutdown};
use std::sync::Arc;
use std::thread;

use quadrille::uring::TcpStream;
use quadrille::{Handle, JoinSet, Wait};

use crate::greedy::all_give_way;
use crate::watched::watched;
use crate::{connection, listen, on_backends, runtime};

#[test]
fn what_is_written_is_read_by_the_other_end() {
    on_backends(|| async {
        let (ours, mut theirs) = connection().await;
        theirs.write_all(b"question").unwrap();
        let (count, mut buffer) = ours.read(Vec::with_capacity(100)).await;
        assert_eq!((count.unwrap(), &buffer[..]), (8, &b"question"[..]));
        assert!(buffer.capacity() >= 100);
        buffer.extend_from_slice(b" and answer");
        let (written, buffer) = ours.write(buffer).await;
        assert_eq!(written.unwrap(), buffer.len());
        let mut heard = [0; 19];
        theirs.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"question and answer");
    });
}

#[test]
fn a_buffer_is_filled_from_its_beginning_and_no_further_than_it_has_room() {
    on_backends(|| async {
        let (ours, mut theirs) = connection().await;
        theirs.write_all(b"abcdef").unwrap();
        let mut buffer = Vec::with_capacity(4);
        buffer.extend_from_slice(b"xyz");
        let capacity = buffer.capacity();
        let mut heard = Vec::new();
        while heard.len() < 6 {
            let (count, again) = ours.read(buffer).await;
            assert!(count.unwrap() <= capacity);
            heard.extend_from_slice(&again);
            buffer = again;
        }
        assert_eq!(heard, b"abcdef");
        let (count, empty) = ours.read(Vec::new()).await;
        assert_eq!((count.unwrap(), empty.capacity()), (0, 0));
    });
}

/// More than sockets hold: what is not taken at once is written by and by.
#[test]
fn much_is_written_to_its_end() {
    on_backends(|| async {
        let (ours, mut theirs) = connection().await;
        let sent: Vec<u8> = (0..8_000_000_u32)
            .map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[2])
            .collect();
        let reader = thread::spawn(move || {
            let mut heard = Vec::new();
            theirs.read_to_end(&mut heard).unwrap();
            heard
        });
        let (written, sent) = ours.write_all(sent).await;
        written.unwrap();
        ours.shutdown(Shutdown::Write).unwrap();
        let heard = quadrille::spawn_blocking(move || reader.join().unwrap()).await.unwrap();
        assert!(heard == sent);
    });
}

#[test]
fn every_kind_of_buffer_is_written() {
    on_backends(|| async {
        let (ours, mut theirs) = connection().await;
        ours.write_all("a").await.0.unwrap();
        ours.write_all(&b"b"[..]).await.0.unwrap();
        ours.write_all("c".to_owned()).await.0.unwrap();
        ours.write_all(Box::<[u8]>::from(&b"d"[..])).await.0.unwrap();
        ours.write_all(Arc::<[u8]>::from(&b"e"[..])).await.0.unwrap();
        ours.write_all(vec![b'f']).await.0.unwrap();
        let mut heard = [0; 6];
        theirs.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"abcdef");
    });
}

#[test]
fn the_end_and_a_broken_connection_are_told() {
    on_backends(|| async {
        let (ours, theirs) = connection().await;
        drop(theirs);
        let (count, buffer) = ours.read(Vec::with_capacity(8)).await;
        assert_eq!((count.unwrap(), buffer.len()), (0, 0));

        let (ours, theirs) = connection().await;
        socket2::SockRef::from(&theirs)
            .set_linger(Some(std::time::Duration::ZERO))
            .unwrap();
        drop(theirs);
        let (count, buffer) = ours.read(Vec::with_capacity(8)).await;
        assert_eq!(count.unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert!(buffer.is_empty() && buffer.capacity() >= 8, "it comes back");
        let (written, text) = ours.write_all("never").await;
        assert_eq!((written.unwrap_err().kind(), text), (ErrorKind::BrokenPipe, "never"));
    });
}

#[test]
fn each_connection_is_accepted_once() {
    on_backends(|| async {
        const CONNECTIONS: usize = 100;
        let (listener, address) = listen().await;
        let listener = Arc::new(listener);
        let mut accepting = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let listener = Arc::clone(&listener);
            accepting.spawn(async move {
                let (stream, peer) = listener.accept().await.unwrap();
                assert_eq!(stream.peer_addr().unwrap(), peer);
                assert_eq!(stream.local_addr().unwrap(), listener.local_addr().unwrap());
                peer
            });
        }
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|_| net::TcpStream::connect(address).unwrap())
            .collect();
        let mut peers = BTreeSet::new();
        while let Some(peer) = accepting.join_next().await {
            assert!(peers.insert(peer.unwrap()), "accepted twice");
        }
        assert_eq!(
            peers,
            clients.iter().map(|client| client.local_addr().unwrap()).collect()
        );
    });
}

#[test]
fn both_ends_may_be_ours() {
    on_backends(|| async {
        let (listener, address) = listen().await;
        let server = quadrille::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut buffer = Vec::with_capacity(64);
            loop {
                let (count, heard) = stream.read(buffer).await;
                if count.unwrap() == 0 {
                    return;
                }
                let (sent, again) = stream.write_all(heard).await;
                sent.unwrap();
                buffer = again;
            }
        });
        let client = TcpStream::connect(address).await.unwrap();
        client.set_nodelay(true).unwrap();
        for round in 0..1000_u32 {
            client.write_all(round.to_le_bytes().to_vec()).await.0.unwrap();
            let mut heard = Vec::new();
            while heard.len() < 4 {
                let (count, buffer) = client.read(Vec::with_capacity(64)).await;
                assert!(count.unwrap() > 0);
                heard.extend_from_slice(&buffer);
            }
            assert_eq!(heard, round.to_le_bytes());
        }
        drop(client);
        server.await.unwrap();
    });
}

/// On user-level threads, and on threads that are no workers, which hand over by themselves.
#[test]
fn threads_of_both_kinds_wait_for_operations() {
    watched(|| {
        for by_ring in [true, false] {
            let runtime = runtime(2, by_ring);
            let (ours, mut theirs) = runtime.block_on(connection());
            theirs.write_all(b"one").unwrap();
            let (count, buffer) = runtime.block_on(ours.read(Vec::with_capacity(16)));
            assert_eq!(&buffer[..count.unwrap()], b"one");
            let thread = runtime.spawn_thread(move || {
                let (count, buffer) = ours.read(Vec::with_capacity(16)).wait();
                count.unwrap();
                ours.write_all(buffer).wait().0.unwrap();
            });
            theirs.write_all(b"two").unwrap();
            let mut heard = [0; 3];
            theirs.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"two");
            thread.join().unwrap();
        }
    });
}

/// Where there is nothing to write nobody waits; it counts as an operation all the same.
#[test]
fn who_writes_nothing_gives_way() {
    on_backends(|| async {
        // Not all of the futures are `Send`.
        let task = Handle::current().spawn_pinned(|| async {
            all_give_way! {
                "write_all of nothing": connection().await => |s| s.0.write_all(Vec::new()).await.0.unwrap();
            }
        });
        task.await.unwrap();
    });
}
