//! `quadrille topology`: the machine as the scheduler sees it, as text and, if asked for, as a picture.

use std::io::{self, Write};

use quadrille_topology::{DiscoverOptions, Discovery, Grouping, Roots, Topology, discover_with, render};

use super::Error;
use super::out_file::{OutFile, write_around};
use crate::cli::TopologyArgs;

/// Prints the machine, how it was found and what was odd about that; writes the picture.
///
/// # Errors
/// [`Error::Usage`] if the root directory is none, or the picture cannot be written.
pub fn run(args: &TopologyArgs, out: &mut dyn Write) -> Result<(), Error> {
    let mut description = Vec::new();
    let machine = match &args.synthetic {
        Some(machine) => machine.clone(),
        None => discovered(args, &mut description)?,
    };
    let mut svg = args.svg.as_deref().map(OutFile::open).transpose()?;
    let groups = machine.groups(Grouping {
        size: args.group_size,
        merge_small_l2: args.merge_small_l2,
    });
    let picture = |file| (file, render::svg(&machine, &groups, &machine.to_string()));
    write_around(svg.iter_mut().map(picture), || {
        out.write_all(&description)?;
        Ok(write!(out, "{}", render::text(&machine, &groups))?)
    })
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::commands::unread::{FirstLine, assert_unread};

    #[test]
    fn the_picture_is_written_although_nobody_reads_what_is_printed() {
        let file = std::env::temp_dir().join(format!("quadrille-unread-{}.svg", std::process::id()));
        let args = [
            "quadrille",
            "topology",
            "--synthetic",
            "core:2",
            "--svg",
            file.to_str().unwrap(),
        ];
        let Command::Topology(args) = Cli::try_parse_from(args).unwrap().command else {
            panic!("{args:?}");
        };
        let printed = run(&args, &mut FirstLine::read());
        let written = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(file).unwrap();
        assert_unread(&printed);
        assert!(written.trim_end().ends_with("</svg>"), "{written}");
    }
}
