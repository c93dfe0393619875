//! Systems other than Linux: a child has its process group, and no more.

use rustix::process::{Pid, Signal, kill_process_group};

use crate::{
    command::{Command, Network, NetworkIsolation},
    error::SpawnError,
    tag::Tag,
    usage::ProcessUsage,
};

pub(crate) struct ProcessReach {
    tag: Tag,
    leader: Option<Pid>,
}

impl ProcessReach {
    pub(crate) fn new(tag: Tag) -> Self {
        Self { tag, leader: None }
    }

    pub(crate) fn tag(&self) -> &Tag {
        &self.tag
    }

    pub(crate) fn watch(&mut self, leader: Pid) {
        self.leader = Some(leader);
    }

    #[expect(clippy::unused_self, reason = "the interface of Linux")]
    pub(crate) fn remember(&mut self) {}

    pub(crate) fn kill(self, is_reaped: bool) {
        if let Some(leader) = self.leader.filter(|_| !is_reaped) {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

pub(crate) struct ExitNotice;

impl ExitNotice {
    pub(crate) fn new(_: Pid) -> Self {
        Self
    }

    /// Waits for the exit and reaps the child.
    #[expect(clippy::unused_self, reason = "the interface of Linux")]
    pub(crate) async fn wait(&self, child: &mut tokio::process::Child) {
        let _ = child.wait().await;
    }
}

/// Fails if the command needs what only Linux has.
pub(crate) fn prepare(
    _: &mut tokio::process::Command,
    command: &Command,
    _: &ProcessReach,
) -> Result<(), SpawnError> {
    let is_confined = command.confinement.as_ref().is_some_and(|confinement| confinement.required);
    if is_confined {
        return Err(SpawnError::NoLandlock);
    }
    if command.network == Network::None {
        return Err(SpawnError::NoSocketFilter);
    }
    if command.limits == crate::ProcessLimits::default() {
        Ok(())
    } else {
        Err(SpawnError::Start(std::io::Error::other("`limits` are available on Linux only")))
    }
}

pub(crate) fn network_isolation() -> NetworkIsolation {
    NetworkIsolation::Unavailable
}

pub(crate) fn can_confine_paths() -> bool {
    false
}

pub(crate) fn own_cgroup() -> Option<std::path::PathBuf> {
    None
}

pub(crate) fn kill_strays() {}

pub(crate) fn protect_self() {}

pub(crate) fn usage(leaders: &[u32]) -> Vec<Option<ProcessUsage>> {
    vec![None; leaders.len()]
}

pub(crate) fn own_usage() -> Option<ProcessUsage> {
    None
}

pub(crate) fn pid_namespace() -> u64 {
    0
}

pub(crate) fn start_time(_: u32) -> Option<u64> {
    None
}
