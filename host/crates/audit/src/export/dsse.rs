//! A statement of in-toto about one run, in a DSSE envelope: its lines, as the log has them, and the
//! checkpoint that they are in.

use std::path::Path;

use airlock_strings::hex;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{ExportError, Selection, each_selected};
use crate::{
    checkpoint::Checkpoint,
    key::{PublicKey, SigningKey},
    read::newest_checkpoint,
};

/// Type of the statements of in-toto.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// Type of the predicate, which `docs/audit.md` describes.
const PREDICATE_TYPE: &str =
    "https://github.com/airlock-gateway/airlock/blob/main/docs/audit.md#run-v1";
/// Most lines of a statement, which is made in memory: a run may have thousands of calls, of two
/// lines each.
const MAX_LINES: usize = 10_000;
/// Most bytes of these lines, for the same reason: a line has up to 64 KiB.
const MAX_BYTES: usize = 16 << 20;

/// Exports the lines of a run as a signed statement. Its subject is the run, with the SHA-256 of its lines.
pub fn dsse(
    path: &Path,
    run: &str,
    key: &SigningKey,
    public: &PublicKey,
) -> Result<Value, ExportError> {
    let checkpoint = newest_checkpoint(path)?.ok_or(ExportError::NoCheckpoint)?;
    let mut lines = Vec::new();
    let mut digest = Sha256::new();
    let selection = Selection { run: Some(run.to_owned()) };
    let mut is_long = false;
    let mut bytes = 0;
    each_selected(path, &selection, |line| {
        bytes += line.bytes.len();
        is_long |= lines.len() == MAX_LINES || bytes > MAX_BYTES;
        if !is_long && line.number < checkpoint.size {
            digest.update(line.bytes);
            digest.update(b"\n");
            lines.push(json!({"n": line.number, "text": String::from_utf8_lossy(line.bytes)}));
        }
        Ok(())
    })?;
    if is_long {
        return Err(ExportError::LongRun {
            run: run.to_owned(),
            lines: MAX_LINES,
            bytes: MAX_BYTES,
        });
    }
    if lines.is_empty() {
        return Err(ExportError::NoRun(run.to_owned()));
    }
    let statement = statement(run, &hex(&digest.finalize()), &lines, &checkpoint);
    Ok(envelope(&statement, key, public))
}

fn statement(run: &str, digest: &str, lines: &[Value], checkpoint: &Checkpoint) -> String {
    let statement = json!({
        "_type": STATEMENT_TYPE,
        "subject": [{"name": run, "digest": {"sha256": digest}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "log": checkpoint.origin,
            "checkpoint": checkpoint.to_string(),
            "lines": lines,
        },
    });
    statement.to_string()
}

fn envelope(payload: &str, key: &SigningKey, public: &PublicKey) -> Value {
    let signed =
        format!("DSSEv1 {} {PAYLOAD_TYPE} {} {payload}", PAYLOAD_TYPE.len(), payload.len());
    json!({
        "payloadType": PAYLOAD_TYPE,
        "payload": BASE64_STANDARD.encode(payload),
        "signatures": [{
            "keyid": public.to_string(),
            "sig": BASE64_STANDARD.encode(key.sign(signed.as_bytes())),
        }],
    })
}
