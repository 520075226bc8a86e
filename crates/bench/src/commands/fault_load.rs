//! `quadrille fault-load`: breaks connections to servers off, as the process of the servers tells it on stdin.

use std::io::{self, Write};

use super::Error;
use crate::faults::{Order, load};
use crate::process::allow_files;

/// Descriptors besides the connections.
const OTHER_FDS: u64 = 64;

/// Carries the order in `json` out.
///
/// # Errors
/// [`Error::Usage`] if it is none, or if the process of the servers is gone.
pub fn run(json: &str, out: &mut dyn Write) -> Result<(), Error> {
    let order: Order =
        serde_json::from_str(json).map_err(|error| Error::Usage(format!("bad order for the fault load: {error}")))?;
    allow_files(order.connections as u64 + OTHER_FDS).map_err(Error::Usage)?;
    load::run(&order, &mut io::stdin().lock(), out).map_err(Error::Usage)
}
