//! Tests of the whole journal on the simulated disk. [`oracle`] states the guarantees. The modules
//! with tests against the oracle also inject faults, to check that the oracle detects them.

mod damage;
mod faults;
mod model;
mod oracle;
mod recovery;
mod rig;
mod threads;

use blkkin_sys::testing::figure;
