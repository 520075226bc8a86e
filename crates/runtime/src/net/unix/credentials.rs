//! Who is at the other end.

/// The process at the other end of a connection, as it was when it connected, listened, or made the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UCred {
    uid: u32,
    gid: u32,
    pid: Option<i32>,
}

impl UCred {
    /// Its user.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Its group.
    #[must_use]
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// Its number; `None` if it has none in this namespace.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.pid
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn of_peer(socket: impl std::os::fd::AsFd) -> std::io::Result<UCred> {
        let (uid, gid, pid) = crate::sys::socket::peer_credentials(socket)?;
        Ok(UCred { uid, gid, pid })
    }
}
