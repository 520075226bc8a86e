//! The right to use a copy of the workspace: one `mutate` at a time.
//!
//! Another one would change files under the first, and the verdicts of both would be about the mutations of both.
//!
//! A claim is a socket's name in Linux's abstract namespace: the kernel frees it with the process, however that ends,
//! and no file is left that seems to be a claim. `File::try_lock` would do the same for all systems, but needs Rust
//! 1.89, where the workspace builds with 1.88. Elsewhere nobody is kept out.

use std::path::Path;

use crate::failure::Outcome;

/// Held as long as the copy is used.
#[derive(Debug)]
pub(super) struct Claim {
    #[cfg(target_os = "linux")]
    _name: std::os::unix::net::UnixListener,
}

impl Claim {
    /// Claims the folder `copy`, which must exist.
    ///
    /// # Errors
    /// If another process has claimed it, or the claim can't be made.
    #[cfg(target_os = "linux")]
    pub(super) fn of(copy: &Path) -> Outcome<Self> {
        use std::hash::{DefaultHasher, Hash, Hasher};
        use std::io::ErrorKind;
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::{SocketAddr, UnixListener};

        use crate::failure::Failure;

        let fail = |error: &std::io::Error| Failure::new(format!("cannot claim {}: {error}", copy.display()));
        // By whichever way one comes to it, and no longer than a name may be.
        let mut hasher = DefaultHasher::new();
        copy.canonicalize().map_err(|error| fail(&error))?.hash(&mut hasher);
        let name = format!("quadrille-xtask-mutate-{:016x}", hasher.finish());
        let address = SocketAddr::from_abstract_name(name).map_err(|error| fail(&error))?;
        match UnixListener::bind_addr(&address) {
            Ok(name) => Ok(Self { _name: name }),
            Err(error) if error.kind() == ErrorKind::AddrInUse => Err(Failure::new(format!(
                "another `cargo xtask mutate` uses {}: wait for its end, or set CARGO_TARGET_DIR to another folder",
                copy.display()
            ))),
            Err(error) => Err(fail(&error)),
        }
    }

    /// Claims nothing.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn of(_copy: &Path) -> Outcome<Self> {
        Ok(Self {})
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_copy_is_used_by_one_at_a_time() {
        let folder = std::env::temp_dir().join(format!("xtask-claim-{}", std::process::id()));
        let (copy, other) = (folder.join("copy"), folder.join("other"));
        fs::create_dir_all(&copy).expect("writable");
        fs::create_dir_all(&other).expect("writable");

        let first = Claim::of(&copy).expect("nobody has it");
        // By another way to the same folder.
        let refused = Claim::of(&other.join("../copy")).expect_err("it is taken");
        assert!(
            refused.to_string().contains("another `cargo xtask mutate` uses"),
            "{refused}"
        );
        assert!(
            refused.to_string().contains(&format!("{}", folder.display())),
            "{refused}"
        );
        let _another = Claim::of(&other).expect("another folder is free");
        drop(first);
        let _again = Claim::of(&copy).expect("it was given back");
        fs::remove_dir_all(&folder).expect("removable");
    }

    #[test]
    fn a_folder_that_is_not_there_can_not_be_claimed() {
        let refused = Claim::of(Path::new("/nowhere/at/all")).expect_err("there is none");
        assert!(refused.to_string().contains("/nowhere/at/all"), "{refused}");
    }
}
