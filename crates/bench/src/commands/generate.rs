//! `quadrille generate`: loads a server, as the process of the server tells it on stdin.

use std::io::{self, Write};

use super::Error;
use crate::generate::{self, Order};
use crate::process::allow_files;

/// Descriptors besides the connections.
const OTHER_FDS: u64 = 64;

/// Carries the order in `json` out.
///
/// # Errors
/// [`Error::Usage`] if it is none, or if a request was not answered, or not rightly: one line, which the server's process passes on.
pub fn run(json: &str, out: &mut dyn Write) -> Result<(), Error> {
    let order: Order = serde_json::from_str(json)
        .map_err(|error| Error::Usage(format!("bad order for the load generator: {error}")))?;
    allow_files(order.serve.connections as u64 + OTHER_FDS).map_err(Error::Usage)?;
    generate::run(&order, &mut io::stdin().lock(), out).map_err(Error::Usage)
}
