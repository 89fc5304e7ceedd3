//! Support for tests and benches of stores: the [conformance tests](conformance), and a
//! [generator](requests::Requests) of realistic requests.

pub mod conformance;
pub mod requests;
