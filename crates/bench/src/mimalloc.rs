//! The `quadrille` command with mimalloc instead of the system's allocator; `quadrille` starts it for rows that ask for
//! it.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use quadrille_bench::commands::{self, Allocator};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    commands::main(Allocator::Mimalloc)
}
