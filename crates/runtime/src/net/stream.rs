//! Reading and writing of whatever `std` can read and write through a shared reference.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use crate::io::AsyncFd;

/// Reads what is there, at least one byte; 0 at the end.
pub(super) async fn read<T: AsFd>(fd: &AsyncFd<T>, buffer: &mut [u8]) -> io::Result<usize>
where
    for<'a> &'a T: Read,
{
    fd.read_with(|mut io| io.read(buffer)).await
}

/// Fills the buffer.
pub(super) async fn read_exact<T: AsFd>(fd: &AsyncFd<T>, mut buffer: &mut [u8]) -> io::Result<()>
where
    for<'a> &'a T: Read,
{
    while !buffer.is_empty() {
        match read(fd, buffer).await? {
            0 => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the stream ended before the buffer was full",
                ));
            }
            length => buffer = &mut buffer[length..],
        }
    }
    Ok(())
}

/// Writes what fits, at least one byte.
pub(super) async fn write<T: AsFd>(fd: &AsyncFd<T>, buffer: &[u8]) -> io::Result<usize>
where
    for<'a> &'a T: Write,
{
    fd.write_with(|mut io| io.write(buffer)).await
}

/// Writes the whole buffer.
pub(super) async fn write_all<T: AsFd>(fd: &AsyncFd<T>, mut buffer: &[u8]) -> io::Result<()>
where
    for<'a> &'a T: Write,
{
    while !buffer.is_empty() {
        match write(fd, buffer).await? {
            0 => {
                return Err(io::Error::new(
                    io::ErrorKind::WriteZero,
                    "the stream takes no more bytes",
                ));
            }
            length => buffer = &buffer[length..],
        }
    }
    Ok(())
}
