//! Addresses, and names that stand for some.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs as _};
use std::vec;

use crate::coop;
use crate::fs::job::run;

/// What can be bound or connected to: an address, a list of addresses, or a name with a port, which may stand for
/// several.
///
/// An address is taken as it is: `SocketAddr`, `(IpAddr, u16)`, `"127.0.0.1:80"`, `("::1", 80)`. Any other name is
/// asked of the system on a thread for blocking work: `"localhost:80"`, `("example.org", 80)`.
///
/// The trait can't be implemented outside of this crate.
pub trait ToSocketAddrs: sealed::Resolve {}

impl<T: sealed::Resolve + ?Sized> ToSocketAddrs for T {}

pub(super) mod sealed {
    /// Says what is to be looked up.
    #[expect(unnameable_types, reason = "what can't be named can't be implemented elsewhere")]
    pub trait Resolve {
        #[doc(hidden)]
        fn question(&self) -> super::Question;
    }
}

/// An address to use, or a name to look up.
#[derive(Debug)]
#[expect(unnameable_types, reason = "for the trait above alone")]
pub struct Question(Kind);

#[derive(Debug)]
enum Kind {
    Known(Addresses),
    /// With the port, if it isn't a part of the name.
    Name(String, Option<u16>),
}

impl Question {
    fn known(address: impl Into<SocketAddr>) -> Self {
        Question(Kind::Known(Addresses(Some(address.into()), Vec::new().into_iter())))
    }

    /// The first address, if nobody need be asked.
    pub(super) fn first_known(&self) -> Option<SocketAddr> {
        match &self.0 {
            Kind::Known(Addresses(first, rest)) => first.or_else(|| rest.as_slice().first().copied()),
            Kind::Name(..) => None,
        }
    }
}

/// Addresses in the order in which they shall be tried.
#[derive(Debug, Default)]
pub(super) struct Addresses(Option<SocketAddr>, vec::IntoIter<SocketAddr>);

impl Iterator for Addresses {
    type Item = SocketAddr;

    fn next(&mut self) -> Option<SocketAddr> {
        self.0.take().or_else(|| self.1.next())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = usize::from(self.0.is_some()) + self.1.len();
        (count, Some(count))
    }
}

impl sealed::Resolve for SocketAddr {
    fn question(&self) -> Question {
        Question::known(*self)
    }
}

impl sealed::Resolve for SocketAddrV4 {
    fn question(&self) -> Question {
        Question::known(*self)
    }
}

impl sealed::Resolve for SocketAddrV6 {
    fn question(&self) -> Question {
        Question::known(*self)
    }
}

impl sealed::Resolve for (IpAddr, u16) {
    fn question(&self) -> Question {
        Question::known(*self)
    }
}

impl sealed::Resolve for (Ipv4Addr, u16) {
    fn question(&self) -> Question {
        Question::known(*self)
    }
}

impl sealed::Resolve for (Ipv6Addr, u16) {
    fn question(&self) -> Question {
        Question::known(*self)
    }
}

impl sealed::Resolve for [SocketAddr] {
    fn question(&self) -> Question {
        Question(Kind::Known(Addresses(None, Vec::from(self).into_iter())))
    }
}

impl sealed::Resolve for str {
    fn question(&self) -> Question {
        match self.parse::<SocketAddr>() {
            Ok(address) => Question::known(address),
            Err(_) => Question(Kind::Name(self.to_owned(), None)),
        }
    }
}

impl sealed::Resolve for String {
    fn question(&self) -> Question {
        self.as_str().question()
    }
}

impl sealed::Resolve for (&str, u16) {
    fn question(&self) -> Question {
        let (name, port) = *self;
        match name.parse::<IpAddr>() {
            Ok(address) => Question::known((address, port)),
            Err(_) => Question(Kind::Name(name.to_owned(), Some(port))),
        }
    }
}

impl sealed::Resolve for (String, u16) {
    fn question(&self) -> Question {
        (self.0.as_str(), self.1).question()
    }
}

impl<T: sealed::Resolve + ?Sized> sealed::Resolve for &T {
    fn question(&self) -> Question {
        (**self).question()
    }
}

/// Looks up `host`; its addresses in the order of the system.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// let mut addresses = quadrille::net::lookup_host("127.0.0.1:80").await?;
/// assert_eq!(addresses.next(), Some(([127, 0, 0, 1], 80).into()));
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
///
/// # Errors
///
/// Those of `getaddrinfo(3)`, with the name; `host` has no port; the runtime shuts down.
///
/// # Panics
///
/// Outside of a runtime, if `host` isn't an address.
///
/// # Cancel safety
///
/// Strict. The system can't be told to stop, so a look-up that was dropped keeps its thread to its end.
pub async fn lookup_host<A: ToSocketAddrs>(
    host: A,
) -> io::Result<impl Iterator<Item = SocketAddr> + Send + fmt::Debug> {
    let question = host.question();
    resolve(question).await
}

/// The addresses that answer `question`; at least one.
pub(super) async fn resolve(question: Question) -> io::Result<Addresses> {
    // Paid for whatever comes: who never has to wait gives way all the same.
    coop::consume_budget().await;
    let addresses = match question.0 {
        Kind::Known(addresses) => addresses,
        Kind::Name(name, port) => run(move || ask_system(&name, port)).await?,
    };
    if addresses.size_hint().0 == 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "an empty list of addresses",
        ));
    }
    Ok(addresses)
}

/// What `operation` makes of the first address that it doesn't fail with; its last error.
pub(super) async fn first<R>(
    question: Question,
    mut operation: impl FnMut(SocketAddr) -> io::Result<R>,
) -> io::Result<R> {
    let mut last = None;
    for address in resolve(question).await? {
        match operation(address) {
            Ok(result) => return Ok(result),
            Err(error) => last = Some(error),
        }
    }
    Err(last.expect("a name has at least one address"))
}

/// Asks, and blocks.
fn ask_system(name: &str, port: Option<u16>) -> io::Result<Addresses> {
    let answer = match port {
        Some(port) => (name, port).to_socket_addrs(),
        None => name.to_socket_addrs(),
    };
    match answer {
        Ok(addresses) => Ok(Addresses(None, addresses)),
        Err(error) => Err(io::Error::new(error.kind(), format!("{name:?}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::block_on;

    use super::*;
    use crate::runtime::tests::with_runtime;

    /// Those that need nobody to be asked.
    fn known(address: impl ToSocketAddrs) -> Option<Vec<SocketAddr>> {
        match address.question().0 {
            Kind::Known(addresses) => Some(addresses.collect()),
            Kind::Name(..) => None,
        }
    }

    #[test]
    fn addresses_are_taken_as_they_are() {
        let v4 = SocketAddr::from(([10, 0, 0, 1], 80));
        let v6: SocketAddr = "[::1]:80".parse().unwrap();
        let ones: [Option<Vec<SocketAddr>>; 7] = [
            known(v4),
            known("10.0.0.1:80"),
            known(String::from("10.0.0.1:80")),
            known(("10.0.0.1", 80)),
            known((String::from("10.0.0.1"), 80)),
            known((Ipv4Addr::new(10, 0, 0, 1), 80)),
            known((IpAddr::from([10, 0, 0, 1]), 80)),
        ];
        for one in ones {
            assert_eq!(one, Some(vec![v4]));
        }
        for six in [
            known(v6),
            known("[::1]:80"),
            known(("::1", 80)),
            known((Ipv6Addr::LOCALHOST, 80)),
        ] {
            assert_eq!(six, Some(vec![v6]));
        }
        assert_eq!(known(&[v4, v6][..]), Some(vec![v4, v6]));
    }

    #[test]
    fn names_are_asked_of_the_system() {
        with_runtime(|| {
            for name in [known("localhost:80"), known(("localhost", 80)), known("localhost")] {
                assert_eq!(name, None);
            }
            let addresses: Vec<_> = block_on(lookup_host("localhost:80")).unwrap().collect();
            assert!(!addresses.is_empty());
            for address in addresses {
                assert!(address.ip().is_loopback() && address.port() == 80);
            }
        });
    }

    #[test]
    fn errors_name_what_was_asked() {
        with_runtime(|| {
            let error = block_on(lookup_host("no-port.example")).map(drop).unwrap_err();
            assert!(error.to_string().contains("no-port.example"), "{error}");
            let error = block_on(lookup_host(&[][..] as &[SocketAddr])).map(drop).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        });
    }
}
