//! What tests and benches of stores need: [requests](requests::Requests) as they come in practice.

pub mod requests;
