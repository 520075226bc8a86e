//! What scopes of tasks and scopes of threads promise alike.

use quadrille::Runtime;
use quadrille::thread::{ThreadInfo, ThreadState, WaitsFor};

use crate::count::{Count, Token};
use crate::gate::Gate;
use crate::shape::for_each_shape_if;
use crate::wait::eventually;

/// Whether a user-level thread waits for the end of its scope.
pub(crate) fn waits_for_a_scope(runtime: &Runtime) -> bool {
    let is_scope = |thread: ThreadInfo| {
        matches!(
            thread.state,
            ThreadState::Suspended {
                waits_for: WaitsFor::Scope,
                ..
            }
        )
    };
    runtime.handle().threads().into_iter().any(is_scope)
}

/// Calls `scope` on a user-level thread: it leaves the closure of a scope at once, in which somebody passes the gate,
/// and spawns somebody who drops the token.
pub(crate) fn spawns_after_its_closure_has_returned(scope: fn(Gate, Token)) {
    for_each_shape_if(
        |shape| shape.workers <= 4,
        move |shape| {
            let runtime = shape.runtime();
            let (gate, ended) = (Gate::default(), Count::default());
            let (passes, token) = (gate.clone(), ended.token());
            let waits = runtime.spawn_thread(move || scope(passes, token));
            eventually("it waits for the scope", || waits_for_a_scope(&runtime));
            gate.open();
            waits.join().unwrap();
            assert_eq!(ended.get(), 1);
        },
    );
}
