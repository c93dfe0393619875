//! Children without a network: a filter of system calls (seccomp) that permits Unix sockets alone.
//!
//! It also refuses the system calls that take the memory or the descriptors of another process, which may
//! have the network, and those of the kernel's keys, because `request_key` can make the kernel ask a
//! name server.
//!
//! `docs/decisions/0017-no-network-by-seccomp.md` has the reasons against a network namespace.

use std::io;

use super::confine;
use crate::command::NetworkIsolation;

/// Number of the processor's system call interface in `seccomp_data.arch`: the machine of its ELF files,
/// with the flags for 64 bits and little-endian (`linux/audit.h`).
const ARCHITECTURE: Option<u32> = if cfg!(all(target_arch = "x86_64", target_pointer_width = "64"))
{
    Some(0xC000_003E)
} else if cfg!(all(target_arch = "aarch64", target_endian = "little")) {
    Some(0xC000_00B7)
} else if cfg!(target_arch = "riscv64") {
    Some(0xC000_00F3)
} else {
    None
};
/// Bit of the numbers of x32's system calls, which the x86-64 interface has besides its own. No other
/// interface has numbers of this size.
const X32: u32 = 0x4000_0000;
/// Offsets in `seccomp_data`: the number of the system call, the interface, and the lower half of the first
/// argument, of which the kernel reads no more.
const NUMBER: u32 = 0;
const INTERFACE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;
/// Instructions of the filter.
const LENGTH: libc::c_ushort = 18;

/// The filter, ready to be installed in a new process.
#[derive(Debug)]
pub(super) struct SocketFilter([libc::sock_filter; LENGTH as usize]);

impl SocketFilter {
    /// Builds the filter. Returns `None` if the system cannot enforce it.
    pub(super) fn new() -> Option<Self> {
        let architecture = ARCHITECTURE.filter(|_| has_seccomp())?;
        Some(Self([
            load(INTERFACE),
            // Another interface numbers its system calls differently, and may create sockets with
            // `socketcall`, whose arguments a filter cannot read.
            if_equal(architecture, 0, 15),
            load(NUMBER),
            if_at_least(X32, 13, 0),
            if_equal(number(libc::SYS_io_uring_setup), 12, 0),
            if_equal(number(libc::SYS_ptrace), 11, 0),
            if_equal(number(libc::SYS_process_vm_readv), 10, 0),
            if_equal(number(libc::SYS_process_vm_writev), 9, 0),
            if_equal(number(libc::SYS_pidfd_getfd), 8, 0),
            if_equal(number(libc::SYS_add_key), 7, 0),
            if_equal(number(libc::SYS_request_key), 6, 0),
            if_equal(number(libc::SYS_keyctl), 5, 0),
            // A socket of a pair can send to other addresses too, for example of TIPC.
            if_equal(number(libc::SYS_socket), 1, 0),
            if_equal(number(libc::SYS_socketpair), 0, 2),
            load(FIRST_ARGUMENT),
            if_equal(libc::AF_UNIX.unsigned_abs(), 0, 1),
            finish(libc::SECCOMP_RET_ALLOW),
            finish(libc::SECCOMP_RET_ERRNO | libc::EACCES.unsigned_abs()),
        ]))
    }

    /// Installs the filter for the calling thread and all that it starts. The thread must not be able to gain
    /// privileges. Makes one system call, and neither allocates nor locks.
    pub(super) fn install(&self) -> io::Result<()> {
        let program = libc::sock_fprog { len: LENGTH, filter: self.0.as_ptr().cast_mut() };
        #[expect(unsafe_code, reason = "neither libc nor rustix wraps this system call")]
        // SAFETY: the kernel copies the instructions, which `program` points to with their number. It
        // writes to none of them.
        let outcome = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
        };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Returns the coverage of a child's separation from the network on this machine.
pub(crate) fn network_isolation() -> NetworkIsolation {
    if SocketFilter::new().is_none() {
        NetworkIsolation::Unavailable
    } else if confine::scopes_abstract_sockets() {
        NetworkIsolation::Full
    } else {
        NetworkIsolation::WithoutAbstractSockets
    }
}

/// Returns whether the kernel has filters that refuse a system call with an error (Linux 4.14).
fn has_seccomp() -> bool {
    let action = libc::SECCOMP_RET_ERRNO;
    #[expect(unsafe_code, reason = "neither libc nor rustix wraps this system call")]
    // SAFETY: the kernel reads one number, which outlives the call.
    let outcome = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action)
    };
    outcome == 0
}

/// Returns the number of a system call as a filter sees it.
fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).expect("numbers of system calls are small and not negative")
}

/// Loads a word of `seccomp_data`.
fn load(offset: u32) -> libc::sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
}

/// Skips `yes` instructions if the loaded word is `value`, else `no`.
fn if_equal(value: u32, yes: u8, no: u8) -> libc::sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, yes, no)
}

/// Skips `yes` instructions if the loaded word is at least `value`, else `no`.
fn if_at_least(value: u32, yes: u8, no: u8) -> libc::sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, value, yes, no)
}

/// Decides on the system call.
fn finish(action: u32) -> libc::sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, action, 0, 0)
}

fn instruction(code: u32, value: u32, yes: u8, no: u8) -> libc::sock_filter {
    let code = u16::try_from(code).expect("the codes of instructions have 16 bits");
    libc::sock_filter { code, jt: yes, jf: no, k: value }
}
