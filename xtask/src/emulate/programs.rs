//! The programs of the guest: where each is on the host, and which libraries go with it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::archive::Archive;
use super::packages::{Packages, cannot, run};
use crate::failure::{Failure, Outcome};
use crate::process;
use crate::workspace;

/// The program of this workspace.
pub(crate) const QUADRILLE: &str = "quadrille";
/// hwloc's program that prints a machine.
pub(crate) const LSTOPO: &str = "lstopo-no-graphics";

/// Adds busybox with the names of its commands.
pub(crate) fn add_busybox(archive: &mut Archive, packages: &Packages) -> Outcome {
    let busybox = packages.busybox()?;
    archive.copy("bin/busybox", &busybox)?;
    for name in run(Command::new(&busybox).arg("--list"))?
        .lines()
        .filter(|name| *name != "busybox")
    {
        archive.link(&format!("bin/{name}"), "busybox");
    }
    Ok(())
}

/// Adds `quadrille`, built for debugging or for release.
pub(crate) fn add_quadrille(archive: &mut Archive, release: bool) -> Outcome {
    let mut build = process::cargo(["build", "--quiet", "--package", "quadrille-bench", "--bin", QUADRILLE]);
    if release {
        build.arg("--release");
    }
    if !build.status().is_ok_and(|status| status.success()) {
        return Err(Failure::new("quadrille does not build"));
    }
    let folder = workspace::target_dir(if release { "release" } else { "debug" });
    add(archive, &format!("bin/{QUADRILLE}"), &folder.join(QUADRILLE), None)
}

/// Adds hwloc's `lstopo-no-graphics`.
pub(crate) fn add_lstopo(archive: &mut Archive, packages: &Packages) -> Outcome {
    let program = packages.unpacked("hwloc-nox")?.join("usr/bin").join(LSTOPO);
    let libraries = packages.unpacked("libhwloc15")?.join("usr/lib/x86_64-linux-gnu");
    add(archive, &format!("bin/{LSTOPO}"), &program, Some(&libraries))
}

/// Adds a program, or any file, of the host under its own path, which it returns.
pub(crate) fn add_host_file(archive: &mut Archive, file: &Path) -> Outcome<String> {
    let path = file.canonicalize().map_err(|error| cannot("read", file, &error))?;
    let name = path.to_string_lossy().into_owned();
    add(archive, &name, &path, None)?;
    Ok(name)
}

/// Adds `program` as `name`, and each library it needs under the path where the dynamic linker looks for it. `extra` is
/// one more folder with libraries.
fn add(archive: &mut Archive, name: &str, program: &Path, extra: Option<&Path>) -> Outcome {
    archive.copy(name, program)?;
    for library in libraries(program, extra)? {
        let own = extra.filter(|folder| library.starts_with(folder));
        let place = match own.and_then(|_| library.file_name()) {
            Some(file) => format!("lib/{}", file.to_string_lossy()),
            None => library.to_string_lossy().into_owned(),
        };
        archive.copy(&place, &library)?;
    }
    Ok(())
}

fn libraries(program: &Path, extra: Option<&Path>) -> Outcome<Vec<PathBuf>> {
    let mut ldd = Command::new("ldd");
    ldd.arg(program).env("LC_ALL", "C");
    if let Some(folder) = extra {
        ldd.env("LD_LIBRARY_PATH", folder);
    }
    let output = ldd
        .output()
        .map_err(|error| Failure::new(format!("cannot run ldd: {error}")))?;
    // Of a program without libraries, or a script, it says so and fails.
    if !output.status.success() {
        return Ok(Vec::new());
    }
    named_libraries(&String::from_utf8_lossy(&output.stdout))
        .map_err(|missing| Failure::new(format!("{} needs {missing}, which is not here", program.display())))
}

/// The paths that ldd prints, or the name of a library that it did not find.
fn named_libraries(text: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        // `libm.so.6 => /lib/libm.so.6 (0x…)`, `/lib64/ld-linux-x86-64.so.2 (0x…)`, `linux-vdso.so.1 (0x…)`
        let path = match line.split_once(" => ") {
            Some((name, "not found")) => return Err(name.to_owned()),
            Some((_, path)) => path,
            None => line,
        };
        let path = path.split(" (").next().unwrap_or(path);
        if path.starts_with('/') {
            found.push(PathBuf::from(path));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_ldd_prints() {
        let text = "\tlinux-vdso.so.1 (0x00007f7abaefb000)\n\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f7a)\n";
        let expected = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(named_libraries(text), Ok(expected.map(PathBuf::from).into()));
        assert_eq!(named_libraries("\tstatically linked\n"), Ok(Vec::new()));
        assert_eq!(
            named_libraries("\tlibudev.so.1 => not found\n"),
            Err("libudev.so.1".to_owned())
        );
    }

    #[test]
    fn a_program_of_the_host_comes_with_its_libraries() {
        let mut archive = Archive::default();
        let own = std::env::current_exe().expect("a test is a program");
        add_host_file(&mut archive, &own).expect("it can be read");
        let mut bytes = Vec::new();
        archive.write_to(&mut bytes).expect("memory");
        assert!(bytes.windows(9).any(|window| window == b"libc.so.6"));
        let error = add_host_file(&mut Archive::default(), Path::new("/no/such/file")).expect_err("it is not there");
        assert!(error.to_string().starts_with("cannot read /no/such/file: "), "{error}");
    }
}
