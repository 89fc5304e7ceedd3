//! Tests of the promise D2: acknowledged requests survive a power cut. Servers run on a disk that
//! logs its writes and flushes. From the log the test builds images of the disk at simulated power
//! cuts, and checks a server on each image.

use crate::harness::{SentRequests, ServerRun};
use crate::program::PlantedFault;
use crate::recorder::{FileSystem, KINDS, Recorder, missing_requirement};
use crate::replay::{Cut, Log, Replay, SurvivingWrites};
use blkkin_sys::testing::{Mounted, Random, env_number, figure, skip};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Number of clients that send at the same time.
const CLIENTS: u64 = 4;

/// Number of batches that a client sends to each server, unless the server is killed first: enough
/// for several files and merges.
const BATCHES: u64 = 12;

/// Maximum time until a server listens, for a debug build on a busy machine.
const SERVES: Duration = Duration::from_secs(20);

/// Client of the recorded servers. Each acknowledged request is stored with the length of the
/// disk's log at the time of the acknowledgement.
struct Client {
    sent: SentRequests,
    acknowledged: Vec<(u64, u64)>,
}

impl Client {
    fn new(number: u64) -> Client {
        Client { sent: SentRequests::from(1 + number * 1_000_000), acknowledged: Vec::new() }
    }

    /// Sends `batches` batches; stops early if the server does not answer.
    fn send(&mut self, web: SocketAddr, log: &Path, batches: u64) {
        for _ in 0..batches {
            let begin = self.sent.next();
            let status = self.sent.send_one(web);
            // The length is read after the answer: the acknowledged data must have been flushed by
            // then.
            let len = std::fs::metadata(log).expect("a log").len();
            match status {
                Some(202) => {
                    self.acknowledged.extend((begin..self.sent.next()).map(|it| (it, len)));
                }
                Some(_) => {}
                None => return,
            }
        }
    }
}

/// Runs two servers in sequence on the recorded disk. The first is killed while clients send, the
/// second stops normally. Returns the clients.
fn record(recorder: &mut Recorder, plant: PlantedFault) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..CLIENTS).map(Client::new).collect();
    let log = recorder.log();
    let data = recorder.path().join("data");
    for is_killed in [true, false] {
        let life = ServerRun::start(&[], &data, plant).unwrap_or_else(|end| panic!("{end:?}"));
        let web = life.web;
        std::thread::scope(|scope| {
            let mut threads: Vec<_> = clients
                .iter_mut()
                .map(|client| scope.spawn(|| client.send(web, &log, BATCHES)))
                .collect();
            if is_killed {
                threads.remove(0).join().expect("it sends");
                life.kill();
            } else {
                threads.into_iter().for_each(|it| it.join().expect("it sends"));
                assert!(life.end().success());
            }
        });
    }
    let files = std::fs::read_dir(data.join("spans")).expect("files").count();
    assert!(files > 1, "what was sent is in the journal alone");
    recorder.end();
    clients
}

/// Returns all sent requests. A request counts as acknowledged if its acknowledgement came before
/// the log exceeded `len` bytes; an image of that moment must contain the request.
fn acknowledged_at(clients: &[Client], len: u64) -> SentRequests {
    let mut sent = SentRequests::default();
    for client in clients {
        sent.add(&client.sent, |number| {
            client.acknowledged.iter().any(|&(it, then)| it == number && then <= len)
        });
    }
    sent
}

/// Chooses `images` positions of power cuts: three fifths directly after flushes (at most all
/// flushes), the rest at random positions.
fn cuts(log: &Log, images: u64, random: &mut Random) -> Vec<Cut> {
    let flushes = log.flushes();
    let of_flushes = flushes.len().min(images as usize * 3 / 5);
    let others = images as usize - of_flushes;
    // The last flush is included, as most data can be lost there.
    let at_flushes = (1..=of_flushes).map(|it| flushes[it * flushes.len() / of_flushes - 1]);
    let mut cuts: Vec<Cut> =
        at_flushes.map(|entries| Cut { entries, left: SurvivingWrites::All }).collect();
    for place in 0..others {
        let stretch = [place, place + 1].map(|it| it * log.entries() / others);
        let entries = stretch[0] + 1 + random.below(stretch[1] - stretch[0]);
        cuts.push(Cut {
            entries,
            left: random.one_of(&[SurvivingWrites::Torn, SurvivingWrites::Any]),
        });
    }
    cuts.sort_by_key(|cut| cut.entries);
    cuts
}

/// Sums over all recorded disks and checked images, and the longest time until a server listened.
#[derive(Default)]
struct CutCounts {
    images: u64,
    flushes: usize,
    /// Number of requests that were acknowledged while the disks were recorded.
    acknowledged: usize,
    /// Number of acknowledged requests that an image had to contain, summed over all images.
    found: u64,
    torn: u64,
    slowest: Duration,
}

/// Starts a server on an image. Checks that the server listens in time, has all requests
/// acknowledged before the power cut, accepts a further batch, and stops normally.
fn check(
    mounted: &Mounted,
    sent: &mut SentRequests,
    seen: &Mutex<CutCounts>,
) -> Result<(), String> {
    let life = ServerRun::start(&[], &mounted.path().join("data"), PlantedFault::None);
    let life = life.map_err(|(status, said)| format!("does not start: {status} {said:?}"))?;
    sent.check(&life).map_err(|why| format!("{why}, and it says {:?}", life.said))?;
    let found = sent.acknowledged();
    let took = life.took;
    if took > SERVES {
        return Err(format!("serves after {took:?}"));
    }
    if sent.send_one(life.web) != Some(202) {
        return Err("takes nothing".to_owned());
    }
    sent.check(&life)?;
    let torn = u64::from(!life.said.is_empty());
    if !life.end().success() {
        return Err("it does not end well".to_owned());
    }
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.images += 1;
    seen.found += found;
    seen.torn += torn;
    seen.slowest = seen.slowest.max(took);
    Ok(())
}

/// Copies the files of an image that failed the check to a permanent directory. Returns the message
/// with the path of the copy.
fn keep_files(mounted: &Mounted, why: String) -> String {
    let kept = tempfile::tempdir().expect("a directory").keep();
    let copied = Command::new("cp").arg("-a").args([&mounted.path().join("data"), &kept]).status();
    format!("{why}; {copied:?}: {}", kept.display())
}

/// Records a run on one type of file system, builds an image for each power cut, and checks each
/// image.
fn cut(
    kind: FileSystem,
    plant: PlantedFault,
    images: u64,
    seed: u64,
    seen: &Mutex<CutCounts>,
) -> Result<(), String> {
    let mut recorder = Recorder::new(kind);
    let clients = record(&mut recorder, plant);
    let (log, beginning) = (Log::read(&recorder.log()), recorder.beginning());
    let mut random = Random::new(seed);
    let cuts = cuts(&log, images, &mut random);
    let replay = Mutex::new(Replay::new(&log, &beginning, kind.whole, seed));
    {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.flushes += log.flushes().len();
        seen.acknowledged += clients.iter().map(|client| client.acknowledged.len()).sum::<usize>();
    }
    let cuts = Mutex::new(cuts.into_iter());
    let work = |worker: usize| {
        let image = recorder.files().join(format!("image-{worker}"));
        loop {
            let mut replay = replay.lock().unwrap_or_else(PoisonError::into_inner);
            let next = cuts.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(cut) = next else { return Ok(()) };
            replay.cut(cut, &image);
            drop(replay);
            let place = |why| format!("{}, seed {seed}, {cut:?}: {why}", kind.name);
            let mounted = kind.mount(&image).map_err(place)?;
            let mut sent = acknowledged_at(&clients, log.len(cut.entries));
            let held = check(&mounted, &mut sent, seen).map_err(place);
            held.map_err(|why| {
                if plant == PlantedFault::None { keep_files(&mounted, why) } else { why }
            })?;
            mounted.unmount();
        }
    };
    // Two threads, because each of them mostly waits.
    let results: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let threads = [0, 1].map(|worker| scope.spawn(move || work(worker)));
        threads.map(|it| it.join().expect("it looks")).into()
    });
    results.into_iter().collect::<Result<(), String>>()?;
    // The replay itself is verified: a replay of the whole log must reproduce the disk.
    let mut replay = replay.into_inner().unwrap_or_else(PoisonError::into_inner);
    let end = recorder.files().join("end");
    replay.cut(Cut { entries: log.entries(), left: SurvivingWrites::All }, &end);
    let same = Command::new("cmp").args([&end, &recorder.image()]).status();
    assert!(same.expect("a program").success(), "the log is not what the disk was told");
    Ok(())
}

#[test]
fn d2_what_is_acknowledged_outlives_the_power() {
    if let Some(why) = missing_requirement() {
        return skip("d2_what_is_acknowledged_outlives_the_power", &why);
    }
    let (images, seed) = (env_number("TEST_IMAGES", 50), env_number("TEST_SEED", 1));
    let seen = Mutex::new(CutCounts::default());
    let share = images.div_ceil(KINDS.len() as u64);
    for (place, kind) in KINDS.into_iter().enumerate() {
        let images = share.min(images - share * place as u64);
        let held = cut(kind, PlantedFault::None, images, seed, &seen);
        held.unwrap_or_else(|why| panic!("{why}"));
    }
    let seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(seen.images, images);
    assert!(seen.found > images * CLIENTS * BATCHES, "{} were there to be lost", seen.found);
    figure(
        "D2",
        &format!(
            "{images} images of disks whose power was cut, of {} flushes and between: all open, of {} requests \
             acknowledged before ({} in all images) 0 lost, {} tell of a torn end; serve again after {} ms at most",
            seen.flushes,
            seen.acknowledged,
            seen.found,
            seen.torn,
            seen.slowest.as_millis()
        ),
    );
}

#[test]
fn d2_a_server_that_makes_nothing_durable_is_found_out() {
    if let Some(why) = missing_requirement() {
        return skip("d2_a_server_that_makes_nothing_durable_is_found_out", &why);
    }
    let found = cut(KINDS[0], PlantedFault::NoSync, 8, 1, &Mutex::default()).unwrap_err();
    assert!(found.contains("lost"), "{found}");
}
