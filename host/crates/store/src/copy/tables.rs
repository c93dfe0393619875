//! The tables that are copied, those that others refer to first.

use super::CopiedValue;
use airlock_database::sql::{Row, SqlError};

/// A table.
pub(super) struct CopiedTable {
    pub(super) name: &'static str,
    pub(super) columns: &'static [CopiedColumn],
    /// Column of numbers that the database counts up.
    pub(super) identity: Option<&'static str>,
}

/// A column. Its kind is that in a file: on a server, texts are bytes.
pub(super) enum CopiedColumn {
    Number(&'static str),
    Text(&'static str),
    Bytes(&'static str),
}

use CopiedColumn::{Bytes, Number, Text};

pub(super) const TABLES: [CopiedTable; 31] = [
    CopiedTable {
        name: "kv_store",
        columns: &[
            Number("id"),
            Text("plugin"),
            Text("name"),
            Bytes("holder"),
            Number("version"),
            Number("bytes"),
            Number("entries"),
        ],
        identity: Some("id"),
    },
    CopiedTable {
        name: "kv_entry",
        columns: &[
            Number("id"),
            Number("store"),
            Bytes("key"),
            Number("version"),
            Number("cost"),
            Number("expires"),
            Bytes("value"),
        ],
        identity: Some("id"),
    },
    CopiedTable {
        name: "response_owner",
        columns: &[Number("id"), Bytes("scope"), Number("bytes")],
        identity: Some("id"),
    },
    CopiedTable {
        name: "response_conversation",
        columns: &[Number("id"), Number("owner"), Number("bytes"), Number("expires")],
        identity: Some("id"),
    },
    CopiedTable {
        name: "response",
        columns: &[
            Number("number"),
            Text("id"),
            Number("conversation"),
            Text("previous"),
            Number("cost"),
            Text("input"),
            Text("output"),
            Text("body"),
        ],
        identity: Some("number"),
    },
    CopiedTable {
        name: "upstream_pin",
        columns: &[Text("client"), Text("tool"), Number("trusted"), Text("definition")],
        identity: None,
    },
    CopiedTable {
        name: "upstream_login",
        columns: &[
            Text("client"),
            Text("server"),
            Text("issuer"),
            Text("client_id"),
            Bytes("client_secret"),
            Text("authentication"),
            Text("token_endpoint"),
            Text("resource"),
            Text("scopes"),
            Text("wanted"),
            Bytes("access_token"),
            Bytes("refresh_token"),
            Number("obtained_ms"),
            Number("expires_ms"),
            Number("refreshing_until_ms"),
        ],
        identity: None,
    },
    CopiedTable {
        name: "user_login",
        columns: &[
            Text("client"),
            Text("server"),
            Text("holder"),
            Text("session"),
            Text("key_name"),
            Text("user_issuer"),
            Text("user_subject"),
            Text("issuer"),
            Text("client_id"),
            Bytes("client_secret"),
            Text("authentication"),
            Text("token_endpoint"),
            Text("resource"),
            Text("scopes"),
            Text("wanted"),
            Bytes("access_token"),
            Bytes("refresh_token"),
            Number("obtained_ms"),
            Number("expires_ms"),
            Number("refreshing_until_ms"),
        ],
        identity: None,
    },
    CopiedTable {
        name: "login_link",
        columns: &[
            Text("id"),
            Text("client"),
            Text("server"),
            Text("holder"),
            Number("expires_ms"),
            Text("state"),
            Bytes("document"),
        ],
        identity: None,
    },
    CopiedTable {
        name: "run_tools",
        columns: &[Number("id"), Bytes("digest"), Text("bindings")],
        identity: Some("id"),
    },
    CopiedTable {
        name: "run",
        columns: &[
            Number("number"),
            Text("id"),
            Bytes("scope"),
            Number("bytes"),
            Number("created_ms"),
            Number("changed_ms"),
            Number("epoch"),
            Text("phase"),
            Number("until_ms"),
            Number("cancelled"),
            Text("language"),
            Number("clock_ms"),
            Number("tools"),
            Text("outcome"),
            Text("script"),
            Number("tools_bytes"),
            Text("status"),
            Text("trace"),
            Text("sources"),
        ],
        identity: Some("number"),
    },
    CopiedTable {
        name: "run_call",
        columns: &[
            Number("run"),
            Number("block"),
            Number("branch"),
            Text("stage"),
            Number("attempts"),
            Number("until_ms"),
            Number("repeatable"),
            Text("tool"),
            Text("definition"),
            Text("answer_head"),
            Text("arguments"),
            Text("answer"),
            Text("sources"),
            Text("written"),
            Text("asked_by"),
        ],
        identity: None,
    },
    CopiedTable {
        name: "run_owner",
        columns: &[Bytes("scope"), Number("runs"), Number("bytes")],
        identity: None,
    },
    CopiedTable {
        name: "recall_owner",
        columns: &[Number("id"), Bytes("scope"), Number("bytes"), Number("records")],
        identity: Some("id"),
    },
    CopiedTable {
        name: "recall_record",
        columns: &[
            Number("id"),
            Number("owner"),
            Number("expires"),
            Number("ends"),
            Number("cost"),
            Text("text"),
        ],
        identity: Some("id"),
    },
    CopiedTable {
        name: "recall_anchor",
        columns: &[Number("owner"), Bytes("anchor"), Number("record")],
        identity: None,
    },
    CopiedTable {
        name: "approval",
        columns: &[
            Text("id"),
            Bytes("scope"),
            Bytes("call"),
            Number("asked"),
            Number("expires"),
            Number("approved"),
            Text("text"),
            Text("decided_by"),
            Text("reason"),
        ],
        identity: None,
    },
    CopiedTable {
        name: "operator",
        columns: &[
            Text("id"),
            Text("name"),
            Text("role"),
            Number("sees_payloads"),
            Bytes("digest"),
            Number("created_ms"),
            Number("expires_ms"),
        ],
        identity: None,
    },
    CopiedTable {
        name: "operator_login",
        columns: &[
            Text("id"),
            Bytes("browser"),
            Bytes("peer"),
            Number("expires_ms"),
            Bytes("document"),
        ],
        identity: None,
    },
    CopiedTable {
        name: "operator_session",
        columns: &[
            Text("id"),
            Bytes("digest"),
            Bytes("policy"),
            Text("issuer"),
            Text("subject"),
            Text("name"),
            Text("role"),
            Number("sees_payloads"),
            Number("created_ms"),
            Number("seen_ms"),
            Number("expires_ms"),
        ],
        identity: None,
    },
    CopiedTable {
        name: "setting_entry",
        columns: &[
            Text("kind"),
            Text("name"),
            Bytes("replaces"),
            Bytes("document"),
            Number("changed_ms"),
        ],
        identity: None,
    },
    CopiedTable {
        name: "setting_change",
        columns: &[
            Number("id"),
            Number("at_ms"),
            Text("actor"),
            Text("action"),
            Text("kind"),
            Text("name"),
            Number("has_before"),
            Bytes("before_replaces"),
            Bytes("before_document"),
            Number("has_after"),
            Bytes("after_replaces"),
            Bytes("after_document"),
        ],
        identity: None,
    },
    CopiedTable {
        name: "component",
        columns: &[Bytes("digest"), Number("bytes"), Number("parts"), Number("touched_ms")],
        identity: None,
    },
    CopiedTable {
        name: "component_part",
        columns: &[Bytes("digest"), Number("number"), Bytes("content")],
        identity: None,
    },
    CopiedTable {
        name: "component_use",
        columns: &[Text("kind"), Text("name"), Bytes("digest")],
        identity: None,
    },
    CopiedTable {
        name: "limit_count",
        columns: &[
            Text("id"),
            Number("epoch_ms"),
            Number("seen_ms"),
            Bytes("buckets"),
            Number("extra"),
            Number("extra_until_ms"),
        ],
        identity: None,
    },
    CopiedTable {
        name: "tool_log",
        columns: &[
            Text("id"),
            Number("at_ms"),
            Text("status"),
            Text("tool"),
            Text("client"),
            Text("origin"),
            Text("decision"),
            Text("key_id"),
            Text("key_name"),
            Text("team"),
            Text("customer"),
            Text("user_issuer"),
            Text("user_subject"),
            Text("parent"),
            Text("run"),
            Text("code"),
            Number("duration_us"),
            Number("cost"),
            Number("fuel"),
            Bytes("arguments_digest"),
            Bytes("result_digest"),
            Bytes("salt"),
            Number("erased_ms"),
            Number("memory_bytes"),
            Text("decided_by"),
            Text("guards"),
            Text("sources"),
        ],
        identity: None,
    },
    CopiedTable {
        name: "limit_reservation",
        columns: &[
            Text("id"),
            Text("limit_id"),
            Number("amount"),
            Number("bucket_ms"),
            Number("epoch_ms"),
            Number("expires_ms"),
        ],
        identity: None,
    },
    CopiedTable {
        name: "tool_log_content",
        columns: &[Text("id"), Bytes("arguments"), Bytes("result")],
        identity: None,
    },
    CopiedTable {
        name: "model_log",
        columns: &[
            Text("id"),
            Number("at_ms"),
            Text("status"),
            Text("model"),
            Text("provider"),
            Text("served_model"),
            Text("key_id"),
            Text("key_name"),
            Text("team"),
            Text("customer"),
            Text("user_issuer"),
            Text("user_subject"),
            Number("streamed"),
            Text("code"),
            Number("duration_us"),
            Number("cost"),
            Number("input_tokens"),
            Number("cached_tokens"),
            Number("output_tokens"),
            Number("reasoning_tokens"),
            Text("tool_tokens"),
            Text("guards"),
        ],
        identity: None,
    },
    CopiedTable {
        name: "airlock_revision",
        columns: &[Text("kind"), Number("revision")],
        identity: None,
    },
];

impl CopiedTable {
    pub(super) fn select(&self) -> String {
        format!("SELECT {} FROM {self}", self.names().join(", "))
    }

    pub(super) fn insert(&self) -> String {
        let places: Vec<_> = (1..=self.columns.len()).map(|place| format!("?{place}")).collect();
        format!("INSERT INTO {self} ({}) VALUES ({})", self.names().join(", "), places.join(", "))
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.columns.iter().map(CopiedColumn::name).collect()
    }
}

impl CopiedColumn {
    fn name(&self) -> &'static str {
        match self {
            Number(name) | Text(name) | Bytes(name) => name,
        }
    }

    /// Reads the value of a row at `index`.
    pub(super) fn read(&self, row: &Row<'_>, index: usize) -> Result<CopiedValue, SqlError> {
        let value = match self {
            Number(_) => row.get::<Option<i64>>(index)?.map(CopiedValue::Number),
            Text(_) => row.get::<Option<String>>(index)?.map(CopiedValue::Text),
            Bytes(_) => row.get::<Option<Vec<u8>>>(index)?.map(CopiedValue::Bytes),
        };
        Ok(value.unwrap_or(CopiedValue::Null))
    }
}
