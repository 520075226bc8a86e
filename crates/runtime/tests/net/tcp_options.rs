//! Options of connections, and how they end.

use std::io::{ErrorKind, Read};
use std::time::Duration;

use quadrille::net::{TcpKeepalive, TcpSocket};

use crate::tcp::{connection, listen};
use crate::watched::on_runtimes;

#[test]
fn options_are_what_they_were_set_to() {
    on_runtimes(|| async {
        let (ours, _theirs) = connection().await;
        for on in [true, false] {
            ours.set_nodelay(on).unwrap();
            assert_eq!(ours.nodelay().unwrap(), on);
            ours.set_keepalive(on).unwrap();
            assert_eq!(ours.keepalive().unwrap(), on);
        }
        #[cfg(target_os = "linux")]
        for on in [false, true] {
            ours.set_quickack(on).unwrap();
            assert_eq!(ours.quickack().unwrap(), on);
        }
        let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(30)).with_retries(3);
        ours.set_tcp_keepalive(&keepalive).unwrap();
        assert!(ours.keepalive().unwrap());
        ours.set_ttl(9).unwrap();
        assert_eq!(ours.ttl().unwrap(), 9);
        for linger in [Some(Duration::ZERO), None] {
            ours.set_linger(linger).unwrap();
            assert_eq!(ours.linger().unwrap(), linger);
        }
        assert!(ours.take_error().unwrap().is_none());

        let (listener, _) = listen().await;
        listener.set_ttl(8).unwrap();
        assert_eq!(listener.ttl().unwrap(), 8);
        assert!(listener.take_error().unwrap().is_none());
    });
}

#[test]
fn zero_linger_resets_the_connection() {
    on_runtimes(|| async {
        let (ours, mut theirs) = connection().await;
        ours.set_zero_linger().unwrap();
        drop(ours);
        assert_eq!(theirs.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);

        let (ours, theirs) = connection().await;
        socket2::SockRef::from(&theirs)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
        drop(theirs);
        assert_eq!(
            ours.read(&mut [0]).await.unwrap_err().kind(),
            ErrorKind::ConnectionReset
        );
    });
}

/// The system counts seconds, and of none it makes a reset.
#[test]
fn only_zero_linger_throws_data_away() {
    on_runtimes(|| async {
        let (ours, mut theirs) = connection().await;
        ours.set_linger(Some(Duration::from_millis(1))).unwrap();
        ours.write_all(b"last words").await.unwrap();
        drop(ours);
        let mut heard = Vec::new();
        theirs.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, b"last words");

        let (ours, _theirs) = connection().await;
        let socket = TcpSocket::new_v4().unwrap();
        let second = Duration::from_secs(1);
        for (asked, expected) in [
            (Duration::from_nanos(1), second),
            (second, second),
            (Duration::from_millis(1001), 2 * second),
            // As an `int` it is zero.
            (Duration::from_secs(1 << 32), second * i32::MAX as u32),
            (Duration::MAX, second * i32::MAX as u32),
        ] {
            ours.set_linger(Some(asked)).unwrap();
            assert_eq!(ours.linger().unwrap(), Some(expected));
            socket.set_linger(Some(asked)).unwrap();
            assert_eq!(socket.linger().unwrap(), Some(expected));
        }
        // Or closing them would wait.
        ours.set_linger(None).unwrap();
    });
}
