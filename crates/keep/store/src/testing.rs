//! What tests and benches of stores need: the [tests that each must pass](conformance), and
//! [requests](requests::Requests) as they come in practice.

pub mod conformance;
pub mod requests;
