//! Questions to small stores, in one program, since each that has DataFusion in it takes long to link.

mod answers;
mod journal;
mod mutations;
mod refusals;
mod support;
