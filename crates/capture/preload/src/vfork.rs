//! Replacement of `vfork`, whose child shares its parent's memory until it executes another program
//! or ends. The child's calls would be recorded as the parent's, so they are not recorded at all.
//! The program that the child executes records its state at its start.
//!
//! The child returns first from the function, and overwrites the return address. So the function
//! keeps the address in a register, which only assembly can do.

/// Creates a child process, like `vfork` of the C library, and makes the child's calls silent.
// SAFETY: the name is that of the replaced function, whose contract the function fulfils.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code, reason = "tests are not recorded"))]
#[unsafe(naked)]
pub(crate) extern "C" fn vfork() -> libc::pid_t {
    // The system call preserves all registers but rax, rcx and r11. The parent resumes once the
    // child has executed a program or ended; it shares the counter with the child until then.
    std::arch::naked_asm!(
        "mov rdx, qword ptr [rip + blkkin_io_silent@GOTTPOFF]",
        "pop rdi",
        "add dword ptr fs:[rdx], 1",
        "mov eax, {vfork}",
        "syscall",
        "push rdi",
        "test rax, rax",
        "jz 2f",
        "sub dword ptr fs:[rdx], 1",
        "cmp rax, -4095",
        "jae 3f",
        "2:",
        "ret",
        "3:",
        "neg eax",
        "push rax",
        "call qword ptr [rip + {errno}@GOTPCREL]",
        "pop rcx",
        "mov dword ptr [rax], ecx",
        "mov eax, -1",
        "ret",
        vfork = const libc::SYS_vfork,
        errno = sym libc::__errno_location,
    );
}
