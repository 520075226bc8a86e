//! What has a descriptor and is no socket: counters, clocks, notes of changes, sets of descriptors.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::poll_once;
use quadrille::io::{AsyncFd, Interest};
use quadrille::time::timeout;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::fs::inotify;

use crate::temporary::Folder;
use crate::watched::on_runtimes;

/// Long enough to say that it would be for ever.
const LIMIT: Duration = Duration::from_secs(10);

/// A counter that begins at zero.
fn counter(flags: EventfdFlags) -> File {
    eventfd(0, flags).unwrap().into()
}

/// Takes what the counter has.
fn take(mut counter: &File) -> io::Result<u64> {
    let mut count = [0; 8];
    counter.read_exact(&mut count)?;
    Ok(u64::from_ne_bytes(count))
}

fn add(mut counter: &File, count: u64) -> io::Result<()> {
    counter.write_all(&count.to_ne_bytes())
}

#[test]
fn a_counter_is_waited_for_from_both_sides() {
    on_runtimes(|| async {
        for (flags, taken) in [(EventfdFlags::empty(), 2), (EventfdFlags::SEMAPHORE, 1)] {
            let counter = AsyncFd::new(counter(flags)).unwrap();
            let mut takes = Box::pin(counter.read_with(take));
            assert!(poll_once(&mut takes).await.is_none());
            counter.write_with(|counter| add(counter, 2)).await.unwrap();
            assert_eq!(timeout(LIMIT, takes).await.unwrap().unwrap(), taken);
            while counter.try_read_with(take).is_ok() {}

            // The greatest that it can have, so that there is no room for one more.
            counter.try_write_with(|counter| add(counter, u64::MAX - 1)).unwrap();
            let mut adds = Box::pin(counter.write_with(|counter| add(counter, 1)));
            let mut room = Box::pin(counter.writable());
            assert!(poll_once(&mut adds).await.is_none());
            assert!(poll_once(&mut room).await.is_none());
            counter.try_read_with(take).unwrap();
            timeout(LIMIT, adds).await.unwrap().unwrap();
            timeout(LIMIT, room).await.unwrap().unwrap();
        }
    });
}

/// Whoever waits is told of each, in however many waits the system tells of them.
#[test]
fn there_are_more_events_than_one_wait_brings() {
    on_runtimes(|| async {
        const COUNTERS: usize = 600;
        let counters: Vec<_> = (0..COUNTERS)
            .map(|_| Arc::new(AsyncFd::with_interest(counter(EventfdFlags::empty()), Interest::READABLE).unwrap()))
            .collect();
        for round in 1..=3 {
            let takers: Vec<_> = counters
                .iter()
                .map(|counter| {
                    let counter = Arc::clone(counter);
                    quadrille::spawn(async move { counter.read_with(take).await.unwrap() })
                })
                .collect();
            quadrille::task::yield_now().await;
            for counter in &counters {
                add(counter.get_ref(), round).unwrap();
            }
            for taker in takers {
                assert_eq!(timeout(LIMIT, taker).await.unwrap().unwrap(), round);
            }
        }
    });
}

/// Two descriptors of one open file have an event each, and what there is goes to one of them.
#[test]
fn an_open_file_is_watched_by_two_descriptors() {
    on_runtimes(|| async {
        let counter = counter(EventfdFlags::empty());
        let other = AsyncFd::new(counter.try_clone().unwrap()).unwrap();
        let counter = AsyncFd::new(counter).unwrap();
        for _ in 0..20 {
            let (mut here, mut there) = (Box::pin(counter.readable()), Box::pin(other.readable()));
            assert!(poll_once(&mut here).await.is_none());
            assert!(poll_once(&mut there).await.is_none());
            add(counter.get_ref(), 1).unwrap();
            timeout(LIMIT, here).await.unwrap().unwrap();
            timeout(LIMIT, there).await.unwrap().unwrap();
            assert_eq!(counter.try_read_with(take).unwrap(), 1);
            for descriptor in [&counter, &other] {
                assert_eq!(
                    descriptor.try_read_with(take).unwrap_err().kind(),
                    ErrorKind::WouldBlock
                );
            }
        }
    });
}

/// A note at a time: as long as there are more, it is readable.
#[test]
fn notes_of_changes_are_read_one_after_the_other() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let notes = File::from(inotify::init(inotify::CreateFlags::CLOEXEC).unwrap());
        inotify::add_watch(&notes, folder.path(), inotify::WatchFlags::CREATE).unwrap();
        let notes = AsyncFd::new(notes).unwrap();
        // As long as a note with a short name, so that there is no room for two.
        let mut note = [0; 32];
        let mut reads = Box::pin(notes.read_with(|mut notes| notes.read(&mut note)));
        assert!(poll_once(&mut reads).await.is_none());
        std::fs::write(folder.join("0"), "").unwrap();
        assert_eq!(timeout(LIMIT, reads).await.unwrap().unwrap(), 32);
        for name in ["1", "2", "3"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        for name in *b"123" {
            timeout(LIMIT, notes.readable()).await.unwrap().unwrap();
            assert_eq!(notes.try_read_with(|mut notes| notes.read(&mut note)).unwrap(), 32);
            assert_eq!(note[16], name);
        }
    });
}

#[test]
fn a_set_of_descriptors_is_one_itself() {
    on_runtimes(|| async {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        epoll::add(&set, &reader, epoll::EventData::new_u64(7), epoll::EventFlags::IN).unwrap();
        let set = AsyncFd::with_interest(set, Interest::READABLE).unwrap();
        let look = |set: &OwnedFd| {
            let mut events = Vec::with_capacity(4);
            let room = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(set, room, Some(&Timespec::default()))? {
                0 => Err(ErrorKind::WouldBlock.into()),
                count => io::Result::Ok(count),
            }
        };
        for _ in 0..10 {
            let mut looks = Box::pin(set.read_with(look));
            assert!(poll_once(&mut looks).await.is_none());
            writer.write_all(b"x").unwrap();
            assert_eq!(timeout(LIMIT, looks).await.unwrap().unwrap(), 1);
            reader.read_exact(&mut [0]).unwrap();
        }
    });
}

#[test]
fn what_cannot_be_watched_is_refused_by_the_system() {
    on_runtimes(|| async {
        for path in ["/", "/dev/null", "/proc/self/exe"] {
            let error = AsyncFd::new(File::open(path).unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{path}");
        }
    });
}

/// Who is refused takes nothing from who watches, neither then nor when it is dropped.
#[test]
fn who_watches_a_descriptor_that_is_refused_to_another_watches_on() {
    on_runtimes(|| async {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let ours = Arc::new(ours);
        let watch = AsyncFd::new(Arc::clone(&ours)).unwrap();
        for _ in 0..3 {
            if let Err(error) = AsyncFd::new(Arc::clone(&ours)) {
                assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            }
            let mut reads = Box::pin(watch.read_with(|ours| (&mut &**ours).read(&mut [0; 8])));
            assert!(poll_once(&mut reads).await.is_none());
            theirs.write_all(b"x").unwrap();
            assert_eq!(timeout(LIMIT, reads).await.unwrap().unwrap(), 1);
            timeout(LIMIT, watch.writable()).await.unwrap().unwrap();
        }
        drop(watch);
        assert_eq!(Arc::strong_count(&ours), 1);
    });
}

/// What was there before the watch began is told to each that follows.
#[test]
fn a_descriptor_is_watched_again_and_again() {
    on_runtimes(|| async {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        for round in 0..60 {
            let watch = AsyncFd::new(ours.as_fd()).unwrap();
            if round % 3 == 0 {
                assert!(poll_once(watch.readable()).await.is_none());
            }
            theirs.write_all(b"x").unwrap();
            if round % 2 == 0 {
                timeout(LIMIT, watch.readable()).await.unwrap().unwrap();
            }
            drop(watch);
            let watch = AsyncFd::new(&ours).unwrap();
            timeout(LIMIT, watch.readable()).await.unwrap().unwrap();
            let read = |mut ours: &UnixStream| ours.read(&mut [0; 8]);
            assert_eq!(watch.try_read_with(|ours| read(ours)).unwrap(), 1);
            let nothing = watch.try_read_with(|ours| read(ours)).unwrap_err();
            assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
            assert!(poll_once(watch.readable()).await.is_none());
        }
    });
}

#[test]
fn an_operation_that_panics_leaves_the_watch_as_it_is() {
    on_runtimes(|| async {
        let (reader, mut writer) = io::pipe().unwrap();
        let reader = Arc::new(AsyncFd::new(reader).unwrap());
        writer.write_all(b"a").unwrap();
        let panics = quadrille::spawn({
            let reader = Arc::clone(&reader);
            async move { reader.read_with(|_| -> io::Result<()> { panic!("on purpose") }).await }
        });
        assert!(panics.await.unwrap_err().is_panic());
        for _ in 0..2 {
            let read = reader.read_with(|mut reader| reader.read(&mut [0; 4]));
            assert_eq!(timeout(LIMIT, read).await.unwrap().unwrap(), 1);
            writer.write_all(b"b").unwrap();
        }
    });
}
