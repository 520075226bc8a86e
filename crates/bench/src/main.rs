//! The `quadrille` command: benchmarks of quadrille beside tokio, smol, Go and threads.

use std::process::ExitCode;

use quadrille_bench::commands::{self, Allocator};

fn main() -> ExitCode {
    commands::main(Allocator::System)
}
