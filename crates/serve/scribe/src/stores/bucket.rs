//! Bucket store: distributes messages to several stores, at random or by the key at the beginning
//! of each message. Unless the distribution is random, bucket 0 gets the messages without a key.

use super::progress::{BatchProgress, sync_all};
use super::store::{Build, Failure, Store, StoreContext, WriteCounts};
use crate::messages::Batch;
use crate::plan::{BucketPlan, BucketRule};
use blkkin_scribe::Entry;

pub(super) struct Bucket {
    rule: BucketRule,
    delimiter: u8,
    removes_key: bool,
    count: usize,
    stores: Vec<Box<dyn Store>>,
    batches: Vec<Batch>,
    parts: BatchProgress,
}

impl Bucket {
    pub(super) fn new(plan: &BucketPlan, context: &StoreContext, build: Build) -> Bucket {
        let stores = (0..=plan.count).filter_map(|number| {
            let kind = plan.model.as_ref().or_else(|| plan.each.get(number))?;
            // Individually configured stores have their own directories.
            let directory = || format!("{}{:03}", plan.directory, number + plan.offset);
            let bucket = plan.model.is_some().then(directory);
            Some(build(kind, &StoreContext { bucket, ..context.clone() }))
        });
        let stores: Vec<_> = stores.collect();
        Bucket {
            rule: plan.rule,
            delimiter: plan.delimiter,
            removes_key: plan.removes_key,
            count: plan.count,
            batches: vec![Batch::default(); stores.len()],
            parts: BatchProgress::new(stores.len()),
            stores,
        }
    }

    /// Distributes the messages of a batch to the buckets. Not called for a retry, so that the
    /// retry has the same distribution, even with random buckets.
    fn distribute(&mut self, batch: &Batch) {
        for part in &mut self.batches {
            part.reuse(batch.id);
        }
        for mut entry in batch.iter() {
            let key_end = entry.message.iter().position(|byte| *byte == self.delimiter);
            let number = match (self.rule, key_end) {
                (BucketRule::Random, _) => random(self.count),
                (_, None | Some(0)) => 0,
                (rule, Some(end)) => {
                    let (key, rest) = entry.message.split_at(end);
                    if self.removes_key {
                        entry = Entry { message: rest.get(1..).unwrap_or_default(), ..entry };
                    }
                    of_key(rule, key, self.count)
                }
            };
            if let Some(part) = self.batches.get_mut(number) {
                part.push(entry);
            }
        }
    }
}

impl Store for Bucket {
    fn write(&mut self, batch: &Batch) -> Result<WriteCounts, Failure> {
        if self.parts.batch != Some(batch.id) {
            self.parts.begin(batch);
            self.distribute(batch);
        }
        let mut failure = None;
        for (number, (store, part)) in self.stores.iter_mut().zip(&self.batches).enumerate() {
            if part.is_empty() {
                continue;
            }
            if let Err(failed) = self.parts.once(number, || store.write(part)) {
                failure = Some(failed);
            }
        }
        match failure {
            Some(failure) => Err(failure),
            None => Ok(self.parts.finish()),
        }
    }

    fn sync(&mut self) -> Result<(), Failure> {
        sync_all(self.stores.iter_mut())
    }
}

fn random(count: usize) -> usize {
    let [word] = blkkin_sys::random_words::<1>().unwrap_or_default();
    (word % count as u64) as usize + 1
}

fn of_key(rule: BucketRule, key: &[u8], count: usize) -> usize {
    let count = count as u64;
    let number = match rule {
        BucketRule::Random => 0,
        BucketRule::Hash => u64::from(hash(key)) % count,
        BucketRule::Modulo => leading_number(key) % count,
        BucketRule::Range(range) => {
            let context = u128::from(leading_number(key) % range);
            (context * u128::from(count) / u128::from(range)) as u64
        }
    };
    number as usize + 1
}

/// Computes the hash of Scribe's own daemon (djb2), so that keys stay in the same buckets.
fn hash(key: &[u8]) -> u32 {
    key.iter().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add((*byte).into()))
}

/// Parses the decimal digits at the start of a key, after optional white space. Returns 0 without
/// digits, and saturates.
fn leading_number(key: &[u8]) -> u64 {
    let digits = key.trim_ascii_start().iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number: u64, digit| {
        number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_buckets() {
        let check =
            |rule, key: &str, expected| assert_eq!(of_key(rule, key.as_bytes(), 5), expected);
        // The hash is 5381 * 33 + 97 = 177670, a multiple of 5.
        check(BucketRule::Hash, "a", 1);
        check(BucketRule::Hash, "b", 2);
        check(BucketRule::Modulo, "0", 1);
        check(BucketRule::Modulo, "14x", 5);
        check(BucketRule::Modulo, "x", 1);
        check(BucketRule::Range(100), "0", 1);
        check(BucketRule::Range(100), "99", 5);
        check(BucketRule::Range(100), "120", 2);
        check(BucketRule::Range(u64::MAX), "99999999999999999999999", 1);
        for _ in 0..100 {
            assert!((1..=5).contains(&random(5)));
        }
    }
}
