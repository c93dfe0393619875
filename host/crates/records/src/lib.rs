//! The record of each call, decision and change.
//!
//! ```text
//! door ─ CallControl ──┐                     ┌─ audit log: one line an event, one flush a batch
//! models ─ ModelControl ├─ Event ─► Queue ─► Writer
//! people ─ Acts ────────┘   (bounded)        └─ call log: rows in the store, one transaction a batch
//!                 ▲                │
//!                 └── admitted ◄───┘ a call with effects runs once its admission is in both
//! ```
//!
//! Whoever makes a call hands over plain data and does not format it: the writer's thread renders lines and
//! rows, and computes the commitments to arguments and results. With a log that cannot be written, the
//! writer keeps its batch and tries again; the queue has a bounded size, and what does not fit is counted.
//!
//! | module | purpose |
//! |---|---|
//! | [`settings`](RecordSettings) | which logs there are, and what happens without them |
//! | `recorder` | [`Recorder`]: the controls of calls and of requests to models |
//! | `event` | events as plain data |
//! | `queue` | the bounded queue before the writer |
//! | `writer` | the thread that writes batches |
//! | `render` | event → line of the audit log, rows of the call log |
//! | `commitment` | salted digests of contents |
//! | `sink` | the two logs, as the writer sees them |
//! | `metrics` | what was written, and what was not |

mod commitment;
mod event;
mod metrics;
mod queue;
mod recorder;
mod render;
mod settings;
mod sink;
mod writer;

pub use self::{
    recorder::{Recorder, ToolPrices},
    settings::{AuditKey, AuditPlace, CallLogSettings, CheckpointPlace, OnFailure, RecordSettings},
    sink::PostCheckpoint,
};
