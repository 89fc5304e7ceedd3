//! Test that compares a journal with a naive model after random operations, for thousands of seeds.
//! A failing seed is printed; add it to `FAILED_ONCE` with the fix.

use super::{figure, rig::Rig};
use crate::injection::{self, Injection};
use crate::testing::FalseSync;
use rustix::io::Errno;

/// Number of seeds to test if `TEST_SEEDS` is not set.
const SEEDS: u64 = 3000;
const STEPS: u64 = 60;

/// Seeds that failed in the past; they are always tested.
const FAILED_ONCE: [u64; 1] = [12031];

fn run(seed: u64, lie: Option<FalseSync>) -> Result<(), String> {
    let mut rig = Rig::new(seed);
    rig.disk.set_lie(lie);
    for step in 0..STEPS {
        act(&mut rig).map_err(|why| format!("seed {seed}, step {step}: {why}"))?;
    }
    rig.disk.repair();
    rig.cut_power();
    rig.oracle.check(&rig.disk).map_err(|why| format!("seed {seed}, at the end: {why}"))?;
    Ok(())
}

fn act(rig: &mut Rig) -> Result<(), String> {
    match rig.random.below(20) {
        0 => rig.close(),
        1 => rig.kill(),
        2 => {
            rig.cut_power();
            rig.oracle.check(&rig.disk)?;
        }
        3 => rig.trim(),
        4 => {
            let from = rig.disk.operations() + rig.random.below(8);
            let errno = if rig.random.once_in(2) { Errno::IO } else { Errno::NOSPC };
            rig.disk.fail(from..from + 1 + rig.random.below(6), errno);
        }
        5 => rig.disk.repair(),
        6..9 => rig.follow()?,
        _ => {
            // A failing disk may make the opening fail.
            let opened = rig.open();
            if opened.is_err() {
                rig.disk.repair();
                rig.open()?;
            }
            let _ = rig.append();
        }
    }
    Ok(())
}

#[test]
fn journal_and_model_agree() {
    let wanted = std::env::var("TEST_SEEDS").ok().and_then(|text| text.parse().ok());
    let seeds = wanted.unwrap_or(SEEDS);
    for seed in (0..seeds).chain(FAILED_ONCE) {
        run(seed, None).unwrap();
    }
    figure("D2", &format!("{seeds} journals and their models, {STEPS} random steps each"));
}

/// Checks that at least half of the seeds detect the injected fault, so that detection is no luck.
fn assert_is_found(what: &str, mut run: impl FnMut(u64) -> Result<(), String>) {
    let found = (0..100).filter(|&seed| run(seed).is_err()).count();
    assert!(found >= 50, "{what}: found by {found} seeds of 100");
}

#[test]
fn planted_faults_are_found() {
    assert_is_found("files are not made durable", |seed| run(seed, Some(FalseSync::Files)));
    assert_is_found("names are not made durable", |seed| run(seed, Some(FalseSync::Names)));
    assert_is_found("what was not written is acknowledged", |seed| {
        injection::inject(Injection::WriteSkipped, || run(seed, None))
    });
}
