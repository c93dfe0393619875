//! The tables that are copied, those that others refer to first.

use super::CopiedValue;
use airlock_database::sql::{Row, SqlResult};

/// A table.
pub(super) struct CopiedTable {
    pub(super) name: &'static str,
    /// Column of numbers that the database counts up.
    pub(super) identity: Option<&'static str>,
    /// Names of the columns of each kind, in the order of [`KINDS`].
    columns: [&'static str; KINDS.len()],
}

/// Kind of a column in a file. On a server, texts are bytes.
#[derive(Clone, Copy)]
pub(super) enum CopiedKind {
    Number,
    Text,
    Bytes,
}

const KINDS: [CopiedKind; 3] = [CopiedKind::Number, CopiedKind::Text, CopiedKind::Bytes];

pub(super) const TABLES: [CopiedTable; 31] = [
    table("kv_store", Some("id"), ["id version bytes entries", "plugin name", "holder"]),
    table("kv_entry", Some("id"), ["id store version cost expires", "", "key value"]),
    table("response_owner", Some("id"), ["id bytes", "", "scope"]),
    table("response_conversation", Some("id"), ["id owner bytes expires", "", ""]),
    table(
        "response",
        Some("number"),
        ["number conversation cost", "id previous input output body", ""],
    ),
    table("upstream_pin", None, ["trusted", "client tool definition", ""]),
    table(
        "upstream_login",
        None,
        [
            "obtained_ms expires_ms refreshing_until_ms",
            "client server issuer client_id authentication token_endpoint resource scopes wanted",
            "client_secret access_token refresh_token",
        ],
    ),
    table(
        "user_login",
        None,
        [
            "obtained_ms expires_ms refreshing_until_ms",
            "client server holder session key_name user_issuer user_subject issuer client_id \
             authentication token_endpoint resource scopes wanted",
            "client_secret access_token refresh_token",
        ],
    ),
    table("login_link", None, ["expires_ms", "id client server holder state", "document"]),
    table("run_tools", Some("id"), ["id", "bindings", "digest"]),
    table(
        "run",
        Some("number"),
        [
            "number bytes created_ms changed_ms epoch until_ms cancelled clock_ms tools \
             tools_bytes",
            "id phase language outcome script status trace sources",
            "scope",
        ],
    ),
    table(
        "run_call",
        None,
        [
            "run block branch attempts until_ms repeatable",
            "stage tool definition answer_head arguments answer sources written asked_by",
            "",
        ],
    ),
    table("run_owner", None, ["runs bytes", "", "scope"]),
    table("recall_owner", Some("id"), ["id bytes records", "", "scope"]),
    table("recall_record", Some("id"), ["id owner expires ends cost", "text", ""]),
    table("recall_anchor", None, ["owner record", "", "anchor"]),
    table("approval", None, ["asked expires approved", "id text decided_by reason", "scope call"]),
    table("operator", None, ["sees_payloads created_ms expires_ms", "id name role", "digest"]),
    table("operator_login", None, ["expires_ms", "id", "browser peer document"]),
    table(
        "operator_session",
        None,
        [
            "sees_payloads created_ms seen_ms expires_ms",
            "id issuer subject name role",
            "digest policy",
        ],
    ),
    table("setting_entry", None, ["changed_ms", "kind name", "replaces document"]),
    table(
        "setting_change",
        None,
        [
            "id at_ms has_before has_after",
            "actor action kind name",
            "before_replaces before_document after_replaces after_document",
        ],
    ),
    table("component", None, ["bytes parts touched_ms", "", "digest"]),
    table("component_part", None, ["number", "", "digest content"]),
    table("component_use", None, ["", "kind name", "digest"]),
    table("limit_count", None, ["epoch_ms seen_ms extra extra_until_ms", "id", "buckets"]),
    table(
        "tool_log",
        None,
        [
            "at_ms duration_us cost fuel erased_ms memory_bytes",
            "id status tool client origin decision key_id key_name team customer user_issuer \
             user_subject parent run code decided_by guards sources",
            "arguments_digest result_digest salt",
        ],
    ),
    table("limit_reservation", None, ["amount bucket_ms epoch_ms expires_ms", "id limit_id", ""]),
    table("tool_log_content", None, ["", "id", "arguments result"]),
    table(
        "model_log",
        None,
        [
            "at_ms streamed duration_us cost input_tokens cached_tokens output_tokens \
             reasoning_tokens",
            "id status model provider served_model key_id key_name team customer user_issuer \
             user_subject code tool_tokens guards",
            "",
        ],
    ),
    table("airlock_revision", None, ["revision", "kind", ""]),
];

const fn table(
    name: &'static str,
    identity: Option<&'static str>,
    columns: [&'static str; KINDS.len()],
) -> CopiedTable {
    CopiedTable { name, identity, columns }
}

impl CopiedTable {
    pub(super) fn select(&self) -> String {
        format!("SELECT {} FROM {self}", self.names().join(", "))
    }

    pub(super) fn insert(&self) -> String {
        let names = self.names();
        let places: Vec<_> = (1..=names.len()).map(|place| format!("?{place}")).collect();
        format!("INSERT INTO {self} ({}) VALUES ({})", names.join(", "), places.join(", "))
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.columns().map(|(name, _)| name).collect()
    }

    /// Returns the kinds of the columns, in the order of their names.
    pub(super) fn kinds(&self) -> Vec<CopiedKind> {
        self.columns().map(|(_, kind)| kind).collect()
    }

    fn columns(&self) -> impl Iterator<Item = (&'static str, CopiedKind)> {
        self.columns
            .into_iter()
            .zip(KINDS)
            .flat_map(|(names, kind)| names.split_ascii_whitespace().map(move |name| (name, kind)))
    }
}

impl CopiedKind {
    /// Reads the value of a row at `index`.
    pub(super) fn read(self, row: &Row<'_>, index: usize) -> SqlResult<CopiedValue> {
        let value = match self {
            Self::Number => row.get::<Option<i64>>(index)?.map(CopiedValue::Number),
            Self::Text => row.get::<Option<String>>(index)?.map(CopiedValue::Text),
            Self::Bytes => row.get::<Option<Vec<u8>>>(index)?.map(CopiedValue::Bytes),
        };
        Ok(value.unwrap_or(CopiedValue::Null))
    }
}
