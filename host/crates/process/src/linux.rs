//! Everything that only Linux offers.

mod before_exec;
mod cgroup;
mod confine;
mod network;
mod proc;
mod protect;
mod reach;
mod strays;

pub(crate) use self::{
    before_exec::prepare,
    network::network_isolation,
    proc::{memory_bytes, pid_namespace, start_time},
    protect::protect_self,
    reach::{ExitNotice, Reach},
    strays::kill_strays,
};
