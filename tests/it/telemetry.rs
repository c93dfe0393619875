//! The export over OTLP/HTTP: what a collector receives, and that a bad one changes nothing else.

mod export;
mod spans;
