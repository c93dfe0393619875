//! The gateway as an embedding program uses it: [`Gateway`], its requests, and the tools and servers of the
//! program. This crate builds all parts from the configuration, serves requests and stops in order. The package
//! `airlock` re-exports it.
//!
//! | module | purpose |
//! |---|---|
//! | `gateway` | the handle of a gateway that the program holds |
//! | `parts` | its parts, and those that request handlers and operators use |
//! | `builder` | collects the configuration and the additions of the program, and starts the gateway |
//! | `assemble` | configuration → parts → [`Gateway`] |
//! | `serve` | serves HTTP, on sockets of its own and inside another server; stops in order |
//! | `background` | the background tasks |
//! | `upstreams` | the MCP servers |
//! | `certificate` | the certificate of the listener, and its renewal |
//! | `control` | combines several policies or controls of calls, or controls of requests to models, into one |
//! | `events` | the events for operators: reports of all parts, on one bus |
//! | `dry_run` | connects to a server that is not configured, and keeps nothing |
//! | `code_mode` | code mode and its executors |
//! | `reload` | applies changes of the configuration file and of the entries in the store |
//! | `serving` | the settings of requests, which a reload replaces as a whole |
//! | `follow` | follows the entries and the operators in the store |
//! | `key_values` | credentials of virtual keys that have none in the file |
//! | `limits` | the limits of callers and the prices, which follow the configuration |
//! | `recording` | the records: the call log and the audit log |
//! | `metrics` | the metrics, of all parts and of calls |
//! | `management` | the management API of the gateway, and its Unix socket |
//! | `replay` | replays runs for operators, with a catalog of its own |
//! | `warnings` | warns about settings that weaken the gateway |
//! | `request` | the requests of the program |
//! | `native` | the tools of the program |
//! | `program_server` | the MCP servers of the program |
//! | [`command_line`] | parts for the command line of the package `airlock` |

mod assemble;
mod background;
mod builder;
mod certificate;
mod code_mode;
pub mod command_line;
mod control;
mod dry_run;
mod error;
mod events;
mod follow;
mod gateway;
mod key_values;
mod limits;
mod management;
mod metrics;
mod native;
mod parts;
mod program_server;
mod recording;
mod reload;
mod replay;
mod request;
mod serve;
mod serving;
mod upstreams;
mod warnings;

pub use self::{
    builder::GatewayBuilder,
    error::GatewayError,
    gateway::Gateway,
    native::{BadNativeTool, NativeTool, ProgramTools, ToolContext, ToolEffect},
    program_server::{BadServer, ProgramServer},
    reload::Reloader,
    request::{
        CallReply, CallToApprove, ChatEvent, ChatEvents, ChatFailure, ChatReply, GatewayRequest,
        PendingApproval, RequestBuilder, RequestError,
    },
};
