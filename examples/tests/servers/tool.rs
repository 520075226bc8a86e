//! Clients that others have written. Where one isn't installed a test asks by itself, with sockets of std.

use std::io::ErrorKind;
use std::process::Command;

/// What the program says with these arguments; it must succeed. `None` where it isn't installed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let output = match Command::new(program).args(arguments).output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => panic!("{program}: {error}"),
    };
    let (said, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{said}{errors}",
        output.status
    );
    Some(said.into_owned())
}

/// The same of curl, which says nothing but what it is answered, and gives up after 5 minutes.
pub(crate) fn curl(arguments: &[&str]) -> Option<String> {
    let all = [&["--silent", "--show-error", "--max-time", "300"], arguments].concat();
    run("curl", &all)
}
