//! (E a): what few tasks have is seen as it was made. (E b), (E c): of an abort and a task that becomes pending for the
//! first time, one notices the other.

use std::sync::Arc;

use loom::thread::spawn;

use super::{check, one_group};
use crate::task::Meta;
use crate::task::spawn::Options;

const KEY: u32 = 7;

/// Metadata of a task that nobody will run: its scheduler is never looked at.
fn meta() -> Arc<Meta> {
    let policy = quadrille_policy::Policy::new(quadrille_policy::Config::default(), one_group(1));
    Arc::new(Meta::new(
        std::ptr::null(),
        policy.new_task(None, quadrille_policy::SetId::NONE),
        Options::default(),
    ))
}

/// The handle is made and used while the task registers.
#[test]
fn e_abort_is_noticed() {
    check(3, || {
        let meta = meta();
        let body = meta.clone();
        let thread = spawn(move || body.registered(KEY));
        let woken = meta.abort_cell().abort();
        let stopped = thread.join().unwrap();
        assert!(stopped || woken == Some(KEY), "aborted, pending, and nobody knows");
    });
}

/// The handle is made by one thread and used by another.
#[test]
fn e_abort_by_another_is_noticed() {
    check(3, || {
        let meta = meta();
        let cell = meta.abort_cell();
        let body = meta.clone();
        let thread = spawn(move || body.registered(KEY));
        let user = spawn(move || cell.abort());
        let second = meta.abort_cell().abort();
        let stopped = thread.join().unwrap();
        let woken = user.join().unwrap().or(second);
        assert!(stopped || woken == Some(KEY), "aborted, pending, and nobody knows");
    });
}

/// Two make what few tasks have, and one looks whether it is there: it is made once, and seen as it was made.
#[test]
fn e_extras_are_seen_as_they_were_made() {
    check(3, || {
        let meta = meta();
        let makes = [meta.clone(), meta.clone()].map(|meta| {
            spawn(move || {
                let extras = meta.extras_or_new();
                extras.life.touch();
                std::ptr::from_ref(extras).addr()
            })
        });
        if let Some(extras) = meta.extras() {
            extras.life.touch();
        }
        let made = makes.map(|thread| thread.join().unwrap());
        assert_eq!(made[0], made[1]);
    });
}
