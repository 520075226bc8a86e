//! Systems without CPU masks.

use std::io;

use crate::PuSet;

pub(crate) fn affinity() -> io::Result<PuSet> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn set_affinity(_cpus: &PuSet) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
