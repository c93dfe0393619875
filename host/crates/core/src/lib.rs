//! The gateway's core: tools as plain data, the door that decides about each call, and the modules that both use. Its only
//! I/O is to read files that the configuration names, in [`secret`], [`file_version`] and [`regular_file`]. It
//! re-exports the modules of the crate `airlock-bounds`: slots for guests, the limits of a call, rates of log lines, memory,
//! calls of a response, profiles of plugins, the memory of all requests, tenants, timers, units and wake-ups.
//!
//! | module | purpose |
//! |---|---|
//! | [`act`] | the acts of people that the records contain: approvals, logins, changes |
//! | [`door`] | decides each call: `View`, `Origin`, `Admitted`, and the `Provider` trait |
//! | [`tool`] | tools as plain data: names, definitions, results, errors, policies |
//! | [`error_reply`] | errors of requests to models, as the APIs send them |
//! | [`secret`] | credentials: their sources, and their redaction |
//! | [`file_version`] | versions of files, by which a change is noticed |
//! | [`model_control`] | the control of requests to models across callers: what limits and records implement |
//! | [`money`] | amounts of money, in millionths of a US dollar |
//! | [`operator`] | the people and programs that manage a gateway: their roles and rights |
//! | [`regular_file`] | opens the regular files that the configuration names, and nothing else |
//! | [`replica`] | the gateways that share one store, and the handles of what only one of them has |
//! | [`run`] | the protocol of the journal of a script: which calls were made, which may be made now |
//! | [`script_names`] | names in scripts: which are valid, and which are taken |
//! | [`thread_number`] | numbers of threads, by which counters are divided |
//! | [`threads`] | blocking threads for long work on texts, divided among the tenants |
//! | [`unix_time`] | times in milliseconds since 1970 |

pub mod act;
pub mod door;
pub mod error_reply;
pub mod file_version;
pub mod model_control;
pub mod money;
pub mod operator;
pub mod regular_file;
pub mod replica;
pub mod run;
pub mod script_names;
pub mod secret;
pub mod thread_number;
pub mod threads;
pub mod tool;
pub mod unix_time;

pub use airlock_bounds::{
    admission, limit, log_rate, memory, model_calls, profile, request_memory, tenant, timer, units,
    wake,
};
