//! x
mod clock;
mod metadata;
