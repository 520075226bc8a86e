//! Nothing of its own: the examples beside this file are what the package is for.
