//! Nothing of its own: the example beside this file is what the package is for.
