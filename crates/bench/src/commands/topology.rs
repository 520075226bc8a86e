//! `quadrille topology`: the machine as the scheduler sees it, as text and, if asked for, as a picture.

use std::fs;
use std::io::{self, Write};

use quadrille_topology::{DiscoverOptions, Discovery, Grouping, Roots, Topology, discover_with, render};

use super::Error;
use crate::cli::TopologyArgs;

/// Prints the machine, how it was found and what was odd about that; writes the picture.
///
/// # Errors
/// [`Error::Usage`] if the root directory is none, or the picture cannot be written.
pub fn run(args: &TopologyArgs, out: &mut dyn Write) -> Result<(), Error> {
    let machine = match &args.synthetic {
        Some(machine) => machine.clone(),
        None => discovered(args, out)?,
    };
    let groups = machine.groups(Grouping {
        size: args.group_size,
        merge_small_l2: args.merge_small_l2,
    });
    write!(out, "{}", render::text(&machine, &groups))?;
    if let Some(path) = &args.svg {
        let picture = render::svg(&machine, &groups, &machine.to_string());
        fs::write(path, picture).map_err(|error| Error::Usage(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(())
}

fn discovered(args: &TopologyArgs, out: &mut dyn Write) -> Result<Topology, Error> {
    let mut options = DiscoverOptions::default();
    if let Some(root) = &args.root {
        if !root.is_dir() {
            return Err(Error::Usage(format!("{} is not a directory", root.display())));
        }
        options.roots = Roots::under(root);
    }
    let found = discover_with(&options);
    describe(&found, out)?;
    Ok(found.topology)
}

fn describe(found: &Discovery, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "machine: {}", found.topology)?;
    writeln!(out, "source: {}", found.source)?;
    writeln!(out, "allowed CPUs: {}", found.allowed.pus)?;
    match &found.allowed.quota {
        Some(quota) => writeln!(
            out,
            "CPU quota: {}.{:03} CPUs ({})",
            quota.millicpus / 1000,
            quota.millicpus % 1000,
            quota.source.display()
        )?,
        None => writeln!(out, "CPU quota: none")?,
    }
    for warning in &found.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    writeln!(out)
}
