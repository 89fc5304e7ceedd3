//! Each field class, at each kind of position, from bytes written by hand.
