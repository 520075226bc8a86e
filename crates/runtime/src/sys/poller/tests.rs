//! The same of both: what is asked of a set of descriptors.

use super::*;

/// Whether the kernel knows waits to the nanosecond and no filter of system calls forbids them; asked by the call
/// itself, for a set that is none.
#[cfg(target_os = "linux")]
pub(crate) fn kernel_waits_exactly() -> bool {
    let mut room = libc::epoll_event { events: 0, u64: 0 };
    let (limit, mask) = (std::ptr::null::<libc::timespec>(), std::ptr::null::<libc::sigset_t>());
    // SAFETY: the kernel writes at most one event, for which there is room; without a set it writes none.
    let found = unsafe { libc::syscall(libc::SYS_epoll_pwait2, -1, &raw mut room, 1, limit, mask, 0_usize) };
    let error = std::io::Error::last_os_error();
    assert_eq!(found, -1, "there is no such set");
    !matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
}

/// Elsewhere there is no poller that rounds up.
#[cfg(not(target_os = "linux"))]
pub(crate) fn kernel_waits_exactly() -> bool {
    true
}

/// Tests of one poller.
macro_rules! tests_of {
    ($module:ident) => {
        mod $module {
            use std::io::{Read, Write};
            use std::os::fd::AsFd;
            use std::os::unix::net::UnixStream;
            use std::time::Duration;

            use super::super::$module::{Events, Poller};
            use super::{Event, Interest, kernel_waits_exactly};
            use crate::skipped::skipped;

            const BOTH: Interest = Interest {
                readable: true,
                writable: true,
            };
            const READ: Interest = Interest {
                writable: false,
                ..BOTH
            };
            const LONG: Option<Duration> = Some(Duration::from_secs(1000));

            fn pair() -> (UnixStream, UnixStream) {
                let (left, right) = UnixStream::pair().unwrap();
                left.set_nonblocking(true).unwrap();
                (left, right)
            }

            /// The events that there are now.
            fn now(poller: &Poller) -> Vec<Event> {
                let mut events = Events::new();
                poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
                events.iter().collect()
            }

            #[test]
            fn an_edge_is_told_once_with_its_key() {
                let poller = Poller::new().unwrap();
                let (mut left, mut right) = pair();
                poller.add(left.as_fd(), 7 << 32 | 3, BOTH).unwrap();
                let first = now(&poller);
                assert_eq!(first.len(), 1, "it is writable");
                assert!(first[0].writable && !first[0].readable && first[0].key == 7 << 32 | 3);
                assert_eq!(now(&poller), []);
                right.write_all(b"x").unwrap();
                assert!(now(&poller)[0].readable);
                assert_eq!(now(&poller), [], "though nobody has read");
                assert_eq!(left.read(&mut [0; 9]).unwrap(), 1);
                right.write_all(b"x").unwrap();
                assert!(now(&poller)[0].readable);
                poller.remove(left.as_fd()).unwrap();
                right.write_all(b"x").unwrap();
                assert_eq!(now(&poller), []);
                assert!(poller.remove(left.as_fd()).is_err(), "it is gone");
            }

            #[test]
            fn only_what_is_of_interest_is_told() {
                let poller = Poller::new().unwrap();
                let (left, mut right) = pair();
                poller.add(left.as_fd(), 1, READ).unwrap();
                assert_eq!(now(&poller), []);
                right.write_all(b"x").unwrap();
                let events = now(&poller);
                assert!(events.len() == 1 && events[0].readable);
            }

            #[test]
            fn of_what_is_of_interest_later_is_told_what_is_so_already() {
                let poller = Poller::new().unwrap();
                let (left, mut right) = pair();
                poller.add(left.as_fd(), 1, READ).unwrap();
                assert_eq!(now(&poller), []);
                poller.modify(left.as_fd(), 1, BOTH).unwrap();
                let events = now(&poller);
                assert!(events.len() == 1 && events[0].writable && !events[0].readable && events[0].key == 1);
                assert_eq!(now(&poller), []);
                right.write_all(b"x").unwrap();
                assert!(now(&poller)[0].readable);
                assert!(
                    poller.modify(right.as_fd(), 1, BOTH).is_err(),
                    "it is not in the set"
                );
            }

            #[test]
            fn a_closed_end_is_told() {
                let poller = Poller::new().unwrap();
                let (left, right) = pair();
                poller.add(left.as_fd(), 1, BOTH).unwrap();
                now(&poller);
                drop(right);
                let events = now(&poller);
                assert!(events[0].readable && events[0].writable && events[0].ended);
            }

            /// From another thread, or before the wait; and it has no event.
            #[test]
            fn a_notification_ends_the_wait_or_the_next_one() {
                let poller = Poller::new().unwrap();
                let mut events = Events::new();
                for _ in 0..100 {
                    poller.notify().unwrap();
                    poller.wait(&mut events, LONG).unwrap();
                    assert_eq!(events.iter().count(), 0);
                }
                std::thread::scope(|scope| {
                    scope.spawn(|| poller.notify().unwrap());
                    poller.wait(&mut events, None).unwrap();
                });
                assert_eq!(events.iter().count(), 0);
            }

            #[test]
            fn a_wait_is_no_shorter_than_its_limit() {
                let poller = Poller::new().unwrap();
                let mut events = Events::new();
                for limit in [100, 999, 1500].map(Duration::from_micros) {
                    let start = std::time::Instant::now();
                    poller.wait(&mut events, Some(limit)).unwrap();
                    assert!(start.elapsed() >= limit);
                }
            }

            /// Timers and sentinels count in tens of microseconds. The shortest of many, because a wait may always be
            /// longer.
            #[test]
            fn a_wait_is_not_rounded_up_to_milliseconds() {
                let poller = Poller::new().unwrap();
                let mut events = Events::new();
                let limit = Duration::from_micros(100);
                let wait = |_| {
                    let start = std::time::Instant::now();
                    poller.wait(&mut events, Some(limit)).unwrap();
                    start.elapsed()
                };
                let shortest = (0..50).map(wait).min().unwrap();
                if poller.is_coarse() {
                    assert!(!kernel_waits_exactly(), "the kernel has shorter waits");
                    return skipped("the kernel, or a filter of system calls, has no waits below a millisecond");
                }
                assert!(shortest < 8 * limit, "{shortest:?}");
            }
        }
    };
}

#[cfg(target_os = "linux")]
tests_of!(epoll);
tests_of!(portable);
