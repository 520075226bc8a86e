//! `quadrille calibrate`: what things cost on this machine, in the form that the simulator's costs have.

use std::fs;
use std::io::Write;

use quadrille_topology::discover;

use super::Error;
use crate::calibrate::{Effort, Listing, cost_text, measure};
use crate::cli::CalibrateArgs;

/// Measures, prints every figure with what it is, and last the line that `quadrille sim --cost` reads.
///
/// # Errors
/// [`Error::Usage`] if the file cannot be written.
pub fn run(args: &CalibrateArgs, out: &mut dyn Write) -> Result<(), Error> {
    let machine = discover().topology;
    let effort = if args.quick { Effort::QUICK } else { Effort::FULL };
    writeln!(out, "machine: {machine}")?;
    if cfg!(debug_assertions) {
        writeln!(
            out,
            "warning: this program is not optimised, and its figures are too large"
        )?;
    }
    out.flush()?;
    let all = measure(&machine, effort);
    let text = cost_text(&all);
    write!(out, "\n{}\ncost: {text}\n", Listing(&all))?;
    if let Some(path) = &args.out {
        fs::write(path, format!("{text}\n"))
            .map_err(|error| Error::Usage(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(())
}
