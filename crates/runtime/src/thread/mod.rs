#![allow(dead_code, unused_imports, reason = "the threads that use the stacks come next")]

pub(crate) mod stack;
