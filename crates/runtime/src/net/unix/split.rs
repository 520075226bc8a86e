//! The halves of a [`UnixStream`].

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::unix::net::{self, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::UnixStream;
use crate::io::{AsyncFd, Interest, Ready};
use crate::net::split::halves;
use crate::net::stream::{Source, impl_read, impl_write, read_methods, ready_methods, write_methods};
use crate::reactor::Side;

halves!(UnixStream, SocketAddr);
