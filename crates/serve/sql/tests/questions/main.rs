//! Tests of SQL queries on small stores. All tests are in one executable, because linking
//! DataFusion takes long.

mod answers;
mod journal;
mod mutations;
mod refusals;
mod support;
