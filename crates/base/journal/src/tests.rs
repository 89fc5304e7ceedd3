//! Tests of all parts together, on the simulated disk. [`oracle`] states what must hold. Each test
//! that relies on it also injects a fault, to check that the fault is found.

mod damage;
mod faults;
mod model;
mod oracle;
mod recovery;
mod rig;
mod threads;

use blkkin_sys::testing::figure;
