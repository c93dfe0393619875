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
    cgroup::own as own_cgroup,
    confine::can_confine_paths,
    network::network_isolation,
    proc::{own_usage, pid_namespace, start_time, usage},
    protect::protect_self,
    reach::{ExitNotice, ProcessReach},
    strays::kill_strays,
};
