//! What a trace holds.
