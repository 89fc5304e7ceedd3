//! Loading of programs into the kernel, and attaching them. The kernel checks each program when it
//! is loaded, which takes milliseconds, so several programs are loaded at the same time.

use crate::assembler::Assembler;
use crate::error::Error;
use blkkin_sys::bpf::{AttachPoint, Link, Program};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, available_parallelism};

/// Maximum number of threads that load programs.
const LOADING_THREADS_MAX: usize = 4;

/// Program that is not loaded yet.
#[derive(Debug)]
pub(crate) struct NewProgram {
    /// Name for the kernel and for errors.
    pub(crate) name: String,
    pub(crate) code: Assembler,
    pub(crate) place: AttachPoint,
}

/// Loads a program for an attach point. `name` is for the kernel and for errors.
pub(crate) fn load(name: &str, code: Assembler, place: AttachPoint) -> Result<Program, Error> {
    let program = || name.to_owned();
    let functions = code.described_functions();
    let code = code.assemble().ok_or_else(|| Error::TooLong(program()))?;
    Program::load_with_functions(name, &code, &functions, place).map_err(|failure| Error::Load {
        program: program(),
        error: failure.error,
        log: failure.log,
    })
}

/// Loads all programs, on several threads. Then attaches them, in their order.
pub(crate) fn attach_all(programs: Vec<NewProgram>) -> Result<Vec<Link>, Error> {
    let threads = available_parallelism().map_or(1, usize::from);
    let threads = threads.min(programs.len()).min(LOADING_THREADS_MAX);
    let mut programs: Vec<(usize, NewProgram)> = programs.into_iter().enumerate().collect();
    // The longest first, so that all threads end at about the same time.
    programs.sort_by_key(|(_, program)| std::cmp::Reverse(program.code.len()));
    let waiting = Mutex::new(programs.into_iter());
    let take = |is_failing: bool| {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // After a failure, no thread loads further programs.
        if is_failing {
            waiting.by_ref().for_each(drop)
        }
        waiting.next()
    };
    let load_waiting = || {
        let mut loaded = Vec::new();
        let mut is_failing = false;
        while let Some((position, NewProgram { name, code, place })) = take(is_failing) {
            let program = load(&name, code, place);
            is_failing = program.is_err();
            loaded.push((position, name, program));
        }
        loaded
    };
    let mut loaded = thread::scope(|scope| {
        // If the system refuses a thread, the others load its share.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, load_waiting).ok();
        let others: Vec<_> = (1..threads).filter_map(spawn).collect();
        let mut loaded = load_waiting();
        for other in others {
            loaded.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        loaded
    });
    loaded.sort_by_key(|(position, ..)| *position);
    let loaded = loaded.into_iter().map(|(_, name, program)| Ok((name, program?)));
    let loaded: Vec<(String, Program)> = loaded.collect::<Result<_, Error>>()?;
    let attach = |(name, program): (String, Program)| {
        program.attach().map_err(|error| Error::Attach(name, error))
    };
    loaded.into_iter().map(attach).collect()
}
