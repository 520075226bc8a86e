//! `quadrille calibrate`: what things cost on this machine, in the form that the simulator's costs have.

use std::io::Write;

use quadrille_topology::discover;

use super::Error;
use super::out_file::{OutFile, write_around};
use crate::calibrate::{Effort, Listing, cost_text, measure};
use crate::cli::CalibrateArgs;

/// Measures, prints every figure with what it is, and last the line that `quadrille sim --cost` reads.
///
/// # Errors
/// [`Error::Usage`] if the file cannot be written.
pub fn run(args: &CalibrateArgs, out: &mut dyn Write) -> Result<(), Error> {
    let mut file = args.out.as_deref().map(OutFile::open).transpose()?;
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
    write_around(file.iter_mut().map(|file| (file, format!("{text}\n"))), || {
        Ok(write!(out, "\n{}\ncost: {text}\n", Listing(&all))?)
    })
}
