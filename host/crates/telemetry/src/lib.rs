//! Traces of requests, and their export with metrics and logs over OTLP/HTTP.
//!
//! ```text
//! Span ─ in_span ─▶ current span        prometheus-client registry    tracing events
//!   │ ends                                       │ each minute            │ with the ids of the current span
//!   ▼                                            ▼                        ▼
//! bounded queue ───────────────────────▶ exporters ◀────────────── bounded queue
//!                                           │ OtlpTransport: the gateway's own HTTP client
//!                                           ▼
//!                                       collector
//! ```
//!
//! A crate that is traced sees [`Span`], [`TraceFuture`], [`TraceContext`] and the [`names`], none of which is a type of
//! OpenTelemetry. Without the feature `otlp` every span is empty, and with it every span is empty until
//! `Telemetry::start`: one atomic load. The spans and the switch are those of the process, because a trace crosses every
//! crate; a second gateway in the same process shares them. This crate reads no environment and makes no
//! connection: settings and the transport are given to it. It knows nothing about requests, tools or models.

mod context;
#[cfg(feature = "otlp")]
mod export;
mod future;
pub mod names;
pub mod settings;
mod span;
mod value;

#[cfg(not(feature = "otlp"))]
#[path = "absent.rs"]
mod recorded;
#[cfg(feature = "otlp")]
mod recorded;

#[cfg(feature = "otlp")]
pub use self::export::{
    LogLayer, MAX_RESPONSE_BYTES, OtlpTransport, Sending, StartError, Telemetry, TransportError,
    register_metrics,
};
pub use self::{
    context::{BadTraceContext, TraceContext},
    future::{InSpan, TraceFuture},
    span::{Span, SpanBuilder, is_on},
    value::{AttributeValue, MAX_ELEMENTS},
};
