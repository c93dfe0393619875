//! Parts that all commands use: output and outcome, questions and signals, spinners, and a gateway for the time of one
//! command.
//!
//! | module | purpose |
//! |---|---|
//! | `output`, `outcome` | results, failures and hints for people and machines; exit codes |
//! | `spinner`, `confirm`, `signals` | steps that take time; a question to the operator; signals |
//! | `session` | the configuration of a command, and a gateway that runs for its time |
//! | `connection` | connections to a running gateway |
//! | `record` | reports of calls |
//! | `tool_call` | the clients that a call can reach, and its result |

pub mod confirm;
pub mod connection;
pub mod outcome;
pub mod output;
pub mod record;
pub mod session;
pub mod signals;
pub mod spinner;
pub mod tool_call;
