//! Which locks and guards may go to other threads, and be shared by them, by what may the value that they are for.

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;

use quadrille::sync::{
    Barrier, BarrierWait, Lock, LockOwned, MappedMutexGuard, Mutex, MutexGuard, OnceCell, OwnedMappedMutexGuard,
    OwnedMutexGuard, OwnedRwLockMappedWriteGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, Read, ReadOwned, RwLock,
    RwLockMappedWriteGuard, RwLockReadGuard, RwLockWriteGuard, Write, WriteOwned,
};

/// May be sent and shared.
type Both = u8;
/// May be sent, not shared.
type Sent = Cell<u8>;
/// May be shared, not sent.
type Shared = std::sync::MutexGuard<'static, u8>;
type Neither = Rc<u8>;

/// Whether a type has a marker: of two constants of one name, the compiler takes the one of the type, if its bound
/// holds, before that of a trait.
macro_rules! is {
    ($marker:ident, $type:ty) => {{
        struct Asked<T>(PhantomData<T>);
        #[allow(dead_code, reason = "not taken where the bound holds")]
        trait Otherwise {
            const ANSWER: bool = false;
        }
        impl<T> Otherwise for Asked<T> {}
        impl<T: $marker> Asked<T> {
            #[allow(dead_code, reason = "not taken where the bound doesn't hold")]
            const ANSWER: bool = true;
        }
        <Asked<$type>>::ANSWER
    }};
}

/// Of a type, whether it is `Send` and whether it is `Sync`.
macro_rules! marks {
    ($type:ty) => {
        (is!(Send, $type), is!(Sync, $type))
    };
}

const NONE: (bool, bool) = (false, false);
const ALL: (bool, bool) = (true, true);

#[test]
fn the_question_is_answered() {
    assert_eq!(marks!(Both), ALL);
    assert_eq!(marks!(Sent), (true, false));
    assert_eq!(marks!(Shared), (false, true));
    assert_eq!(marks!(Neither), NONE);
}

#[test]
fn a_lock_is_shared_if_its_value_may_be_and_may_go_where_it_is_changed() {
    assert_eq!(marks!(RwLock<Both>), ALL);
    assert_eq!(marks!(RwLock<Sent>), (true, false));
    assert_eq!(marks!(RwLock<Shared>), NONE);
    assert_eq!(marks!(RwLock<Neither>), NONE);
}

#[test]
fn a_readers_guard_goes_where_its_value_may_be_shared() {
    assert_eq!(marks!(RwLockReadGuard<'static, Both>), ALL);
    assert_eq!(marks!(RwLockReadGuard<'static, Sent>), NONE);
    assert_eq!(marks!(RwLockReadGuard<'static, Shared>), (true, false));
    assert_eq!(marks!(RwLockReadGuard<'static, Neither>), NONE);
}

/// It can become a reader's, beside which there are others.
#[test]
fn a_writers_guard_goes_where_its_value_may_be_sent_and_shared() {
    assert_eq!(marks!(RwLockWriteGuard<'static, Both>), ALL);
    assert_eq!(marks!(RwLockWriteGuard<'static, Sent>), NONE);
    assert_eq!(marks!(RwLockWriteGuard<'static, Shared>), NONE);
    assert_eq!(marks!(RwLockWriteGuard<'static, Neither>), NONE);
    assert_eq!(marks!(RwLockMappedWriteGuard<'static, Both>), ALL);
    assert_eq!(marks!(RwLockMappedWriteGuard<'static, Sent>), (true, false));
    assert_eq!(marks!(RwLockMappedWriteGuard<'static, Shared>), NONE);
    assert_eq!(marks!(RwLockMappedWriteGuard<'static, Neither>), NONE);
}

/// The last one that goes drops the value.
#[test]
fn an_owned_guard_goes_where_the_value_of_its_lock_may_be_sent_and_shared() {
    assert_eq!(marks!(OwnedRwLockReadGuard<Both>), ALL);
    assert_eq!(marks!(OwnedRwLockReadGuard<Sent>), NONE);
    assert_eq!(marks!(OwnedRwLockReadGuard<Shared>), NONE);
    assert_eq!(marks!(OwnedRwLockReadGuard<Neither>), NONE);
    assert_eq!(marks!(OwnedRwLockReadGuard<Sent, Both>), NONE);
    assert_eq!(marks!(OwnedRwLockReadGuard<Both, Sent>), NONE);
    assert_eq!(marks!(OwnedRwLockReadGuard<Both, Shared>), (true, false));
    assert_eq!(marks!(OwnedRwLockWriteGuard<Both>), ALL);
    assert_eq!(marks!(OwnedRwLockWriteGuard<Sent>), NONE);
    assert_eq!(marks!(OwnedRwLockWriteGuard<Shared>), NONE);
    assert_eq!(marks!(OwnedRwLockWriteGuard<Neither>), NONE);
    assert_eq!(marks!(OwnedRwLockMappedWriteGuard<Both>), ALL);
    assert_eq!(marks!(OwnedRwLockMappedWriteGuard<Both, Sent>), (true, false));
    assert_eq!(marks!(OwnedRwLockMappedWriteGuard<Both, Shared>), NONE);
    assert_eq!(marks!(OwnedRwLockMappedWriteGuard<Sent, Both>), NONE);
}

#[test]
fn a_future_goes_where_its_lock_may_be_shared() {
    assert_eq!(marks!(Read<'static, Both>), ALL);
    assert_eq!(marks!(Read<'static, Sent>), NONE);
    assert_eq!(marks!(Read<'static, Shared>), NONE);
    assert_eq!(marks!(Write<'static, Both>), ALL);
    assert_eq!(marks!(Write<'static, Sent>), NONE);
    assert_eq!(marks!(Write<'static, Shared>), NONE);
    assert_eq!(marks!(ReadOwned<Both>), ALL);
    assert_eq!(marks!(ReadOwned<Sent>), NONE);
    assert_eq!(marks!(WriteOwned<Both>), ALL);
    assert_eq!(marks!(WriteOwned<Sent>), NONE);
}

/// Who holds a mutex has the value alone: it need not be `Sync` to be sent there. Who sees the guard may come to the
/// mutex.
#[test]
fn a_guard_of_a_mutex_is_sent_as_its_value_is() {
    assert_eq!(marks!(Mutex<Sent>), ALL);
    assert_eq!(marks!(Mutex<Shared>), NONE);
    assert_eq!(marks!(Lock<'static, Sent>), ALL);
    assert_eq!(marks!(MutexGuard<'static, Both>), ALL);
    assert_eq!(marks!(MutexGuard<'static, Sent>), (true, false));
    assert_eq!(marks!(MutexGuard<'static, Shared>), NONE);
    assert_eq!(marks!(MutexGuard<'static, Neither>), NONE);
    assert_eq!(marks!(MappedMutexGuard<'static, Sent>), (true, false));
    assert_eq!(marks!(MappedMutexGuard<'static, Shared>), NONE);
    assert_eq!(marks!(LockOwned<Sent>), ALL);
    assert_eq!(marks!(OwnedMutexGuard<Both>), ALL);
    assert_eq!(marks!(OwnedMutexGuard<Sent>), (true, false));
    assert_eq!(marks!(OwnedMutexGuard<Shared>), NONE);
    assert_eq!(marks!(OwnedMappedMutexGuard<Sent, Sent>), (true, false));
    assert_eq!(marks!(OwnedMappedMutexGuard<Shared, Both>), NONE);
    assert_eq!(marks!(OwnedMappedMutexGuard<Both, Shared>), NONE);
}

#[test]
fn a_cell_is_shared_if_its_value_may_be_sent_and_shared() {
    assert_eq!(marks!(OnceCell<Both>), ALL);
    assert_eq!(marks!(OnceCell<Sent>), (true, false));
    assert_eq!(marks!(OnceCell<Shared>), NONE);
    assert_eq!(marks!(OnceCell<Neither>), NONE);
    assert_eq!(marks!(Barrier), ALL);
    assert_eq!(marks!(BarrierWait<'static>), ALL);
}
