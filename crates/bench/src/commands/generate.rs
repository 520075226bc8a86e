//! `quadrille generate`: loads a server, as the process of the server tells it on stdin.

use std::io::{self, Write};

use super::Error;
use crate::generate::{self, Order};
use crate::outcome::{Outcome, Stop};
use crate::process::allow_files;

/// Descriptors besides the connections.
const OTHER_FDS: u64 = 64;

/// Carries the order in `json` out. If that fails, the last line says why, as an [`Outcome`], and the server's process
/// passes it on.
///
/// # Errors
/// [`Error::Usage`] if it is none; [`Error::Failed`] if the reason has been said.
pub fn run(json: &str, out: &mut dyn Write) -> Result<(), Error> {
    let order: Order = serde_json::from_str(json)
        .map_err(|error| Error::Usage(format!("bad order for the load generator: {error}")))?;
    let done = allow_files(order.serve.connections as u64 + OTHER_FDS)
        .map_err(Stop::Failed)
        .and_then(|()| generate::run(&order, &mut io::stdin().lock(), out));
    let Err(stop) = done else { return Ok(()) };
    serde_json::to_writer(&mut *out, &Outcome::from(stop)).map_err(io::Error::from)?;
    writeln!(out)?;
    Err(Error::Failed)
}
