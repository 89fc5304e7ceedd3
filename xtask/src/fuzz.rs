//! `cargo xtask fuzz`: runs libFuzzer on the stable toolchain, so that no second compiler is
//! needed.
//!
//! Targets are the files of `fuzz/fuzz_targets`. Committed seeds are in `fuzz/corpus/TARGET`. New
//! inputs are stored in `target/fuzz/corpus/TARGET`, crashes in `target/fuzz/crashes/TARGET`.

use crate::process::Process;
use crate::tools::{Outcome, at, cargo, target_dir, workspace_root};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Compiler flags that report covered code to libFuzzer, and enable debug assertions. No shipped
/// program is built with them.
const RUSTFLAGS: [&str; 8] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg=fuzzing",
    "-Cdebug-assertions",
    "-Ccodegen-units=1",
];

/// Compiler flag for the sanitizer that detects out-of-bounds access and use after free in unsafe
/// code. The flag is unstable, so `RUSTC_BOOTSTRAP` is set.
const ADDRESS_SANITIZER: &str = "-Zsanitizer=address";

/// Maximum size of an input in bytes. Real texts are small, and parser bugs show on small inputs.
const INPUT_SIZE_MAX: u32 = 8192;

/// Memory limit of a target, in MiB. An input of the maximum size that needs more is a bug.
const MEMORY_MIB_MAX: u32 = 256;

/// Time limit for one input, in seconds. An input of the maximum size that needs more is a bug.
const INPUT_SECONDS_MAX: u32 = 10;

/// Seconds of real time in which a fuzzer has to get a second of processor time.
const REAL_TIME_MAX: u32 = 100;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// A target, or `all`
    #[arg(required_unless_present = "list")]
    target: Option<String>,
    /// List the targets
    #[arg(long)]
    list: bool,
    /// Seconds of processor time for each target; 0: until a crash is found
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// End each target after this many inputs, however long that takes
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    runs: Option<u64>,
    /// Number of processes for each target; with several, `--seconds` are of real time
    #[arg(long, default_value_t = 1)]
    jobs: u32,
    /// Show the fuzzer's progress
    #[arg(long)]
    verbose: bool,
    /// Run the target once, on this file, to look into a crash
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let targets = find_targets(&workspace_root().join("fuzz/fuzz_targets"))?;
    let Some(wanted) = options.target.as_ref().filter(|_| !options.list) else {
        println!("{}", targets.join("\n"));
        return Ok(ExitCode::SUCCESS);
    };
    let names = targets.iter().map(String::as_str);
    let chosen: Vec<&str> = names.filter(|name| wanted == "all" || name == wanted).collect();
    if chosen.is_empty() {
        return Err(format!("no fuzz target `{wanted}`; there are all, {}", targets.join(", ")));
    }
    build(&chosen)?;
    let ok = match &options.input {
        Some(input) => {
            let mut ok = true;
            for target in chosen {
                ok &= run_once(target, input)?;
            }
            ok
        }
        None => fuzz_all(&chosen, options)?,
    };
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Fuzzes the targets in parallel, with one process for each CPU, or one after the other with
/// `--verbose`. Returns true if no target failed.
fn fuzz_all(targets: &[&str], options: &Options) -> Result<bool, String> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = match options.verbose {
        // One target at a time, so that the outputs do not mix.
        true => 1,
        false => (processors / options.jobs.max(1) as usize).max(1),
    };
    let next = AtomicUsize::new(0);
    let work = || {
        let mut ok = true;
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            ok &= fuzz(target, options)?;
        }
        Ok(ok)
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ends =
            workers.into_iter().map(|worker| worker.join().expect("a panic is told already"));
        // Join all workers, even if one has failed.
        let ends: Vec<Result<bool, String>> = ends.collect();
        ends.into_iter().try_fold(true, |ok, end| Ok(ok & end?))
    })
}

/// Returns the names of the targets, which are the source files in `folder`.
fn find_targets(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).map_err(at(folder))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            name.strip_suffix(".rs").map(str::to_owned)
        })
        .collect();
    names.sort();
    Ok(names)
}

/// Builds the targets with the address sanitizer, or without it if that build fails, such as for
/// lack of its runtime.
fn build(targets: &[&str]) -> Result<(), String> {
    println!("fuzz: building {}", targets.join(", "));
    let flags = RUSTFLAGS.join(" ");
    if build_with(targets, &format!("{flags} {ADDRESS_SANITIZER}"))? {
        return Ok(());
    }
    println!("fuzz: trying again without the address sanitizer");
    if build_with(targets, &flags)? { Ok(()) } else { Err("the fuzz targets do not build".into()) }
}

fn build_with(targets: &[&str], flags: &str) -> Result<bool, String> {
    // No --locked: the lock file of fuzz/ also has the dependencies of the workspace's crates, and
    // is not worth a failure whenever one of these changes.
    let status = cargo()
        .args(["build", "--release", "--quiet", "--target", TRIPLE, "--manifest-path"])
        .arg(workspace_root().join("fuzz/Cargo.toml"))
        .args(targets.iter().flat_map(|target| ["--bin", target]))
        .arg("--target-dir")
        .arg(target_dir().join("fuzz"))
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", flags)
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    Ok(status.success())
}

/// Fuzzes one target for the requested time or number of inputs. Returns true if it did not fail.
fn fuzz(target: &str, options: &Options) -> Result<bool, String> {
    let found = target_dir().join("fuzz/corpus").join(target);
    let crashes = target_dir().join("fuzz/crashes").join(target);
    let log = target_dir().join("fuzz").join(target).with_extension("log");
    for folder in [&found, &crashes] {
        fs::create_dir_all(folder).map_err(at(folder))?;
    }
    let mut command = command(target);
    let Options { seconds, jobs, .. } = *options;
    let counts_processor_time = options.runs.is_none() && jobs <= 1;
    let (limit, limit_text) = match options.runs {
        Some(runs) => (format!("-runs={runs}"), format!("{runs} inputs")),
        // So that a fuzzer ends by itself if this program is killed.
        None if counts_processor_time => (
            format!("-max_total_time={}", seconds.saturating_mul(REAL_TIME_MAX)),
            format!("{seconds} s of processor time"),
        ),
        None => (format!("-max_total_time={seconds}"), format!("{seconds} s")),
    };
    command
        .arg(limit)
        .arg(format!("-max_len={INPUT_SIZE_MAX}"))
        .arg(format!("-artifact_prefix={}/", crashes.display()))
        .arg("-print_final_stats=1");
    if options.jobs > 1 {
        command.arg(format!("-fork={}", options.jobs));
    }
    command.arg(&found);
    let seeds = workspace_root().join("fuzz/corpus").join(target);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    if !options.verbose {
        // libFuzzer's output is long, and only useful after a crash.
        let file = File::create(&log).map_err(at(&log))?;
        command.stderr(file);
    }
    let before = list(&crashes);
    println!("fuzz: {target} for {limit_text}");
    let cannot = |error| format!("cannot run {target}: {error}");
    let mut child = command.spawn().map_err(cannot)?;
    if counts_processor_time && seconds > 0 {
        end_after(&mut child, seconds).map_err(cannot)?;
    }
    let status = child.wait().map_err(cannot)?;
    let said = if options.verbose {
        String::new()
    } else {
        String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned()
    };
    let new: Vec<PathBuf> =
        list(&crashes).into_iter().filter(|file| !before.contains(file)).collect();
    if status.success() && new.is_empty() {
        // A single `println!`, as other threads print their results, too.
        let stats = said.lines().filter_map(|line| line.strip_prefix("stat::"));
        let lines: String = stats.map(|line| format!("\n  {line}")).collect();
        println!("fuzz: {target} found nothing{lines}");
        return Ok(true);
    }
    eprint!("{said}");
    for file in &new {
        println!("fuzz: {target} failed on {}", file.display());
        println!("      again with: cargo xtask fuzz {target} --input {}", file.display());
    }
    println!("fuzz: {target} ended with {status}");
    Ok(false)
}

/// Waits until a fuzzer exits or has used its processor time, and then requests a regular exit. A
/// limit in real time would leave a fuzzer beside other programs time for few inputs only.
fn end_after(fuzzer: &mut Child, seconds: u32) -> io::Result<()> {
    while fuzzer.try_wait()?.is_none() {
        let used = Process(fuzzer.id()).cpu_seconds().map_err(io::Error::other)?;
        if used.0 + used.1 >= f64::from(seconds) {
            kill(Pid::from_raw(fuzzer.id().cast_signed()), Signal::SIGUSR1)?;
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Runs one target on one file. Returns true if the target survives.
fn run_once(target: &str, input: &Path) -> Result<bool, String> {
    let status = command(target)
        .arg(input)
        .status()
        .map_err(|error| format!("cannot start {target}: {error}"))?;
    println!("fuzz: {target} on {}: {status}", input.display());
    Ok(status.success())
}

/// Returns the command for a built target, with the limits for each input.
fn command(target: &str) -> Command {
    let mut command =
        Command::new(target_dir().join("fuzz").join(TRIPLE).join("release").join(target));
    command
        .arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"))
        .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
        // The sanitizer keeps freed memory to detect later uses; the default amount equals the
        // memory limit.
        .env("ASAN_OPTIONS", "quarantine_size_mb=16:detect_leaks=0");
    command
}

fn list(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default()
}
