//! `cargo xtask loom`: explores the interleavings of the tests that carry a theorem's name.

use std::process::Command;

use crate::failure::Outcome;
use crate::options::Options;
use crate::process;
use crate::workspace;

/// Preemptions that one execution may contain. Two find nearly every known bug of this kind; a third multiplies the
/// time by ten or more.
const PREEMPTIONS_MAX: u32 = 2;

/// Runs every loom test, or those whose name contains the given word.
pub(crate) fn run(options: &Options) -> Outcome {
    let preemptions = options.value::<u32>("--preemptions")?;
    let filter = options.word().unwrap_or_else(|| "loom".to_owned());
    options.finish()?;
    let mut command = tests();
    if let Some(preemptions) = preemptions {
        command.env("LOOM_MAX_PREEMPTIONS", preemptions.to_string());
    }
    command.arg(&filter);
    let counts = process::run_tests(command)?;
    println!("loom: {} tests passed", counts.passed);
    Ok(())
}

/// `cargo test` for the model-checked build of the runtime, in its own target directory.
pub(crate) fn tests() -> Command {
    let mut command = process::cargo(["test", "--package", "quadrille", "--lib", "--release"]);
    process::add_rustflags(&mut command, "--cfg quadrille_loom");
    process::use_checking_profile(&mut command);
    command.env("CARGO_TARGET_DIR", workspace::target_dir("loom"));
    set_bound(&mut command);
    command
}

/// Sets the default bound on preemptions unless the caller's environment has one.
pub(crate) fn set_bound(command: &mut Command) {
    if std::env::var_os("LOOM_MAX_PREEMPTIONS").is_none() {
        command.env("LOOM_MAX_PREEMPTIONS", PREEMPTIONS_MAX.to_string());
    }
}
