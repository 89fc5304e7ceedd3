//! Traces from [`crate::testing`], read in each of the ways that the crate offers.

mod bind;
mod follow;
mod lines;
mod merge;
mod packets;
