//! What the guest does: its first process, a script.
//!
//! 1. It mounts what programs expect, turns echo and translation off for the command's port, and writes [`STARTED`]
//!    there.
//! 2. It sets up what the machine is about (affinity, cgroups, processors offline) for itself.
//! 3. It runs the command, whose output goes through a pipe to the second serial port, where the kernel writes nothing:
//!    a command that sees a terminal draws progress bars.
//! 4. It writes [`STATUS`] and the exit status there on a line of their own, and powers off.
//!
//! A guest that is still there a minute after its time is over powers itself off, in case the one who would have
//! stopped it is no more.

use std::time::Duration;

use super::machine::Machine;

/// Begins the last line: a byte that text does not have.
pub(crate) const STATUS: &str = "\u{1e}status ";

/// The first line: the kernel has booted. A line of its own, as above.
pub(crate) const STARTED: &str = "\u{1e}started";

/// How long after its time a guest stops by itself.
const GRACE: Duration = Duration::from_secs(60);

/// The script that runs `command` on `machine`, with the variables of `environment`.
pub(crate) fn init(machine: &Machine, command: &[String], environment: &[(String, String)], limit: Duration) -> String {
    let setup = machine.setup;
    let seconds = (limit + GRACE).as_secs();
    let exports: String = environment
        .iter()
        .map(|(name, value)| format!("export {name}={}\n", quoted(value)))
        .collect();
    let words: Vec<_> = command.iter().map(|word| quoted(word)).collect();
    let command = words.join(" ");
    format!(
        "#!/bin/sh
export PATH=/bin HOME=/tmp TMPDIR=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
ulimit -n 65536
stty -F /dev/ttyS1 raw -echo
printf '{STARTED}\\n' > /dev/ttyS1
(sleep {seconds}; poweroff -f) &
mkfifo /output
cat /output > /dev/ttyS1 &
output=$!
{setup}{exports}cd /tmp
{command} < /dev/null > /output 2>&1
status=$?
wait $output
printf '\\n{STATUS}%d\\n' $status > /dev/ttyS1
poweroff -f
"
    )
}

/// A word that the shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulate::machine::find;

    #[test]
    fn the_command_is_quoted_word_by_word() {
        let words = ["echo", "it's", "$HOME *"].map(str::to_owned);
        let environment = [("QUADRILLE_PIN".to_owned(), "strict".to_owned())];
        let script = init(
            find("quota").expect("it is there"),
            &words,
            &environment,
            Duration::from_secs(30),
        );
        assert!(
            script.contains("\n'echo' 'it'\\''s' '$HOME *' < /dev/null > /output 2>&1\n"),
            "{script}"
        );
        assert!(script.contains("\nexport QUADRILLE_PIN='strict'\n"), "{script}");
        assert!(script.contains("\necho 250000 100000 > $job/cpu.max\n"), "{script}");
        assert!(script.contains("\n(sleep 90; poweroff -f) &\n"), "{script}");
    }
}
