//! Machine topology.
