//! Finds and kills the processes of one child, wherever they went.

use std::{
    os::fd::OwnedFd,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::io::{Interest, unix::AsyncFd};

use super::{
    cgroup::Cgroup,
    proc::{self, Mark},
};
use crate::tag::Tag;

/// Maximum number of searches for the processes of a child, each of which reads all of `/proc`. A
/// process that forks faster than it is killed needs a cgroup; others are gone after a few searches,
/// which then end.
const MAX_ROUNDS: usize = 20;
/// Pause before a search is repeated because a mark could not be read: `execve` takes about a
/// millisecond.
const UNREADABLE_PAUSE: Duration = Duration::from_millis(1);
/// Time of searches for the sake of marks that cannot be read. A process may wait for a processor in the
/// middle of `execve`, on a busy machine for more than 20 ms.
const UNREADABLE_PATIENCE: Duration = Duration::from_millis(500);
/// Number of such searches that are made even after that time, which may pass without a processor for the
/// gateway either: in a virtual machine that is halted, for instance.
const UNREADABLE_SEARCHES: usize = 100;
/// Maximum number of descendants that are remembered, each by a file descriptor: a quarter of the usual
/// limit of a process. A server chooses how many it starts; the others are found by their cgroup or mark.
const MAX_FAMILY: usize = 256;

/// Everything by which the processes of one child are found.
pub(crate) struct ProcessReach {
    tag: Tag,
    cgroup: Option<Cgroup>,
    leader: Option<Pid>,
    /// Processes that were found by their parents.
    family: Vec<OwnedFd>,
}

impl ProcessReach {
    /// Creates a cgroup for the child where the gateway may do so.
    pub(crate) fn new(tag: Tag) -> Self {
        let cgroup = Cgroup::create(&tag);
        Self { tag, cgroup, leader: None, family: Vec::new() }
    }

    pub(crate) fn tag(&self) -> &Tag {
        &self.tag
    }

    /// Returns the file by which a process enters the cgroup.
    pub(super) fn cgroup_entrance(&self) -> Option<OwnedFd> {
        self.cgroup.as_ref().and_then(Cgroup::entrance)
    }

    /// Sets the process that was started.
    pub(crate) fn watch(&mut self, leader: Pid) {
        self.leader = Some(leader);
    }

    /// Remembers the present descendants of the process that was started. A parent that ends later
    /// no longer connects them.
    pub(crate) fn remember(&mut self) {
        let room = MAX_FAMILY.saturating_sub(self.family.len());
        let found = self.leader.map(family).unwrap_or_default();
        self.family.extend(found.into_iter().take(room));
    }

    /// Kills all processes of the child that can be found; those of its group only if its leader is
    /// not reaped, so that their number still means them. May block for some milliseconds, and for half
    /// a second on a busy machine.
    pub(crate) fn kill(mut self, is_reaped: bool) {
        self.remember();
        if let Some(leader) = self.leader.filter(|_| !is_reaped) {
            let _ = kill_process_group(leader, Signal::KILL);
        }
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        for process in &self.family {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        kill_all_tagged(&self.tag);
        if let Some(cgroup) = self.cgroup.take() {
            cgroup.remove();
        }
    }
}

/// Opens the descendants of a process, so that their numbers cannot be reused in the meantime.
fn family(leader: Pid) -> Vec<OwnedFd> {
    let leader = leader.as_raw_nonzero().get().unsigned_abs();
    let found = proc::family(leader).into_iter();
    found.filter_map(|pid| pidfd_open(proc::pid(pid)?, PidfdFlags::empty()).ok()).collect()
}

/// Kills all processes with this mark, and those that they start meanwhile.
fn kill_all_tagged(tag: &Tag) {
    let mut rounds = 0..MAX_ROUNDS;
    let deadline = Instant::now() + UNREADABLE_PATIENCE;
    for searches in 1.. {
        let search = kill_tagged(|found| found == tag);
        let is_patient = searches < UNREADABLE_SEARCHES || Instant::now() < deadline;
        if search.unreadable && is_patient {
            // It is waited for, however many others were found: those that were killed are found again
            // until they have had a processor to end on.
            thread::sleep(UNREADABLE_PAUSE);
        } else if !search.killed || rounds.next().is_none() {
            return;
        }
    }
}

/// Result of a search for marked processes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct KillSearch {
    /// True if a process was meant, and was killed.
    killed: bool,
    /// True if a process may be meant: its mark cannot be read yet, or no longer.
    unreadable: bool,
}

impl KillSearch {
    const KILLED: Self = Self { killed: true, unreadable: false };
    const UNREADABLE: Self = Self { killed: false, unreadable: true };
}

/// Kills all processes with a mark for which `is_meant` returns true.
pub(super) fn kill_tagged(is_meant: impl Fn(&Tag) -> bool) -> KillSearch {
    let searches = proc::others().into_iter().map(|pid| kill_if_tagged(pid, &is_meant));
    searches.fold(KillSearch::default(), |all, one| KillSearch {
        killed: all.killed | one.killed,
        unreadable: all.unreadable | one.unreadable,
    })
}

fn kill_if_tagged(pid: u32, is_meant: impl Fn(&Tag) -> bool) -> KillSearch {
    match proc::mark(pid) {
        Mark::Is(tag) if is_meant(&tag) => {}
        Mark::NotYet => return KillSearch::UNREADABLE,
        Mark::Is(_) | Mark::Absent => return KillSearch::default(),
    }
    let open = proc::pid(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    // The number may have been reused until it was opened.
    let is_killed = open
        .filter(|_| matches!(proc::mark(pid), Mark::Is(tag) if is_meant(&tag)))
        .is_some_and(|open| pidfd_send_signal(open, Signal::KILL).is_ok());
    if is_killed { KillSearch::KILLED } else { KillSearch::UNREADABLE }
}

/// Waits for the exit of a process without reaping it, so that its number, which is also that of
/// its group, stays reserved.
pub(crate) struct ExitNotice(Option<AsyncFd<OwnedFd>>);

impl ExitNotice {
    pub(crate) fn new(process: Pid) -> Self {
        let open = pidfd_open(process, PidfdFlags::NONBLOCK)
            .or_else(|_| pidfd_open(process, PidfdFlags::empty()));
        #[expect(unsafe_code, reason = "tokio has no safe constructor for an owned descriptor")]
        // SAFETY: an `OwnedFd` stays open and the same until the `AsyncFd`, which owns it, is
        // dropped.
        let watched = open.ok().and_then(|open: OwnedFd| unsafe {
            AsyncFd::register_with_interest(open, Interest::READABLE).ok()
        });
        Self(watched)
    }

    /// Waits for the exit; reaps `child` if the kernel cannot tell otherwise.
    pub(crate) async fn wait(&self, child: &mut tokio::process::Child) {
        match &self.0 {
            Some(process) => {
                let _ = process.readable().await;
            }
            None => {
                let _ = child.wait().await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
