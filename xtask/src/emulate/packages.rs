//! What a machine is made of: Debian packages, downloaded once and unpacked, never installed.
//!
//! A package lies, unpacked, in `target/emulate/packages/NAME`; what is there is not asked for again, so that only the
//! first run needs the network. It is unpacked under another name first: an interrupted run leaves nothing that looks
//! whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Outcome};

/// The kernel: a meta-package, which names the package of the newest version.
const KERNEL: &str = "linux-image-cloud-amd64";

/// Where packages are kept.
#[derive(Debug)]
pub(crate) struct Packages {
    folder: PathBuf,
}

impl Packages {
    /// Those below `folder`, which is made if it is not there.
    pub(crate) fn at(folder: PathBuf) -> Outcome<Self> {
        fs::create_dir_all(&folder).map_err(|error| cannot("make", &folder, &error))?;
        Ok(Self { folder })
    }

    /// The image of a kernel.
    pub(crate) fn kernel(&self) -> Outcome<PathBuf> {
        let cached = self.folder.join(KERNEL);
        let package = match fs::read_to_string(&cached) {
            Ok(name) => name,
            Err(_) => {
                let output = run(Command::new("apt-cache").args(["depends", KERNEL]))?;
                let Some(name) = dependency(&output) else {
                    return Err(Failure::new(format!(
                        "there is no package {KERNEL} to take a kernel from; is this Debian, and has `apt-get update` run?"
                    )));
                };
                self.unpacked(name)?;
                fs::write(&cached, name).map_err(|error| cannot("write", &cached, &error))?;
                name.to_owned()
            }
        };
        let boot = self.unpacked(&package)?.join("boot");
        let mut files = fs::read_dir(&boot)
            .map_err(|error| cannot("read", &boot, &error))?
            .flatten();
        files
            .find(|file| file.file_name().to_string_lossy().starts_with("vmlinuz"))
            .map(|file| file.path())
            .ok_or_else(|| Failure::new(format!("the package {package} holds no kernel")))
    }

    /// busybox, which needs no library.
    pub(crate) fn busybox(&self) -> Outcome<PathBuf> {
        Ok(self.unpacked("busybox-static")?.join("bin/busybox"))
    }

    /// The folder that a package is unpacked in.
    pub(crate) fn unpacked(&self, package: &str) -> Outcome<PathBuf> {
        let folder = self.folder.join(package);
        if folder.is_dir() {
            return Ok(folder);
        }
        let unfinished = self.folder.join(format!("{package}.{}", std::process::id()));
        fs::create_dir_all(&unfinished).map_err(|error| cannot("make", &unfinished, &error))?;
        let unpacked = download(package, &unfinished);
        let renamed = unpacked.and_then(|files| {
            fs::rename(&files, &folder)
                .or_else(|error| if folder.is_dir() { Ok(()) } else { Err(error) })
                .map_err(|error| cannot("make", &folder, &error))
        });
        // What cannot be removed lies below the target directory, in nobody's way.
        let _ = fs::remove_dir_all(&unfinished);
        renamed.map(|()| folder)
    }
}

/// Downloads a package into `folder` and unpacks it there.
fn download(package: &str, folder: &Path) -> Outcome<PathBuf> {
    run(Command::new("apt-get").args(["download", package]).current_dir(folder)).map_err(|failure| {
        Failure::new(format!(
            "cannot download the package {package} (is there a network?): {failure}"
        ))
    })?;
    let mut files = fs::read_dir(folder)
        .map_err(|error| cannot("read", folder, &error))?
        .flatten();
    let Some(archive) = files.find(|file| file.path().extension().is_some_and(|end| end == "deb")) else {
        return Err(Failure::new(format!("apt-get downloaded no package {package}")));
    };
    let files = folder.join("files");
    run(Command::new("dpkg").arg("-x").arg(archive.path()).arg(&files))?;
    Ok(files)
}

/// The package in the line `Depends: NAME` of `apt-cache depends`.
fn dependency(text: &str) -> Option<&str> {
    text.lines()
        .find_map(|line| line.trim().strip_prefix("Depends: "))
        .map(str::trim)
}

/// The standard output of a command that has to succeed; of what it complains, the last line.
pub(crate) fn run(command: &mut Command) -> Outcome<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::new(format!("there is no program {name} here")),
        _ => Failure::new(format!("cannot run {name}: {error}")),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last = complaint
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("it said nothing");
    Err(Failure::new(format!("{name}: {}", last.trim())))
}

/// A failure to do something with a file.
pub(crate) fn cannot(verb: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot {verb} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_what_the_meta_package_depends_on() {
        let text = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-56-cloud-amd64\n";
        assert_eq!(dependency(text), Some("linux-image-6.1.0-56-cloud-amd64"));
        assert_eq!(dependency("linux-image-cloud-amd64\n"), None);
    }

    #[test]
    fn what_is_there_is_not_downloaded() {
        let folder = std::env::temp_dir().join(format!("xtask-packages-{}", std::process::id()));
        let packages = Packages::at(folder.clone()).expect("a folder below the temporary one");
        fs::create_dir(folder.join("some")).expect("an empty folder");
        assert_eq!(packages.unpacked("some").expect("it is there"), folder.join("some"));
        fs::remove_dir_all(&folder).expect("it can be removed");
    }

    #[test]
    fn a_failed_command_is_one_line() {
        let error =
            run(Command::new("sh").args(["-c", "echo first >&2; echo last >&2; exit 1"])).expect_err("it fails");
        assert_eq!(error.to_string(), "sh: last");
        let error = run(&mut Command::new("no-such-program")).expect_err("it is not there");
        assert_eq!(error.to_string(), "there is no program no-such-program here");
    }
}
