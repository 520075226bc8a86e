//! may: the echo server among its examples.

use super::blocking::{ThreadServers, by_names_of_std};
use crate::adapters::may::May;

impl ThreadServers for May {
    by_names_of_std!(may::net);
}
