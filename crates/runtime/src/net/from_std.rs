//! Taking over what std has made, for code that is written for any conversion.

use std::io;
use std::net;
use std::os::unix;

use super::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};

macro_rules! try_from_std {
    ($($socket:ident: $std:ty),+ $(,)?) => {$(
        /// As `from_std`, with its errors; it panics outside of a runtime (reported at the caller).
        impl TryFrom<$std> for $socket {
            type Error = io::Error;

            #[track_caller]
            fn try_from(socket: $std) -> io::Result<Self> {
                Self::from_std(socket)
            }
        }
    )+};
}

try_from_std! {
    TcpListener: net::TcpListener,
    TcpStream: net::TcpStream,
    UdpSocket: net::UdpSocket,
    UnixDatagram: unix::net::UnixDatagram,
    UnixListener: unix::net::UnixListener,
    UnixStream: unix::net::UnixStream,
}
