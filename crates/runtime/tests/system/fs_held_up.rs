//! Operations on files that are held up, dropped, or can't begin.

use std::io::{self, ErrorKind, SeekFrom};
use std::os::fd::AsFd as _;
use std::pin::pin;
use std::sync::mpsc;
use std::time::Duration;

use futures_lite::future::{block_on, poll_once};
use quadrille::Runtime;
use quadrille::fs::{self, File};
use quadrille::task::yield_now;

use crate::scratch::Scratch;

/// A runtime whose one thread for blocking work is held until the sender is dropped.
fn held() -> (Runtime, mpsc::Sender<()>) {
    let runtime = Runtime::builder()
        .worker_threads(1)
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let (begun, begins) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    drop(runtime.spawn_blocking(move || {
        begun.send(()).unwrap();
        let _ = released.recv();
    }));
    begins.recv().unwrap();
    (runtime, release)
}

#[test]
fn an_operation_that_was_dropped_before_its_turn_is_not_begun() {
    let scratch = Scratch::new("dropped");
    let (runtime, release) = held();
    runtime.block_on(async {
        assert!(poll_once(fs::write(scratch.join("dropped"), "x")).await.is_none());
        let mut kept = Box::pin(fs::write(scratch.join("kept"), "x"));
        assert!(poll_once(&mut kept).await.is_none());
        drop(release);
        kept.await.unwrap();
    });
    assert!(scratch.join("kept").exists());
    assert!(!scratch.join("dropped").exists());
}

/// The jobs of the futures that are dropped are done: the one that comes after them, on the only thread, is.
#[test]
fn what_a_dropped_call_has_found_out_is_not_the_next_ones_answer() {
    let scratch = Scratch::new("stale");
    let path = scratch.join("file");
    std::fs::write(&path, "0123456789").unwrap();
    let std = || std::fs::File::options().read(true).write(true).open(&path).unwrap();
    for round in 0..5 {
        let (runtime, release) = held();
        let mut file = File::from_std(std());
        let length = 10 + 4 * round;
        runtime.block_on(async {
            let mut other = file.as_fd().try_clone_to_owned().map(std::fs::File::from).unwrap();
            io::Seek::seek(&mut other, SeekFrom::Start(length)).unwrap();
            let to_end = SeekFrom::End(0);
            match round {
                0 => assert!(poll_once(pin!(file.seek(to_end))).await.is_none()),
                1 => assert!(poll_once(pin!(file.rewind())).await.is_none()),
                2 => assert!(poll_once(pin!(file.stream_position())).await.is_none()),
                3 => assert!(poll_once(pin!(file.read(&mut [0; 16]))).await.is_none()),
                _ => assert!(poll_once(pin!(file.seek(SeekFrom::Current(1)))).await.is_none()),
            }
            drop(release);
            file.write_all_at(b"more", length).await.unwrap();
            match round {
                0 => assert_eq!(file.seek(to_end).await.unwrap(), length + 4),
                1 => {
                    io::Seek::seek(&mut other, SeekFrom::Start(3)).unwrap();
                    file.rewind().await.unwrap();
                    assert_eq!(io::Seek::stream_position(&mut other).unwrap(), 0);
                }
                2 => {
                    io::Seek::seek(&mut other, SeekFrom::Start(3)).unwrap();
                    assert_eq!(file.stream_position().await.unwrap(), 3);
                }
                3 => assert_eq!(file.read(&mut [0; 16]).await.unwrap(), 4),
                _ => {
                    let position = file.seek(SeekFrom::Current(1)).await.unwrap();
                    assert_eq!(position, length + 1, "it goes once");
                }
            }
        });
    }
}

#[test]
fn what_a_file_has_accepted_is_written_at_shutdown() {
    let scratch = Scratch::new("accepted");
    let path = scratch.join("file");
    let std = std::fs::File::create_new(&path).unwrap();
    let (runtime, release) = held();
    let mut read = Box::pin(fs::read(&path));
    runtime.block_on(async {
        let mut file = File::from_std(std);
        file.write_all(b"accepted").await.unwrap();
        drop(file);
        assert!(poll_once(&mut read).await.is_none());
    });
    let handle = runtime.handle().clone();
    let left = runtime.shutdown_timeout(Duration::ZERO);
    assert_eq!(left.blocking_threads, 1, "the thread is held");
    assert_eq!(block_on(read).unwrap_err().kind(), ErrorKind::Other);
    let _entered = handle.enter();
    assert_eq!(block_on(fs::read(&path)).unwrap_err().kind(), ErrorKind::Other);
    assert_eq!(std::fs::read(&path).unwrap(), b"");
    drop(release);
    crate::wait::eventually("it is written", || std::fs::read(&path).unwrap() == b"accepted");
}

/// Its runtime has stopped, and another, or none, has the file: nothing was written, so nothing can be lost.
#[test]
fn what_was_dropped_and_never_began_is_no_error_of_those_who_ask_for_others() {
    let scratch = Scratch::new("unbegun");
    let path = scratch.join("file");
    std::fs::write(&path, "0123456789").unwrap();
    let other = Runtime::builder().worker_threads(1).build().unwrap();
    for round in 0..14 {
        let (runtime, release) = held();
        let std = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let mut file = File::from_std(std);
        runtime.block_on(async {
            if round % 2 == 0 {
                assert!(poll_once(pin!(file.read(&mut [0; 4]))).await.is_none());
            } else {
                assert!(poll_once(pin!(file.seek(SeekFrom::Start(5)))).await.is_none());
            }
        });
        assert_eq!(runtime.shutdown_timeout(Duration::ZERO).blocking_threads, 1);
        match round / 2 {
            0 => block_on(file.flush()).unwrap(),
            1 => drop(other.block_on(file.into_std()).unwrap()),
            2 => other.block_on(file.sync_all()).unwrap(),
            3 => assert_eq!(other.block_on(file.metadata()).unwrap().len(), 10),
            4 => assert_eq!(other.block_on(file.rewind()).map_err(|error| error.kind()), Ok(())),
            5 => assert_eq!(other.block_on(file.read(&mut [0; 4])).unwrap(), 4),
            _ => other.block_on(file.write_all(b"0")).unwrap(),
        }
        drop(release);
    }
}

#[test]
fn who_waits_for_what_never_begins_is_told() {
    let scratch = Scratch::new("told");
    let path = scratch.join("file");
    std::fs::write(&path, "0123456789").unwrap();
    let (runtime, release) = held();
    let open = || File::from_std(std::fs::File::open(&path).unwrap());
    let (mut reads, mut seeks, mut buffer) = (open(), open(), [0; 4]);
    let mut read = Box::pin(reads.read(&mut buffer));
    let mut seek = Box::pin(seeks.seek(SeekFrom::Start(5)));
    runtime.block_on(async {
        assert!(poll_once(&mut read).await.is_none());
        assert!(poll_once(&mut seek).await.is_none());
    });
    assert_eq!(runtime.shutdown_timeout(Duration::ZERO).blocking_threads, 1);
    assert_eq!(block_on(read).unwrap_err().kind(), ErrorKind::Other);
    assert_eq!(block_on(seek).unwrap_err().kind(), ErrorKind::Other);
    drop(release);
}

/// No job can begin any more: what is known stays known, and what isn't doesn't look like an end.
#[test]
fn what_was_read_ahead_outlasts_a_job_that_cannot_begin() {
    const ENTRIES: usize = 200;
    let scratch = Scratch::new("refused");
    for number in 0..ENTRIES {
        std::fs::write(scratch.join(&number.to_string()), "0123456789").unwrap();
    }
    let runtime = Runtime::builder().worker_threads(1).build().unwrap();
    let (mut entries, mut file) = runtime.block_on(async {
        let entries = fs::read_dir(scratch.path()).await.unwrap();
        let mut file = File::open(scratch.join("0")).await.unwrap();
        while poll_once(pin!(file.read(&mut [0; 4]))).await.is_some() {
            file.rewind().await.unwrap();
            // Nor does it only give way the next time.
            yield_now().await;
        }
        // The job of a read is done before that of a later call begins: it is waited for.
        file.metadata().await.unwrap();
        (entries, file)
    });
    let handle = runtime.handle().clone();
    assert_eq!(runtime.shutdown_timeout(Duration::from_secs(60)).blocking_threads, 0);
    let _entered = handle.enter();
    block_on(async {
        let mut listed = 0;
        let error = loop {
            match entries.next_entry().await {
                Ok(entry) => entry.expect("it isn't known that there are no more"),
                Err(error) => break error,
            };
            listed += 1;
        };
        assert!(listed < ENTRIES);
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(
            entries.next_entry().await.unwrap().is_none(),
            "who skips errors comes to an end"
        );

        let other = ErrorKind::Other;
        assert_eq!(file.seek(SeekFrom::Start(0)).await.unwrap_err().kind(), other);
        assert_eq!(file.write(b"x").await.unwrap_err().kind(), other);
        let mut buffer = [0; 8];
        assert_eq!(file.read(&mut buffer).await.unwrap(), 4);
        assert_eq!(&buffer[..4], b"0123");
        assert_eq!(file.read(&mut buffer).await.unwrap_err().kind(), other);
    });
}
