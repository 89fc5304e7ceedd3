//! Tests of the whole journal on the simulated disk. [`oracle`] states the guarantees. Each test
//! with the oracle also injects a fault, to check that the oracle detects it.

mod damage;
mod faults;
mod model;
mod oracle;
mod recovery;
mod rig;
mod threads;

use blkkin_sys::testing::figure;
