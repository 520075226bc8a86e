//! Futures that are dropped before they are ready.

use std::future::Future;
use std::io::{self, Read, Write};
use std::net;
use std::os::fd::AsRawFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use futures_lite::future::{block_on, poll_once};
use quadrille::uring::{File, IoBuf, TcpStream};

use crate::scratch::Scratch;
use crate::watched::watched;
use crate::{connection, listen, on_backends, runtime};

/// What the worker has queued before is with the kernel, once something has gone to and fro that was queued after it.
async fn hand_over((ours, theirs): &(TcpStream, net::TcpStream)) {
    ours.write_all("!").await.0.unwrap();
    let mut theirs: &net::TcpStream = theirs;
    theirs.read_exact(&mut [0]).unwrap();
}

#[test]
fn a_read_that_is_dropped_leaves_what_comes_later() {
    on_backends(|| async {
        let (ours, mut theirs) = connection().await;
        let other = connection().await;
        for round in 0..200_u8 {
            {
                let mut read = pin!(ours.read(Vec::with_capacity(64)));
                assert!(poll_once(&mut read).await.is_none());
                // Dropped before the kernel has it, or afterwards.
                if round % 2 == 0 {
                    hand_over(&other).await;
                    assert!(poll_once(&mut read).await.is_none());
                }
            }
            theirs.write_all(&[round]).unwrap();
            let (count, buffer) = ours.read(Vec::with_capacity(64)).await;
            assert_eq!((count.unwrap(), &buffer[..]), (1, &[round][..]));
        }
    });
}

#[test]
fn an_accept_that_is_dropped_leaves_who_comes_later() {
    on_backends(|| async {
        let (listener, address) = listen().await;
        let other = connection().await;
        for round in 0..20 {
            {
                let mut accept = pin!(listener.accept());
                assert!(poll_once(&mut accept).await.is_none());
                if round % 2 == 0 {
                    hand_over(&other).await;
                }
            }
            let client = net::TcpStream::connect(address).unwrap();
            let (_, peer) = listener.accept().await.unwrap();
            assert_eq!(peer, client.local_addr().unwrap());
        }
    });
}

/// A buffer that tells when it is dropped.
struct Told(Vec<u8>, Sender<usize>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.1.send(self.0.len());
    }
}

// SAFETY: the bytes are a vector's, which nobody changes.
unsafe impl IoBuf for Told {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A write that waits for room keeps its buffer until the kernel has let go of it; then it is dropped, and the socket
/// closed.
#[test]
fn a_write_that_is_dropped_gives_its_buffer_and_its_socket_back() {
    on_backends(|| async {
        let (ours, mut theirs) = connection().await;
        let other = connection().await;
        let (dropped, told) = channel();
        // More than the socket holds, so that some write has to wait.
        let mut writes = 0;
        loop {
            let mut write = Box::pin(ours.write(Told(vec![7; 1 << 20], dropped.clone())));
            let mut written = poll_once(&mut write).await;
            if written.is_none() {
                hand_over(&other).await;
                written = poll_once(&mut write).await;
            }
            writes += 1;
            if written.is_none() {
                break;
            }
        }
        drop(ours);
        let hear = move || {
            let mut heard = Vec::new();
            theirs.read_to_end(&mut heard).map(|_| heard)
        };
        let heard = quadrille::spawn_blocking(hear).await.unwrap().unwrap();
        assert!(heard.iter().all(|byte| *byte == 7));
        drop(dropped);
        let lengths = quadrille::spawn_blocking(move || told.iter().collect::<Vec<_>>())
            .await
            .unwrap();
        assert_eq!(lengths, vec![1 << 20; writes], "each once");
    });
}

/// What a thread has begun that ends before it is done is done for whoever goes on with it.
#[test]
fn an_operation_outlives_the_thread_that_began_it() {
    watched(|| {
        for by_ring in [true, false] {
            let runtime = runtime(2, by_ring);
            let (ours, mut theirs) = runtime.block_on(connection());
            let ours = Arc::new(ours);
            let mut read: Pin<Box<dyn Future<Output = Vec<u8>> + Send>> = Box::pin(async move {
                let (count, buffer) = ours.read(Vec::with_capacity(16)).await;
                count.unwrap();
                buffer
            });
            let began = thread::spawn(move || {
                assert!(block_on(poll_once(&mut read)).is_none());
                read
            });
            let read = began.join().unwrap();
            theirs.write_all(b"late").unwrap();
            assert_eq!(runtime.block_on(read), b"late");
        }
    });
}

const PAGE: usize = 4096;

/// A file of 8 MiB, each of whose pages is full of its number.
fn numbered(path: &Scratch) -> std::fs::File {
    let numbers: Vec<u8> = (0..8 << 20).map(|n: usize| (n / PAGE).to_le_bytes()[0]).collect();
    std::fs::write(&path.0, numbers).unwrap();
    let file = std::fs::File::open(&path.0).unwrap();
    file.sync_all().unwrap();
    file
}

/// Has the system forget what it keeps of a file in memory, if it is on a disk.
fn forget_pages(file: &File) {
    // SAFETY: no pointers, and the descriptor is open.
    let result = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(result, 0);
}

type Page = (io::Result<usize>, Vec<u8>);

/// As above, for what waits for a disk: the kernel gives that up in another way.
#[test]
fn a_read_from_a_disk_outlives_the_thread_that_began_it() {
    watched(|| {
        for by_ring in [true, false] {
            let runtime = runtime(2, by_ring);
            let path = Scratch::new();
            let guard = runtime.enter();
            let file = Arc::new(File::from_std(numbered(&path)));
            drop(guard);
            for _ in 0..20 {
                forget_pages(&file);
                let (file, handle) = (Arc::clone(&file), runtime.handle().clone());
                let began = thread::spawn(move || {
                    let _guard = handle.enter();
                    // Far apart, so that none is read ahead.
                    let read = |number: usize| {
                        let file = Arc::clone(&file);
                        let page = number * 150;
                        let read = async move {
                            let (count, buffer) = file.read_at(Vec::with_capacity(PAGE), (page * PAGE) as u64).await;
                            (count, buffer)
                        };
                        (page, Box::pin(read) as Pin<Box<dyn Future<Output = Page> + Send>>)
                    };
                    let mut reads: Vec<_> = (0..13).map(read).collect();
                    reads.retain_mut(|(_, read)| block_on(poll_once(read)).is_none());
                    reads
                });
                for (page, read) in began.join().unwrap() {
                    let (count, buffer) = runtime.block_on(read);
                    assert_eq!(count.unwrap(), buffer.len());
                    assert!(!buffer.is_empty() && buffer.iter().all(|byte| *byte == page.to_le_bytes()[0]));
                }
            }
        }
    });
}
