//! Tests of the relay as a whole.
