//! Every sequence of events with up to two wakers, against what they mean.

use std::collections::HashSet;

use super::*;

/// Who holds what, told without the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    state: State,
    wakers: usize,
    /// The runnable is in a queue.
    queued: bool,
    /// The task runs.
    running: bool,
    /// Somebody woke it, and it has not begun to run since.
    owed: bool,
    /// The joiner's side.
    joiner: Joiner,
    /// It has made an abort handle in time for the runner to tell it.
    watched: bool,
    /// What is in the cell.
    content: Content,
    /// Whoever ended it has to let go yet.
    letting_go: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Joiner {
    Polls,
    Waits,
    /// It was told, or will be as soon as the runner has let go.
    Told,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Content {
    Future,
    Outcome,
    Nothing,
}

const NEW: World = World {
    state: State::NEW,
    wakers: 0,
    queued: true,
    running: false,
    owed: true,
    joiner: Joiner::Polls,
    watched: false,
    content: Content::Future,
    letting_go: false,
};

impl World {
    fn is_done(&self) -> bool {
        self.content != Content::Future
    }

    /// Does what the word asks for. `None`: freed.
    fn then(mut self, then: Then) -> Option<Self> {
        match then {
            Then::Nothing => {}
            Then::Submit => {
                assert!(!self.queued && !self.running, "a second runnable: {self:?}");
                self.queued = true;
            }
            Then::Free => {
                let World {
                    queued,
                    running,
                    letting_go,
                    wakers,
                    ..
                } = self;
                assert!(!queued && !running && !letting_go, "{self:?}");
                assert_eq!((wakers, self.joiner, self.content), (0, Joiner::Gone, Content::Nothing));
                return None;
            }
        }
        Some(self)
    }

    fn wake(mut self, gives: bool) -> Option<Self> {
        let (state, then) = self.state.wake(gives);
        self.state = state;
        self.wakers -= usize::from(gives);
        self.owed |= !self.is_done();
        self.then(then)
    }

    fn drop_waker(mut self) -> Option<Self> {
        let (state, then) = self.state.drop_waker();
        self.state = state;
        self.wakers -= 1;
        self.then(then)
    }

    fn begin(mut self) -> Self {
        (self.queued, self.running, self.owed) = (false, true, false);
        if self.state.is_woken() {
            self.state = State(self.state.0 & State::NOT_WOKEN);
        }
        self
    }

    fn pause(mut self) -> Option<Self> {
        match self.state.pause() {
            Pause::Again => {
                assert!(self.owed, "queued for nothing: {self:?}");
                (self.running, self.queued) = (false, true);
                Some(self)
            }
            Pause::Abandoned => {
                assert!(self.wakers == 0 && !self.owed, "{self:?}");
                self.end(false)
            }
            Pause::Released(state) => {
                assert!(!self.owed, "a wake-up is lost: {self:?}");
                (self.state, self.running) = (state, false);
                Some(self)
            }
        }
    }

    fn end(mut self, outcome: bool) -> Option<Self> {
        (self.running, self.queued) = (false, false);
        self.owed = false;
        self.content = if outcome { Content::Outcome } else { Content::Nothing };
        match self.state.end(outcome) {
            End::Unshared => {
                assert!(self.wakers == 0 && self.joiner == Joiner::Gone, "{self:?}");
                None
            }
            End::Released(state) => {
                self.state = state;
                assert!(
                    self.joiner == Joiner::Polls || self.content == Content::Nothing,
                    "{self:?}"
                );
                Some(self)
            }
            End::Unwanted(state) => {
                assert_eq!(self.joiner, Joiner::Gone);
                (self.state, self.content, self.letting_go) = (state, Content::Nothing, true);
                Some(self)
            }
            End::Notify(state) => {
                assert_eq!(self.joiner, Joiner::Waits);
                (self.state, self.joiner, self.letting_go) = (state, Joiner::Told, true);
                Some(self)
            }
        }
    }

    fn let_go(mut self) -> Option<Self> {
        let (state, then) = self.state.release();
        self.state = state;
        self.letting_go = false;
        self.then(then)
    }

    fn detach(mut self) -> Option<Self> {
        let then = match self.state.detach() {
            Some(state) => {
                self.state = state;
                Then::Nothing
            }
            None => {
                assert!(self.is_done());
                if self.state.has_outcome() {
                    self.content = Content::Nothing;
                }
                let then = self.state.after_detach();
                assert_eq!(self.state.is_joiners_alone(), then == Then::Free);
                self.state = State(self.state.0 & State::NOT_JOINED);
                then
            }
        };
        self.joiner = Joiner::Gone;
        self.then(then)
    }

    /// Whatever may happen next.
    fn next(self) -> Vec<Option<Self>> {
        let mut next = Vec::new();
        if self.wakers > 0 {
            next.extend([self.wake(false), self.wake(true), self.drop_waker()]);
        }
        if self.queued {
            next.extend([Some(self.begin()), self.end(false)]);
        }
        if self.running {
            next.extend([self.pause(), self.end(true), self.end(false)]);
        }
        if (self.running || self.wakers > 0) && self.wakers < 2 {
            let state = State(self.state.0 + REFERENCE);
            next.push(Some(Self {
                state,
                wakers: self.wakers + 1,
                ..self
            }));
        }
        if self.running {
            // It wakes itself with the waker that it was lent.
            next.push(self.wake(false));
        }
        if self.letting_go {
            next.push(self.let_go());
        }
        match self.joiner {
            Joiner::Polls => match self.state.register() {
                Some(state) => next.push(Some(Self {
                    state,
                    joiner: Joiner::Waits,
                    ..self
                })),
                None => assert!(self.is_done()),
            },
            Joiner::Waits => match self.state.unregister() {
                Some(state) => next.push(Some(Self {
                    state,
                    joiner: Joiner::Polls,
                    ..self
                })),
                None => unreachable!("it would have been told: {self:?}"),
            },
            Joiner::Told | Joiner::Gone => {}
        }
        if self.joiner != Joiner::Gone {
            next.push(self.detach());
            match self.state.watch() {
                Some(state) => next.push(Some(Self {
                    state,
                    watched: true,
                    ..self
                })),
                None => assert!(self.is_done()),
            }
        }
        next
    }
}

/// No wake-up is lost, no runnable made twice, nothing freed early or never, and the result is one's.
#[test]
fn the_word_says_who_holds_what() {
    let (mut seen, mut left) = (HashSet::from([NEW]), vec![NEW]);
    let mut freed = 0;
    while let Some(world) = left.pop() {
        let state = world.state;
        let held = world.queued || world.running || world.letting_go;
        assert_eq!(state.has(HELD), held, "{world:?}");
        assert_eq!(state.has(JOINER), world.joiner != Joiner::Gone, "{world:?}");
        assert_eq!(state.is_done(), world.is_done(), "{world:?}");
        assert_eq!(state.is_watched(), world.watched, "{world:?}");
        assert_eq!(state.0 / REFERENCE, world.wakers, "{world:?}");
        if world.joiner != Joiner::Gone {
            assert_eq!(state.has_outcome(), world.content == Content::Outcome, "{world:?}");
        }
        assert!(
            held || world.is_done() || world.wakers > 0,
            "nobody will ever run or end it: {world:?}"
        );
        assert!(!state.is_unowned(), "nobody will ever free it: {world:?}");
        for next in world.next() {
            match next {
                Some(next) if seen.insert(next) => left.push(next),
                Some(_) => {}
                None => freed += 1,
            }
        }
    }
    assert_eq!((seen.len(), freed), (160, 46), "fewer: an event is not tried any more");
}
