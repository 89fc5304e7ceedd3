//! Probes as users write them: the kind of a probe, and the place where it is attached.
//!
//! ```text
//! probe   = "syscall:" name | "process:" ( "fork" | "exec" | "exit" ) | "raw:" name
//!         | [ "tracepoint:" ] subsystem ":" name
//!         | "kprobe:" function [ "+" offset ]
//!         | ( "kretprobe:" | "fentry:" | "fexit:" ) function
//!         | "uprobe:" program ":" ( symbol [ "+" offset ] | address )
//!         | "uretprobe:" program ":" symbol
//!         | "usdt:" program ":" provider ":" name
//!         | "profile:" number [ "hz" | "us" | "ms" | "s" ]
//! program = path or name without ":" | "pid:" number | '"' any text with \" and \\ '"'
//! address = "0x" digits
//! ```
//!
//! `*` in a name stands for any number of characters. The parser does not ask the kernel: a name
//! that the kernel or the program lacks is found when the probe is attached.

mod parse;
mod print;
mod types;

#[cfg(test)]
mod tests;

pub use types::{KernelHook, Probe, ProbeError, ProcessMoment, TimerRate, UserPlace};
