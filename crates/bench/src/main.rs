//! The `quadrille` command: benchmarks of quadrille beside tokio, smol, Go and threads.

use std::process::ExitCode;

fn main() -> ExitCode {
    quadrille_bench::commands::main()
}
