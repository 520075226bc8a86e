//! Draws this machine, or a synthetic one: `cargo run -p quadrille-topology --example show -- "node:2 llc:4 core:4" >
//! m.svg`.
//!
//! Watch the dashed boxes: each is a group of at most 4 hardware threads.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what the program is for"
)]

use std::{error::Error, io::IsTerminal};

use quadrille_topology::{Grouping, Topology, discover, render};

fn main() -> Result<(), Box<dyn Error>> {
    let (title, machine) = if let Some(text) = std::env::args().nth(1) {
        let machine: Topology = text.parse()?;
        (text, machine)
    } else {
        let found = discover();
        for warning in &found.warnings {
            eprintln!("warning: {warning}");
        }
        if let Some(quota) = &found.allowed.quota {
            eprintln!(
                "quota: {} thousandths of a CPU, by {}",
                quota.millicpus,
                quota.source.display()
            );
        }
        (format!("This machine, {}", found.source), found.topology)
    };
    let groups = machine.groups(Grouping::default());
    if std::io::stdout().is_terminal() {
        print!("{}", render::text(&machine, &groups));
    } else {
        print!("{}", render::svg(&machine, &groups, &title));
    }
    Ok(())
}
