//! The rows of both logs, and their columns.

use airlock_database::sql::{Row, SqlResult};

airlock_strings::named_enum! {
    /// State of a call. The names are those in the database and in the API.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum CallStatus {
        /// It was admitted and has not ended, as far as is known.
        Processing = "processing",
        /// It has returned a result.
        Success = "success",
        /// It has failed.
        Error = "error",
        /// It was not made.
        Refused = "refused",
        /// Its caller has left, or its gateway has ended. It may have had its effect.
        Cancelled = "cancelled",
    }
}

impl CallStatus {
    /// Returns the state with this name; `None` if there is none.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// The two logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// Calls of tools.
    Tools,
    /// Requests to models.
    Models,
}

impl LogKind {
    pub(super) fn table(self) -> &'static str {
        match self {
            Self::Tools => "tool_log",
            Self::Models => "model_log",
        }
    }

    /// Column of the tool or the model.
    pub(super) fn name_column(self) -> &'static str {
        match self {
            Self::Tools => "tool",
            Self::Models => "model",
        }
    }

    /// Column of the client or the provider.
    pub(super) fn source_column(self) -> &'static str {
        match self {
            Self::Tools => "client",
            Self::Models => "provider",
        }
    }
}

/// The party that a call is accounted to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoggedParty {
    /// Identifier of its virtual key; `None` for a caller without one.
    pub key_id: Option<String>,
    /// Name of the key.
    pub key_name: Option<String>,
    /// Team of the key.
    pub team: Option<String>,
    /// Customer of the key.
    pub customer: Option<String>,
    /// Issuer of the user; `None` if the key is the credential.
    pub user_issuer: Option<String>,
    /// User at the issuer.
    pub user_subject: Option<String>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedToolCall {
    /// Identifier of the call.
    pub id: String,
    /// Time of the decision, in milliseconds since 1970.
    pub at_ms: i64,
    /// State.
    pub status: CallStatus,
    /// Name of the tool. Untrusted if there is no such tool.
    pub tool: String,
    /// Source of the tool.
    pub client: Option<String>,
    /// Origin of the call.
    pub origin: String,
    /// By what it was admitted.
    pub decision: String,
    /// The operators or the key that have approved it; `None` if it needed no approval, or if its run has it.
    pub decided_by: Option<String>,
    /// Decisions of guards that have changed something, as a JSON array; `None` if there is none.
    pub guards: Option<String>,
    /// Sources of untrusted content that its author had read before, as a JSON array; `None` if there is none.
    pub sources: Option<String>,
    /// Its party.
    pub party: LoggedParty,
    /// The call that made it.
    pub parent: Option<String>,
    /// The run of its script.
    pub run: Option<String>,
    /// Code of the error.
    pub code: Option<String>,
    /// Duration in microseconds.
    pub duration_us: Option<i64>,
    /// Cost in millionths of a US dollar.
    pub cost: Option<i64>,
    /// Fuel that its guest has used.
    pub fuel: Option<i64>,
    /// Memory that its guest had, in bytes.
    pub memory_bytes: Option<i64>,
    /// SHA-256 of the first salt and the arguments.
    pub arguments_digest: Option<[u8; 32]>,
    /// SHA-256 of the second salt and the result.
    pub result_digest: Option<[u8; 32]>,
    /// The two salts of 16 bytes; `None` once they are erased.
    pub salt: Option<[u8; 32]>,
    /// Time of the erasure, in milliseconds since 1970.
    pub erased_ms: Option<i64>,
}

/// Contents of a call, as JSON texts.
#[derive(Clone, PartialEq, Eq)]
pub struct CallContents {
    /// The arguments; `None` if they are too long to be kept.
    pub arguments: Option<String>,
    /// The result; `None` if there is none, or if it is too long to be kept.
    pub result: Option<String>,
}

airlock_strings::debug_fields!(CallContents {});

/// A request to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedModelCall {
    /// Identifier of the request.
    pub id: String,
    /// Time of its beginning, in milliseconds since 1970.
    pub at_ms: i64,
    /// State.
    pub status: CallStatus,
    /// The model as the caller named it.
    pub model: String,
    /// Provider that has responded.
    pub provider: Option<String>,
    /// The model as the provider named it. Untrusted.
    pub served_model: Option<String>,
    /// Decisions of guards that have changed something, as a JSON array; `None` if there is none.
    pub guards: Option<String>,
    /// Its party.
    pub party: LoggedParty,
    /// True if the response was streamed.
    pub is_streamed: bool,
    /// Code of the error.
    pub code: Option<String>,
    /// Duration in microseconds.
    pub duration_us: Option<i64>,
    /// Cost in millionths of a US dollar.
    pub cost: Option<i64>,
    /// Tokens; `None` if the provider did not tell.
    pub tokens: Option<LoggedTokens>,
    /// Estimated tokens of the gateway's tools, as a JSON object; `None` if it offers none.
    pub tool_tokens: Option<String>,
}

/// Tokens of a request to a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoggedTokens {
    /// Tokens of the request.
    pub input: i64,
    /// Those of them from the provider's cache.
    pub cached: i64,
    /// Tokens of the response.
    pub output: i64,
    /// Those of them of reasoning.
    pub reasoning: i64,
}

/// Rows that are written together.
#[derive(Debug, Clone, Default)]
pub struct LogBatch {
    /// Calls of tools.
    pub tools: Vec<LoggedToolCall>,
    /// Contents of those of them that have ended, by identifier.
    pub contents: Vec<(String, CallContents)>,
    /// Requests to models.
    pub models: Vec<LoggedModelCall>,
}

impl LogBatch {
    /// Returns whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.contents.is_empty() && self.models.is_empty()
    }
}

/// Columns of the party of a row, in both tables.
macro_rules! party_columns {
    () => {
        "key_id, key_name, team, customer, user_issuer, user_subject"
    };
}

pub(super) const TOOL_COLUMNS: &str = concat!(
    "id, at_ms, status, tool, client, origin, decision, ",
    party_columns!(),
    ", parent, run, code, duration_us, cost, fuel, arguments_digest, result_digest, salt, erased_ms, \
     memory_bytes, decided_by, guards, sources"
);

pub(super) const MODEL_COLUMNS: &str = concat!(
    "id, at_ms, status, model, provider, served_model, ",
    party_columns!(),
    ", streamed, code, duration_us, cost, input_tokens, cached_tokens, output_tokens, reasoning_tokens, \
     tool_tokens, guards"
);

pub(super) fn tool_call(row: &Row<'_>) -> SqlResult<LoggedToolCall> {
    Ok(LoggedToolCall {
        id: row.get(0)?,
        at_ms: row.get(1)?,
        status: status(row)?,
        tool: row.get(3)?,
        client: row.get(4)?,
        origin: row.get(5)?,
        decision: row.get(6)?,
        party: party(row, 7)?,
        parent: row.get(13)?,
        run: row.get(14)?,
        code: row.get(15)?,
        duration_us: row.get(16)?,
        cost: row.get(17)?,
        fuel: row.get(18)?,
        arguments_digest: row.get(19)?,
        result_digest: row.get(20)?,
        salt: row.get(21)?,
        erased_ms: row.get(22)?,
        memory_bytes: row.get(23)?,
        decided_by: row.get(24)?,
        guards: row.get(25)?,
        sources: row.get(26)?,
    })
}

pub(super) fn model_call(row: &Row<'_>) -> SqlResult<LoggedModelCall> {
    let input: Option<i64> = row.get(16)?;
    let tokens = match input {
        Some(input) => Some(LoggedTokens {
            input,
            cached: row.get::<Option<i64>>(17)?.unwrap_or_default(),
            output: row.get::<Option<i64>>(18)?.unwrap_or_default(),
            reasoning: row.get::<Option<i64>>(19)?.unwrap_or_default(),
        }),
        None => None,
    };
    Ok(LoggedModelCall {
        id: row.get(0)?,
        at_ms: row.get(1)?,
        status: status(row)?,
        model: row.get(3)?,
        provider: row.get(4)?,
        served_model: row.get(5)?,
        party: party(row, 6)?,
        is_streamed: row.get(12)?,
        code: row.get(13)?,
        duration_us: row.get(14)?,
        cost: row.get(15)?,
        tokens,
        tool_tokens: row.get(20)?,
        guards: row.get(21)?,
    })
}

/// Reads the state. A later version may know others.
fn status(row: &Row<'_>) -> SqlResult<CallStatus> {
    Ok(CallStatus::from_name(row.get(2)?).unwrap_or(CallStatus::Error))
}

/// Reads the party from six columns.
fn party(row: &Row<'_>, first: usize) -> SqlResult<LoggedParty> {
    Ok(LoggedParty {
        key_id: row.get(first)?,
        key_name: row.get(first + 1)?,
        team: row.get(first + 2)?,
        customer: row.get(first + 3)?,
        user_issuer: row.get(first + 4)?,
        user_subject: row.get(first + 5)?,
    })
}
