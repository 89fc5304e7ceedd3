//! Tests that write traces with [`crate::testing`], and read them in each of the ways that the
//! crate offers.

mod alignment;
mod bind;
mod follow;
mod lines;
mod live;
mod merge;
mod packets;
