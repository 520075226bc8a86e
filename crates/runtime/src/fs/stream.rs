//! The part of a file that reads, writes and seeks: at most one job at a time, and what was read ahead.
//!
//! # States
//!
//! | state | the file's position | the buffer |
//! |---|---|---|
//! | idle, buffer empty | the user's | empty |
//! | idle, buffer not empty | as many bytes ahead of the user's as are in the buffer | what was read and not taken |
//! | busy | the job's business | the job's |
//!
//! A job takes the buffer along and brings it back. It leaves the stream in one of the idle states, whatever happens to
//! it: a seek or a write first goes back by what was read ahead. What can't seek has no position: there a write leaves
//! what was read ahead as it is.
//!
//! # Who sees which result
//!
//! A job is started by one call and usually ends in that call. If its future is dropped, the result waits in the stream
//! for the next call of any kind, which first of all waits for the job:
//!
//! - bytes that were read stay in the buffer, for the next read: nothing is lost. An error is told only if the next
//!   call is a read. That the file ended there is nobody's: it may have grown since;
//! - a write's call ends when its job has begun. So its error is told by a later call: the next write or flush, after a
//!   wait for the job by whichever call came first;
//! - a read or a seek that never began, because its runtime has stopped, has done nothing: it is an error of its own
//!   call alone;
//! - a seek's position is nobody's, for the file may have another end since. But a seek relative to the position is the
//!   answer to the next call if that asks for the same: it would go twice otherwise.
//!
//! A method that polls can't tell a dropped call of its like from its own last one. So by the traits of futures-io the
//! end of the file and the position of any seek are the answer to the next call that asks for the same. And that a call
//! never began is told to the next that reads or seeks; so it is to a seek by the method, if that is relative to the
//! position.

use std::fs::File;
use std::future::Future;
use std::io::{self, IoSlice, Read, Seek, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::attempt::{patiently, write_whole};
use super::buffer::Buffer;
use super::stateful_job::StatefulJob;
use crate::blocking::AtStop;
use crate::coop;
use crate::reactor::Side;

#[derive(Debug)]
pub(super) struct Stream {
    file: Arc<File>,
    state: State,
    /// Of a write, which nobody was told yet.
    write_error: Option<io::Error>,
}

#[derive(Debug)]
enum State {
    Idle(Buffer),
    /// The job, and what becomes of it at a stop before it has begun: it is not carried out if it reads or seeks, and
    /// is if it writes.
    Busy(StatefulJob<Buffer, Done>, AtStop),
}

/// What a job has done.
#[derive(Debug)]
enum Done {
    /// How many bytes; they are in the buffer.
    Read(io::Result<usize>),
    Write(io::Result<()>),
    /// What was asked, and the position from the start.
    Seek(SeekFrom, io::Result<u64>),
    /// Nothing: it was to read or to seek, and the runtime has shut down before.
    NotBegun(io::Error),
}

impl Stream {
    pub(super) fn new(file: Arc<File>) -> Self {
        Stream {
            file,
            state: State::Idle(Buffer::default()),
            write_error: None,
        }
    }

    /// Reads what is there, at most the length of `to` and `length_max`, which is not zero.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut [u8],
        length_max: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            match ready!(self.poll_done(cx)) {
                Some(Done::Read(Ok(0))) => return Poll::Ready(Ok(0)),
                Some(Done::Read(Err(error)) | Done::NotBegun(error)) => return Poll::Ready(Err(error)),
                Some(Done::Write(Err(error))) => self.write_error = Some(error),
                Some(Done::Read(Ok(_)) | Done::Write(Ok(())) | Done::Seek(..)) | None => {}
            }
            let buffer = self.idle();
            if to.is_empty() || !buffer.is_empty() {
                return Poll::Ready(Ok(buffer.take(to)));
            }
            let length = to.len().min(length_max);
            let file = Arc::clone(&self.file);
            self.start(AtStop::Drop, move |buffer| {
                Done::Read(buffer.fill(length, |to| patiently(&mut &*file, Side::Read, |file| file.read(to))))
            })?;
        }
    }

    /// Takes over a copy of the beginning of `from`, one after the other, at most `length_max` bytes, which is not
    /// zero, and starts to write it.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        from: &[IoSlice<'_>],
        length_max: usize,
    ) -> Poll<io::Result<usize>> {
        match ready!(self.poll_done(cx)) {
            Some(Done::Write(Err(error))) => return Poll::Ready(Err(error)),
            Some(Done::Read(_) | Done::Write(Ok(())) | Done::Seek(..) | Done::NotBegun(_)) | None => {}
        }
        if let Some(error) = self.write_error.take() {
            return Poll::Ready(Err(error));
        }
        if from.iter().all(|piece| piece.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        let ahead = self.idle();
        let mut buffer = if ahead.is_empty() {
            std::mem::take(ahead)
        } else {
            Buffer::default()
        };
        let length = buffer.replace(from, length_max);
        let file = Arc::clone(&self.file);
        self.start(AtStop::Run, move |ahead| {
            let written = go_back(&file, ahead).and_then(|()| write_whole(&mut &*file, buffer.as_slice()));
            if ahead.is_empty() {
                // For its memory.
                buffer.clear();
                *ahead = buffer;
            }
            Done::Write(written)
        })?;
        Poll::Ready(Ok(length))
    }

    /// Waits for what was written, and tells of its error.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_settled(cx));
        Poll::Ready(self.write_error.take().map_or(Ok(()), Err))
    }

    /// Waits for the job, if there is one, and keeps the error of a write.
    pub(super) fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(Done::Write(Err(error))) = ready!(self.poll_done(cx)) {
            self.write_error = Some(error);
        }
        Poll::Ready(())
    }

    /// Waits for what another call has left: of a read an error, for the read that is to follow. Its bytes are in the
    /// buffer.
    pub(super) fn poll_left_for_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(self.poll_done(cx)) {
            Some(Done::Read(Err(error))) => return Poll::Ready(Err(error)),
            Some(Done::Write(Err(error))) => self.write_error = Some(error),
            Some(Done::Read(Ok(_)) | Done::Write(Ok(())) | Done::Seek(..) | Done::NotBegun(_)) | None => {}
        }
        Poll::Ready(Ok(()))
    }

    /// Goes to another position. Polled again after `Pending` it must be given the same `to`.
    pub(super) fn poll_seek(&mut self, cx: &mut Context<'_>, to: SeekFrom) -> Poll<io::Result<u64>> {
        loop {
            match ready!(self.poll_done(cx)) {
                Some(Done::Seek(asked, position)) if asked == to => return Poll::Ready(position),
                Some(Done::NotBegun(error)) => return Poll::Ready(Err(error)),
                Some(Done::Write(Err(error))) => self.write_error = Some(error),
                Some(Done::Seek(..) | Done::Read(_) | Done::Write(Ok(()))) | None => {}
            }
            self.start_seek(to)?;
        }
    }

    /// Nothing is under way.
    fn start_seek(&mut self, to: SeekFrom) -> io::Result<()> {
        let file = Arc::clone(&self.file);
        self.start(AtStop::Drop, move |buffer| {
            let position = seek_from(&file, to, buffer.len());
            if position.is_ok() {
                buffer.clear();
            }
            Done::Seek(to, position)
        })
    }

    /// Nothing is under way. If there can't be a job, because the runtime shuts down or the system has no thread,
    /// everything stays as it is.
    fn start(
        &mut self,
        at_stop: AtStop,
        operation: impl FnOnce(&mut Buffer) -> Done + Send + 'static,
    ) -> io::Result<()> {
        let buffer = std::mem::take(self.idle());
        match StatefulJob::new(at_stop, buffer, operation) {
            Ok(job) => {
                self.state = State::Busy(job, at_stop);
                Ok(())
            }
            Err((buffer, reason)) => {
                self.state = State::Idle(buffer);
                Err(reason.into())
            }
        }
    }

    /// Brings the file's position to the user's, for those who look at it from outside of the stream.
    /// What has no position, such as a pipe, is where it is: what was read ahead of it stays here.
    pub(super) fn poll_synced(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let done = ready!(self.poll_done(cx));
            let is_there = matches!(&self.state, State::Idle(buffer) if buffer.is_empty());
            match done {
                Some(Done::Seek(SeekFrom::Current(0), Err(error))) if error.kind() == io::ErrorKind::NotSeekable => {
                    return Poll::Ready(Ok(()));
                }
                Some(Done::Seek(SeekFrom::Current(0), position)) => return Poll::Ready(position.map(drop)),
                // It may have been the way there.
                Some(Done::NotBegun(error)) if !is_there => return Poll::Ready(Err(error)),
                Some(Done::Write(Err(error))) => self.write_error = Some(error),
                Some(Done::Seek(..) | Done::Read(_) | Done::Write(Ok(())) | Done::NotBegun(_)) | None => {}
            }
            if is_there {
                return Poll::Ready(Ok(()));
            }
            self.start_seek(SeekFrom::Current(0))?;
        }
    }

    /// Whether the file alone is all there is: no job is under way, nothing was read ahead, no error waits.
    pub(super) fn is_synced(&self) -> bool {
        self.write_error.is_none() && matches!(&self.state, State::Idle(buffer) if buffer.is_empty())
    }

    /// Waits for the job; `None` if there was none. After that the stream is idle.
    fn poll_done(&mut self, cx: &mut Context<'_>) -> Poll<Option<Done>> {
        let State::Busy(job, at_stop) = &mut self.state else {
            // Paid for all the same, also by who is refused a job then; for a job its channel is.
            return coop::poll_spend(cx).map(|()| None);
        };
        let at_stop = *at_stop;
        let (buffer, outcome) = ready!(Pin::new(job).poll(cx));
        self.state = State::Idle(buffer);
        Poll::Ready(Some(outcome.unwrap_or_else(|error| match at_stop {
            AtStop::Drop => Done::NotBegun(error),
            // A stop is no reason, so it has panicked. Nobody shall take what was to be written for written.
            AtStop::Run => Done::Write(Err(error)),
        })))
    }

    /// The buffer of an idle stream.
    fn idle(&mut self) -> &mut Buffer {
        match &mut self.state {
            State::Idle(buffer) => buffer,
            State::Busy(..) => unreachable!("every caller has waited for the job"),
        }
    }
}

/// Moves the position back by what was read ahead, which is to be read again. What can't seek, such as a socket, has no
/// position that reading and writing share: what was read ahead of it stays.
fn go_back(mut file: &File, ahead: &mut Buffer) -> io::Result<()> {
    if ahead.is_empty() {
        return Ok(());
    }
    match file.seek(SeekFrom::Current(-signed(ahead.len()))) {
        Ok(_) => ahead.clear(),
        Err(error) if error.kind() == io::ErrorKind::NotSeekable => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Seeks as if the position were `ahead` bytes before where it is.
fn seek_from(mut file: &File, to: SeekFrom, ahead: usize) -> io::Result<u64> {
    let to = match to {
        SeekFrom::Current(offset) => SeekFrom::Current(offset.checked_sub(signed(ahead)).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("seeking by {offset} leaves the range of positions"),
            )
        })?),
        SeekFrom::Start(_) | SeekFrom::End(_) => to,
    };
    file.seek(to)
}

fn signed(length: usize) -> i64 {
    i64::try_from(length).expect("the length of memory fits i64")
}
