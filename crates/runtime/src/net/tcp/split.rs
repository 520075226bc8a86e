//! The halves of a [`TcpStream`].

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{self, Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::TcpStream;
use crate::io::{AsyncFd, Interest, Ready};
use crate::net::split::halves;
use crate::net::stream::{Source, impl_read, impl_write, read_methods, ready_methods, write_methods};
use crate::reactor::Side;

halves!(TcpStream, SocketAddr);
