//! Values of an event's fields: arguments of system calls, with the types that the kernel's events
//! have.

use crate::recording::Outcome;
use blkkin_trace::{Encoder, Kind, Scalar, Value, Width};
use libc::{c_char, c_int, sockaddr, socklen_t};
use std::mem::offset_of;

/// Maximum size of a path, in bytes with its NUL: the kernel's own limit.
const PATH_SIZE_MAX: usize = 4096;
/// Maximum size of a socket's address, in bytes: the size of the kernel's `struct
/// sockaddr_storage`.
const ADDRESS_SIZE_MAX: usize = 128;

/// Address in the program's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pointer(u64);

impl Pointer {
    #[inline(always)]
    pub(crate) fn of<T>(pointer: *const T) -> Pointer {
        Pointer(pointer.addr() as u64)
    }
}

impl Value for Pointer {
    const KIND: Kind = Kind::Hex(Width::Bits64);

    #[inline(always)]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.put(self.0.to_le_bytes());
    }
}

/// Flags of 32 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flags(pub(crate) u32);

impl Flags {
    #[inline(always)]
    pub(crate) fn of(flags: c_int) -> Flags {
        Flags(flags.cast_unsigned())
    }
}

impl Value for Flags {
    const KIND: Kind = Kind::Hex(Width::Bits32);

    #[inline(always)]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.put(self.0.to_le_bytes());
    }
}

/// Flags of 64 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WideFlags(pub(crate) u64);

impl Value for WideFlags {
    const KIND: Kind = Kind::Hex(Width::Bits64);

    #[inline(always)]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.put(self.0.to_le_bytes());
    }
}

/// Path or name that the program passes; empty if the kernel may not have read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// Start of the string; null if it is not recorded.
    start: *const c_char,
    /// True if the string may have no NUL in its first [`PATH_SIZE_MAX`] bytes.
    is_long: bool,
}

impl Path {
    /// Returns the path at `start`, passed to a call that has ended like `outcome`. A call with
    /// flags that the kernel does not know, a call that the kernel does not have, and one that a
    /// seccomp filter refuses fail before the path is read; so the path is read only after other
    /// errors.
    ///
    /// # Safety
    ///
    /// `start` is the path argument of that call.
    #[inline(always)]
    pub(crate) unsafe fn passed(start: *const c_char, outcome: &Outcome) -> Path {
        let error = |errno: c_int| outcome.ret == -i64::from(errno);
        let is_unread =
            [libc::EFAULT, libc::EINVAL, libc::ENOSYS, libc::EPERM].map(error).contains(&true);
        let start = if is_unread { std::ptr::null() } else { start };
        Path { start, is_long: error(libc::ENAMETOOLONG) }
    }

    /// Returns the path at `start` of a call that has ended like `outcome`, and that may fail with
    /// almost any error before the path is read: a second path, for instance. The path is recorded
    /// as empty unless the call succeeded, or found that the path exists.
    ///
    /// # Safety
    ///
    /// `start` is the path argument of that call.
    #[inline(always)]
    pub(crate) unsafe fn of_success(start: *const c_char, outcome: &Outcome) -> Path {
        let is_read = outcome.is_success() || outcome.ret == -i64::from(libc::EEXIST);
        Path { start: if is_read { start } else { std::ptr::null() }, is_long: false }
    }
}

impl Value for Path {
    const KIND: Kind = Kind::String;

    #[inline(always)]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        if self.start.is_null() {
            encoder.put([0]);
        } else if self.is_long {
            // SAFETY: the kernel has read this many bytes, or up to a NUL.
            let bytes = unsafe {
                let size = libc::strnlen(self.start, PATH_SIZE_MAX - 1);
                std::slice::from_raw_parts(self.start.cast(), size)
            };
            encoder.put_bytes_as_string(bytes);
        } else {
            // SAFETY: the kernel has read the string up to its NUL. A program that changes it
            // during the call does the same to the kernel; the copy is bounded like the kernel's.
            unsafe { encoder.put_c_string(self.start) };
        }
    }
}

/// Address of a socket; empty if it is absent, or if the kernel may not have read or
/// written it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    start: *const u8,
    size: usize,
}

impl Address {
    const NONE: Address = Address { start: std::ptr::null(), size: 0 };

    /// Returns the address that the program has passed to a call that has ended like `outcome`.
    ///
    /// # Safety
    ///
    /// `address` and `size` are arguments of that call.
    #[inline(always)]
    pub(crate) unsafe fn passed(
        address: *const sockaddr,
        size: socklen_t,
        outcome: &Outcome,
    ) -> Address {
        // Errors of the network or of the address, which is then known to the kernel.
        const READ: [c_int; 11] = [
            libc::EINPROGRESS,
            libc::ECONNREFUSED,
            libc::ENOENT,
            libc::EAGAIN,
            libc::EADDRINUSE,
            libc::EADDRNOTAVAIL,
            libc::EACCES,
            libc::ENETUNREACH,
            libc::EHOSTUNREACH,
            libc::ETIMEDOUT,
            libc::EAFNOSUPPORT,
        ];
        let is_read =
            outcome.is_success() || READ.iter().any(|errno| outcome.ret == -i64::from(*errno));
        let size = size as usize;
        if !is_read || address.is_null() || size > ADDRESS_SIZE_MAX {
            return Address::NONE;
        }
        Address { start: address.cast(), size }
    }

    /// Returns the address that a call which has ended like `outcome` has written.
    ///
    /// # Safety
    ///
    /// `address` and `size` are arguments of that call.
    #[inline(always)]
    pub(crate) unsafe fn returned(
        address: *const sockaddr,
        size: *const socklen_t,
        outcome: &Outcome,
    ) -> Address {
        if address.is_null() || size.is_null() || !outcome.is_success() {
            return Address::NONE;
        }
        // SAFETY: the call has succeeded, so the kernel has written both.
        unsafe { Address::written(address, size.read_unaligned() as usize) }
    }

    /// Returns the address of `size` bytes, of which the kernel has written as many as the
    /// program's memory had room for. That number is no longer known.
    ///
    /// # Safety
    ///
    /// The kernel has written the address, and its true size.
    #[cold]
    unsafe fn written(address: *const sockaddr, size: usize) -> Address {
        let start = address.cast::<u8>();
        let mut size = size.min(ADDRESS_SIZE_MAX);
        // Programs that pass less room than an address takes get a part of it. Bytes behind the
        // memory are read then, but none on another page, which might not be mapped.
        let on_page = PAGE - start.addr() % PAGE;
        if size > on_page && !is_mapped(start.wrapping_add(on_page)) {
            size = on_page;
        }
        let path_at = offset_of!(libc::sockaddr_un, sun_path);
        if size > path_at {
            // SAFETY: the bytes are mapped. The name of a local socket ends at its first NUL,
            // unless it begins with one.
            unsafe {
                let family = start.cast::<libc::sa_family_t>().read_unaligned();
                let path = start.add(path_at).cast::<c_char>();
                if c_int::from(family) == libc::AF_UNIX && path.read() != 0 {
                    size = path_at + libc::strnlen(path, size - path_at);
                }
            }
        }
        Address { start, size }
    }
}

/// Minimum page size of the supported processors, in bytes.
const PAGE: usize = 4096;

/// Returns true if the page that starts at an address is mapped.
fn is_mapped(page: *const u8) -> bool {
    let mut is_resident = 0u8;
    // SAFETY: the kernel only writes one byte to the variable.
    unsafe { libc::syscall(libc::SYS_mincore, page, 1usize, &raw mut is_resident) == 0 }
}

impl Value for Address {
    const KIND: Kind = Kind::Bytes;

    #[inline(always)]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        // At most 128.
        encoder.put((self.size as u32).to_le_bytes());
        if self.size != 0 {
            // SAFETY: the kernel has read or written these bytes; see the constructors.
            encoder.put_bytes(unsafe { std::slice::from_raw_parts(self.start, self.size) });
        }
    }
}

/// Two descriptors that a call has returned; -1 if it has failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptors([i32; 2]);

impl Descriptors {
    /// Returns the descriptors that a call which has ended like `outcome` has written.
    ///
    /// # Safety
    ///
    /// `pair` is the argument of that call.
    #[inline(always)]
    pub(crate) unsafe fn returned(pair: *const c_int, outcome: &Outcome) -> Descriptors {
        match outcome.is_success() && !pair.is_null() {
            // SAFETY: the call has succeeded, so the kernel has written both.
            true => Descriptors(unsafe { pair.cast::<[i32; 2]>().read_unaligned() }),
            false => Descriptors([-1; 2]),
        }
    }
}

impl Value for Descriptors {
    const KIND: Kind = Kind::Array(Scalar::Signed { width: Width::Bits32, hex: false }, 2);

    #[inline(always)]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.0.encode(encoder);
    }
}
