//! `quadrille calibrate`: what things cost on this machine, in the form that the simulator's costs have.

use std::io::{self, Write};

use quadrille_topology::{Topology, discover};

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
    // Where nobody reads any more what is printed, the file is still written.
    let announced = announce(&machine, out);
    if file.is_none() && announced.is_err() {
        return Ok(announced?);
    }
    let all = measure(&machine, effort);
    let text = cost_text(&all);
    write_around(file.iter_mut().map(|file| (file, format!("{text}\n"))), || {
        announced?;
        Ok(write!(out, "\n{}\ncost: {text}\n", Listing(&all))?)
    })
}

fn announce(machine: &Topology, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "machine: {machine}")?;
    if cfg!(debug_assertions) {
        writeln!(
            out,
            "warning: this program is not optimised, and its figures are too large"
        )?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::commands::unread::{FirstLine, assert_unread};

    #[test]
    fn costs_are_written_although_nobody_reads_what_is_printed() {
        let file = std::env::temp_dir().join(format!("quadrille-unread-{}.costs", std::process::id()));
        let args = ["quadrille", "calibrate", "--quick", "--out", file.to_str().unwrap()];
        let Command::Calibrate(args) = Cli::try_parse_from(args).unwrap().command else {
            panic!("{args:?}");
        };
        let printed = run(&args, &mut FirstLine::read());
        let written = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(file).unwrap();
        assert_unread(&printed);
        assert!(written.contains("unpark_call="), "{written}");
    }
}
