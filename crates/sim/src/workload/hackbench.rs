//! hackbench: groups in which every sender writes to every receiver.

use std::fmt;
use std::str::FromStr;

use super::{ChannelId, ChannelSpec, Context, Kin, NewTask, Setup, Step, TaskId, Transport, Workload, text};

/// Groups of `fds` senders and `fds` receivers. Each receiver has one channel, and a sender writes one message to each
/// of its group in turn, `loops` times.
///
/// ```
/// use quadrille_sim::Hackbench;
///
/// let hackbench: Hackbench = "g=32,via=pipe".parse()?;
/// assert_eq!((hackbench.groups, hackbench.fds, hackbench.tasks()), (32, 20, 1280));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hackbench {
    /// Groups. Default 10.
    pub groups: u32,
    /// Senders, and receivers, in a group. Default 20.
    pub fds: u32,
    /// Messages from each sender to each receiver; 0: without end. Default 0.
    pub loops: u64,
    /// Bytes of a message. Default 100.
    pub bytes: u32,
    /// What carries them. Default channels.
    pub via: Transport,
    /// Messages that a channel holds; 0: as many as fit into 64 KiB. Default 0.
    pub capacity: u32,
    /// Who is whose kin. Default one program.
    pub kinship: Kinship,
    state: State,
}

/// Which of the tasks are one coupling set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kinship {
    /// All: they are threads of one program.
    #[default]
    Program,
    /// None: every task is a program, as those that hackbench makes without `--threads`.
    Alone,
    /// Those of a group, each declared as a set.
    Groups,
    /// All, declared as one set.
    Declared,
}

/// Where the senders and receivers are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    /// By task: messages sent or received.
    counts: Vec<u64>,
}

impl Default for Hackbench {
    fn default() -> Self {
        Self {
            groups: 10,
            fds: 20,
            loops: 0,
            bytes: 100,
            via: Transport::Channel,
            capacity: 0,
            kinship: Kinship::Program,
            state: State::default(),
        }
    }
}

/// Bytes that a channel holds: what the kernel gives a pipe, and a page of it.
const RING: u32 = 65_536;
const PAGE: u32 = 4_096;

impl Hackbench {
    /// Senders and receivers together.
    #[must_use]
    pub fn tasks(&self) -> u64 {
        2 * u64::from(self.groups) * u64::from(self.fds)
    }

    fn kin(&self, group: u32) -> Kin {
        match self.kinship {
            Kinship::Program => Kin::Program(1),
            Kinship::Alone => Kin::Inherited,
            Kinship::Groups => Kin::Declared(group + 1),
            Kinship::Declared => Kin::Declared(1),
        }
    }

    /// Channel `i` belongs to receiver `i` of all.
    fn channel(&self, group: u32, receiver: u32) -> ChannelId {
        ChannelId(group * self.fds + receiver)
    }
}

impl Workload for Hackbench {
    fn name(&self) -> String {
        format!("hackbench:{self}")
    }

    fn start(&mut self, setup: &mut Setup<'_>) {
        let spec = ChannelSpec {
            capacity: match self.capacity {
                0 => (RING / self.bytes).max(1),
                capacity => capacity,
            },
            bytes: self.bytes,
            grain: match self.via {
                Transport::Channel => 1,
                Transport::Pipe => (PAGE / self.bytes).max(1),
            },
            transport: self.via,
        };
        for _ in 0..self.groups * self.fds {
            setup.channel(spec);
        }
        for group in 0..self.groups {
            for _ in 0..2 * self.fds {
                setup.task(NewTask { kin: self.kin(group) });
            }
        }
        self.state.counts = vec![0; usize::try_from(self.tasks()).unwrap_or_default()];
    }

    fn step(&mut self, task: TaskId, context: &mut Context<'_>) -> Step {
        let members = 2 * self.fds;
        let (group, member) = (task.0 / members, task.0 % members);
        let Some(count) = self.state.counts.get_mut(task.index()) else {
            return Step::Exit;
        };
        let past = *count;
        *count += 1;
        let is_receiver = member < self.fds;
        // The message before has arrived.
        context.done(u64::from(is_receiver && past > 0));
        if self.loops > 0 && past >= self.loops * u64::from(self.fds) {
            return Step::Exit;
        }
        if is_receiver {
            Step::Recv(self.channel(group, member))
        } else {
            let receiver = u32::try_from(past % u64::from(self.fds)).unwrap_or_default();
            Step::Send(self.channel(group, receiver))
        }
    }
}

impl FromStr for Hackbench {
    type Err = String;

    /// `name=value,…` with `g` (groups), `f` (fds), `l` (loops), `s` (bytes), `c` (capacity), `sets` (program,
    /// none, groups or declared), `via` (channel or pipe).
    fn from_str(text: &str) -> Result<Self, String> {
        let mut hackbench = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (name, value) = item
                .split_once('=')
                .ok_or_else(|| format!("hackbench `{item}`: expected name=value"))?;
            let number = |least: u32| match value.parse::<u32>() {
                Ok(number) if number >= least => Ok(number),
                _ => Err(format!(
                    "hackbench {name}={value}: expected a whole number from {least} on"
                )),
            };
            match name {
                "g" => hackbench.groups = number(1)?,
                "f" => hackbench.fds = number(1)?,
                "l" => hackbench.loops = u64::from(number(0)?),
                "s" => hackbench.bytes = number(1)?,
                "c" => hackbench.capacity = number(0)?,
                "sets" if value == "program" => hackbench.kinship = Kinship::Program,
                "sets" if value == "none" => hackbench.kinship = Kinship::Alone,
                "sets" if value == "groups" => hackbench.kinship = Kinship::Groups,
                "sets" if value == "declared" => hackbench.kinship = Kinship::Declared,
                "sets" => {
                    return Err(format!(
                        "hackbench sets={value}: expected program, none, groups or declared"
                    ));
                }
                "via" if value == "channel" => hackbench.via = Transport::Channel,
                "via" if value == "pipe" => hackbench.via = Transport::Pipe,
                "via" => return Err(format!("hackbench via={value}: expected channel or pipe")),
                _ => return Err(format!("hackbench `{name}`: expected g, f, l, s, c, sets or via")),
            }
        }
        if hackbench.tasks() > u64::from(text::TASKS_MAX) {
            return Err(format!(
                "hackbench: {} groups of {} senders and receivers are more than {} tasks",
                hackbench.groups,
                hackbench.fds,
                text::TASKS_MAX
            ));
        }
        Ok(hackbench)
    }
}

impl fmt::Display for Hackbench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g={},f={},l={},s={}", self.groups, self.fds, self.loops, self.bytes)?;
        if self.capacity != 0 {
            write!(f, ",c={}", self.capacity)?;
        }
        match self.kinship {
            Kinship::Program => {}
            Kinship::Alone => f.write_str(",sets=none")?,
            Kinship::Groups => f.write_str(",sets=groups")?,
            Kinship::Declared => f.write_str(",sets=declared")?,
        }
        match self.via {
            Transport::Channel => f.write_str(",via=channel"),
            Transport::Pipe => f.write_str(",via=pipe"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_round_trip() {
        for text in [
            "g=10,f=20,l=0,s=100,via=channel",
            "g=1,f=2,l=3,s=4,via=pipe",
            "g=1,f=2,l=3,s=4,c=5,via=channel",
            "g=1,f=2,l=3,s=4,sets=none,via=channel",
            "g=1,f=2,l=3,s=4,sets=groups,via=channel",
            "g=1,f=2,l=3,s=4,sets=declared,via=channel",
        ] {
            assert_eq!(text.parse::<Hackbench>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn texts_that_are_none_are_answered_in_one_line() {
        for (text, expected) in [
            ("g", "name=value"),
            ("g=0", "from 1 on"),
            ("l=-1", "from 0 on"),
            ("via=fifo", "channel or pipe"),
            ("sets=two", "none, groups or declared"),
            ("x=1", "g, f, l, s, c, sets or via"),
            ("g=100000,f=100", "1048576 tasks"),
        ] {
            let message = text.parse::<Hackbench>().unwrap_err();
            assert!(
                message.contains(expected) && !message.contains('\n'),
                "{text}: {message}"
            );
        }
    }
}
