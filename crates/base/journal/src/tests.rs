//! Tests of all parts together, on the simulated disk. What must hold is in [`oracle`]; each test that relies on it
//! also plants a fault, to see that it is found.

mod damage;
mod faults;
mod model;
mod oracle;
mod recovery;
mod rig;
mod threads;

use blkkin_sys::testing::figure;
