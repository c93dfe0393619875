//! Host functions that guests may import, one file an interface, in the host's own types. Those that
//! only plugins have are in `plugin::imports`. The [`contract`](crate::contract) links them under the
//! names and types of each version. Each call of one is counted and [charged](crate::run::charge).

pub(super) mod log;
pub(super) mod script;
pub(super) mod tools;
