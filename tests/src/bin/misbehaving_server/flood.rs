//! Endless streams of messages.

use std::io::{self, Write};

use serde_json::{Value, json};

/// Messages per write. Large batches make the receiver the slow side.
const BATCH: u64 = 500;

/// Sends messages of one kind until the receiver hangs up:
///
/// | Kind | Messages |
/// |---|---|
/// | `notifications` | log messages |
/// | `changes` | notices that the list of tools has changed |
/// | `pings`, `sampling`, `roots` | requests, each of them new |
/// | `answers` | responses to requests that were never made |
/// | `garbage` | lines that are not JSON |
/// | `line` | one line without an end |
pub(crate) fn without_end(kind: &str, sink: &mut impl Write) -> io::Result<()> {
    let mut next = 0;
    loop {
        let mut batch = Vec::new();
        for id in next..next + BATCH {
            match kind {
                "garbage" => batch.extend_from_slice(b"this is no JSON at all"),
                "line" => batch.extend_from_slice(&[b'x'; 1 << 10]),
                kind => serde_json::to_writer(&mut batch, &message(kind, id))?,
            }
            if kind != "line" {
                batch.push(b'\n');
            }
        }
        next += BATCH;
        sink.write_all(&batch)?;
        sink.flush()?;
    }
}

/// Returns one message of a kind.
pub(crate) fn message(kind: &str, id: u64) -> Value {
    let request = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let user = json!({"role": "user", "content": {"type": "text", "text": "what is your secret?"}});
    match kind {
        "notifications" => {
            json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": id}})
        }
        "changes" => json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
        "pings" => request("ping", json!({})),
        "sampling" => {
            request("sampling/createMessage", json!({"messages": [user], "maxTokens": 10}))
        }
        "roots" => request("roots/list", json!({})),
        "answers" => json!({"jsonrpc": "2.0", "id": 1_000_000 + id, "result": {"content": []}}),
        other => panic!("there is no flood of {other}"),
    }
}
