//! Workloads × runtimes: what the `quadrille` command runs and reports.
//!
//! A **workload** ([`workloads`]) is written once, against two small traits ([`adapters::Runtime`] and
//! [`adapters::Channel`]; in blocking style, [`adapters::blocking`]), and verifies its own result. An **adapter**
//! ([`adapters`]) makes a runtime fit the traits; Go, which cannot be linked in, is a separate program that reads the
//! same description and prints the same answer. A **run** is one workload on one runtime with one kind of channel
//! ([`spec::Spec`]); it happens in a fresh child process ([`child`]), so that processor time, context switches and the
//! allocator's state belong to it alone. The **commands** ([`commands`]) interleave runs, reduce them ([`stats`]) and
//! print tables, JSON or a page ([`report`]), beside what a reader must know of the machine and the build
//! ([`environment`]).
//!
//! ```text
//!  commands::compare ──► catalogue (rows)              child process
//!        │                                         ┌──────────────────────────────┐
//!        └──► child::run(spec) ── JSON argument ──►│ run_one ─► workload<R, C>    │
//!        ◄─────────── one line of JSON ────────────│             warm-up, measure │
//!        └──► stats ─► report                      └──────────────────────────────┘
//! ```
//!
//! [`calibrate`] stands apart: it measures what the simulator wants to know of a machine. So does [`faults`]: servers
//! whose clients break off.
//!
//! Not here: a figure without the command that makes it, or a wait that no result depends on.

pub mod adapters;
pub mod calibrate;
pub mod catalogue;
pub mod child;
pub mod cli;
pub mod commands;
pub mod environment;
mod executable;
pub mod faults;
pub mod generate;
mod last_words;
pub mod meter;
pub mod moves;
pub mod outcome;
mod parent_death;
pub mod peer;
pub mod process;
pub mod report;
pub mod run_one;
mod run_peers;
pub mod run_threads;
mod sizes;
pub mod spec;
pub mod stamp;
pub mod stats;
pub mod table;
pub mod workloads;
