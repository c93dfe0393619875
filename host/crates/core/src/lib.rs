//! Airlock without I/O: tools as plain data, the one door that decides about calls, and what both
//! are made of.
//!
//! | module | purpose |
//! |---|---|
//! | [`door`] | who may call what: `View`, `Origin`, `Admitted`, and the `Provider` trait |
//! | [`tool`] | tools as plain data: names, definitions, results, errors, policies |
//! | [`schema`] | checks values against untrusted JSON Schemas |
//! | [`json`] | bounds untrusted JSON in memory before it is parsed |
//! | [`secret`] | credentials: their sources, and their redaction |
//! | [`tenant`] | the party that calls are accounted to, and the division of resources between tenants |
//! | [`text`] | text for people and models: cut, on one line, made visible |
//! | [`units`] | sizes and durations as people write them |

pub mod door;
pub mod json;
pub mod schema;
pub mod secret;
pub mod tenant;
pub mod text;
pub mod tool;
pub mod units;
