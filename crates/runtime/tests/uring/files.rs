//! Reading, writing and syncing files.

use std::future::Future;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;

use futures_lite::future::poll_once;
use quadrille::time::{self, Duration, Instant, sleep, timeout};
use quadrille::uring::{File, IoBuf};

use crate::scratch::Scratch;
use crate::watched::watched;
use crate::{on_backends, runtime};

#[test]
fn what_is_written_is_in_the_file() {
    on_backends(|| async {
        let path = Scratch::new();
        let file = File::create(&path.0).await.unwrap();
        let sent: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[1]).collect();
        let (written, sent) = file.write_all_at(sent, 7).await;
        written.unwrap();
        let (written, text) = file.write_at("beginning", 0).await;
        assert_eq!((written.unwrap(), text), (9, "beginning"));
        file.sync_data().await.unwrap();
        file.sync_all().await.unwrap();
        let found = std::fs::read(&path.0).unwrap();
        assert_eq!(&found[..9], b"beginning");
        assert!(found[9..] == sent[2..]);
    });
}

#[test]
fn what_is_in_the_file_is_read() {
    on_backends(|| async {
        let path = Scratch::new();
        std::fs::write(&path.0, b"0123456789").unwrap();
        let file = File::open(&path.0).await.unwrap();
        let (count, buffer) = file.read_at(Vec::with_capacity(4), 3).await;
        assert_eq!(count.unwrap(), buffer.len());
        assert_eq!(buffer, b"3456789"[..buffer.len()]);
        let (count, buffer) = file.read_at(buffer, 8).await;
        assert_eq!((count.unwrap(), &buffer[..]), (2, &b"89"[..]));
        let (count, buffer) = file.read_at(buffer, 10).await;
        assert_eq!((count.unwrap(), buffer.len()), (0, 0), "it ends there");
        let (count, _) = file.read_at(Vec::new(), 0).await;
        assert_eq!(count.unwrap(), 0, "nothing fits");
    });
}

/// A buffer that says nothing of what it has.
struct Panics {
    _dropped: Arc<()>,
}

// SAFETY: it never gives bytes.
unsafe impl IoBuf for Panics {
    fn bytes(&self) -> &[u8] {
        panic!("the buffer's own")
    }
}

#[test]
fn a_panic_of_the_buffer_reaches_who_writes() {
    on_backends(|| async {
        let path = Scratch::new();
        let file = File::create(&path.0).await.unwrap();
        let lives = Arc::new(());
        let buffer = Panics {
            _dropped: Arc::clone(&lives),
        };
        let writes = quadrille::spawn(async move { file.write_at(buffer, 0).await.0 });
        let payload = writes.await.unwrap_err().into_panic();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"the buffer's own"));
        assert_eq!(Arc::strong_count(&lives), 1);
    });
}

#[test]
fn errors_bring_the_buffer_back() {
    on_backends(|| async {
        let path = Scratch::new();
        assert_eq!(File::open(&path.0).await.unwrap_err().kind(), ErrorKind::NotFound);
        std::fs::write(&path.0, b"x").unwrap();
        let only_read = File::open(&path.0).await.unwrap();
        let (written, text) = only_read.write_at(vec![1, 2, 3], 0).await;
        // EBADF: it is not open for writing.
        assert_eq!((written.unwrap_err().raw_os_error(), text), (Some(9), vec![1, 2, 3]));
        let only_write = File::create(&path.0).await.unwrap();
        let (count, buffer) = only_write.read_at(Vec::with_capacity(10), 0).await;
        assert_eq!((count.unwrap_err().raw_os_error(), buffer.len()), (Some(9), 0));
        assert!(buffer.capacity() >= 10);
    });
}

/// The same for both, though a ring has a meaning of its own for the highest one.
#[test]
fn what_is_no_offset_is_refused() {
    on_backends(|| async {
        let path = Scratch::new();
        std::fs::write(&path.0, b"0123456789").unwrap();
        let file = std::fs::File::options().read(true).write(true).open(&path.0).unwrap();
        let file = File::from_std(file);
        for offset in [u64::MAX, 1 << 63] {
            let (count, buffer) = file.read_at(Vec::with_capacity(4), offset).await;
            assert_eq!((count.unwrap_err().kind(), buffer.len()), (ErrorKind::InvalidInput, 0));
            let (written, text) = file.write_all_at("abc", offset).await;
            assert_eq!((written.unwrap_err().kind(), text), (ErrorKind::InvalidInput, "abc"));
            let written = file.write_all_at("", offset).await.0;
            assert_eq!(written.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        file.write_all_at("", 99).await.0.unwrap();
        assert_eq!(std::fs::read(&path.0).unwrap(), b"0123456789");
    });
}

/// The same for both: a ring would take what comes next, wherever it is asked to read.
#[test]
fn what_has_no_offsets_is_refused() {
    on_backends(|| async {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let file = |fd: OwnedFd| File::from_std(fd.into());
        let reads = file(reader.try_clone().unwrap().into());
        let writes = file(writer.try_clone().unwrap().into());
        let (written, text) = writes.write_at("abc", 0).await;
        assert_eq!((written.unwrap_err().kind(), text), (ErrorKind::NotSeekable, "abc"));
        writer.write_all(b"0123").unwrap();
        let (count, buffer) = reads.read_at(Vec::with_capacity(4), 1).await;
        assert_eq!((count.unwrap_err().kind(), buffer.len()), (ErrorKind::NotSeekable, 0));
        let mut left = [0; 4];
        reader.read_exact(&mut left).unwrap();
        assert_eq!(&left, b"0123");
    });
}

/// Counters and timers of the system are read as streams; it lets them be sought in all the same.
#[test]
fn a_counter_has_no_offsets() {
    on_backends(|| async {
        let counter = rustix::event::eventfd(7, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let file = File::from_std(counter.try_clone().unwrap().into());
        let (count, _) = file.read_at(Vec::with_capacity(8), 0).await;
        assert_eq!(count.unwrap_err().kind(), ErrorKind::NotSeekable);
        let (written, _) = file.write_at(vec![1; 8], 0).await;
        assert_eq!(written.unwrap_err().kind(), ErrorKind::NotSeekable);
        let mut left = [0; 8];
        assert_eq!(std::fs::File::from(counter).read(&mut left).unwrap(), 8);
        assert_eq!(u64::from_ne_bytes(left), 7);
    });
}

/// Runs what `test` makes in a task whose clock stands, by io_uring and by the fall-back.
fn on_paused_backends<F>(test: impl Fn() -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    watched(move || {
        for by_ring in [true, false] {
            let paused = |test: F| async {
                time::pause();
                test.await;
            };
            let runtime = runtime(1, by_ring);
            runtime.block_on(async { quadrille::spawn(paused(test())).await.unwrap() });
        }
    });
}

#[test]
fn a_paused_clock_does_not_jump_over_operations_on_files() {
    on_paused_backends(|| async {
        let path = Scratch::new();
        let file = File::create(&path.0).await.unwrap();
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let written = timeout(second, file.write_all_at(vec![7; 16 << 20], 0)).await;
        written.expect("no time passes").0.unwrap();
        timeout(second, file.sync_all()).await.expect("no time passes").unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

/// Whoever began it need not have heard of it.
#[test]
fn a_paused_clock_jumps_once_operations_on_files_have_ended() {
    const HOUR: Duration = Duration::from_secs(3600);

    on_paused_backends(|| async {
        let path = Scratch::new();
        let file = File::create(&path.0).await.unwrap();
        let start = Instant::now();
        let mut write = pin!(file.write_at(vec![7; 1 << 20], 0));
        let outcome = poll_once(&mut write).await;
        sleep(HOUR).await;
        assert_eq!(start.elapsed(), HOUR);
        match outcome {
            Some((written, _)) => assert_eq!(written.unwrap(), 1 << 20),
            None => assert_eq!(write.await.0.unwrap(), 1 << 20),
        }
        // Dropped before the kernel has it, and afterwards.
        for yields in [false, true] {
            let start = Instant::now();
            let mut sync = Box::pin(file.sync_all());
            let _outcome = poll_once(&mut sync).await;
            if yields {
                quadrille::task::yield_now().await;
            }
            drop(sync);
            sleep(HOUR).await;
            assert_eq!(start.elapsed(), HOUR);
        }
    });
}
