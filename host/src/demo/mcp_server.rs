//! A small MCP server over stdio, which the demo connects to like any other server.
//!
//! It keeps a bounded number of counters in memory until it ends. It has no dependency on the gateway.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
        ToolAnnotations,
    },
    service::RequestContext,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// Most counters. Scripts make names up, and a counter is never removed.
const MAX_COUNTERS: usize = 1_000;
/// Longest name of a counter, in characters. With the number of counters, it bounds the memory.
const MAX_NAME_CHARS: usize = 100;
/// Longest title of a report, in characters: one line. The gateway bounds the body, with all arguments.
const MAX_TITLE_CHARS: usize = 200;

/// Serves on stdin and stdout until stdin is closed.
pub(crate) async fn run() -> anyhow::Result<()> {
    let service = DemoServer::default().serve(rmcp::transport::stdio()).await?;
    service.waiting().await?;
    Ok(())
}

#[derive(Default)]
struct DemoServer(Mutex<Records>);

impl ServerHandler for DemoServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("airlock-demo", env!("CARGO_PKG_VERSION")))
            .with_instructions("Counts things by name and takes reports.")
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let answer = match request.name.as_ref() {
            "tally" => parse(arguments).and_then(|tally| self.records().tally(tally)),
            "totals" => Ok(self.records().totals()),
            "send_report" => {
                parse(arguments).and_then(|report| self.records().send_report(&report))
            }
            other => {
                return Err(ErrorData::invalid_params(format!("unknown tool {other:?}"), None));
            }
        };
        let result = match answer {
            Ok(data) => CallToolResult::structured(data),
            Err(message) => CallToolResult::error(vec![ContentBlock::text(message)]),
        };
        Ok(result.into())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools().into_iter().find(|tool| tool.name == name)
    }
}

impl DemoServer {
    fn records(&self) -> MutexGuard<'_, Records> {
        self.0.lock()
    }
}

/// Parses arguments. The error is a message for the model.
fn parse<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| format!("the arguments do not fit: {error}"))
}

/// The counters, and the number of reports that were sent.
#[derive(Default)]
struct Records {
    counters: BTreeMap<String, i64>,
    reports_sent: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tally {
    name: String,
    #[serde(default = "one")]
    n: i64,
}

fn one() -> i64 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SentReport {
    title: String,
    body: String,
}

impl Records {
    fn tally(&mut self, Tally { name, n }: Tally) -> Result<Value, String> {
        if name.is_empty() || name.chars().count() > MAX_NAME_CHARS {
            return Err(format!("a name has 1 to {MAX_NAME_CHARS} characters"));
        }
        if self.counters.len() >= MAX_COUNTERS && !self.counters.contains_key(&name) {
            return Err(format!("there are {MAX_COUNTERS} counters already"));
        }
        let total = self
            .counters
            .get(&name)
            .copied()
            .unwrap_or(0)
            .checked_add(n)
            .ok_or("the total would be too large")?;
        self.counters.insert(name.clone(), total);
        Ok(json!({"name": name, "total": total}))
    }

    fn totals(&self) -> Value {
        json!({"totals": self.counters})
    }

    fn send_report(&mut self, report: &SentReport) -> Result<Value, String> {
        if report.title.is_empty() || report.title.chars().count() > MAX_TITLE_CHARS {
            return Err(format!("a title has 1 to {MAX_TITLE_CHARS} characters"));
        }
        self.reports_sent += 1;
        let id = self.reports_sent;
        eprintln!("report {id}: {}\n{}", report.title.escape_debug(), report.body);
        Ok(json!({"id": id, "bytes": report.body.len()}))
    }
}

fn tools() -> Vec<Tool> {
    let tally = tool(
        "tally",
        "Adds n to the counter of this name, which starts at 0, and returns the new total. A negative n subtracts.",
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The counter's name.", "minLength": 1, "maxLength": MAX_NAME_CHARS},
                "n": {"type": "integer", "description": "How much to add.", "default": 1},
            },
            "required": ["name"],
            "additionalProperties": false,
        }),
        json!({
            "type": "object",
            "properties": {"name": {"type": "string"}, "total": {"type": "integer"}},
            "required": ["name", "total"],
        }),
        ToolAnnotations::with_title("Count")
            .read_only(false)
            .destructive(false)
            .idempotent(false)
            .open_world(false),
    );
    let totals = tool(
        "totals",
        "Returns every counter with its total, sorted by name.",
        json!({"type": "object", "properties": {}, "additionalProperties": false}),
        json!({
            "type": "object",
            "properties": {"totals": {"type": "object", "additionalProperties": {"type": "integer"}}},
            "required": ["totals"],
        }),
        ToolAnnotations::with_title("Read the counters").read_only(true).open_world(false),
    );
    let send_report = tool(
        "send_report",
        "Sends a report to the operator, who reads it at once. It cannot be undone. Returns the report's number.",
        json!({
            "type": "object",
            "properties": {
                "title": {"type": "string", "description": "One line.", "minLength": 1, "maxLength": MAX_TITLE_CHARS},
                "body": {"type": "string", "description": "The report, as plain text."},
            },
            "required": ["title", "body"],
            "additionalProperties": false,
        }),
        json!({
            "type": "object",
            "properties": {"id": {"type": "integer"}, "bytes": {"type": "integer"}},
            "required": ["id", "bytes"],
        }),
        ToolAnnotations::with_title("Send a report")
            .read_only(false)
            .destructive(false)
            .idempotent(false)
            .open_world(true),
    );
    vec![tally, totals, send_report]
}

fn tool(
    name: &'static str,
    description: &'static str,
    input: Value,
    output: Value,
    hints: ToolAnnotations,
) -> Tool {
    Tool::new(name, description, schema(input))
        .with_raw_output_schema(schema(output))
        .with_annotations(hints)
}

fn schema(schema: Value) -> Arc<Map<String, Value>> {
    match schema {
        Value::Object(schema) => Arc::new(schema),
        _ => Arc::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(records: &mut Records, name: &str, n: i64) -> Result<Value, String> {
        records.tally(Tally { name: name.into(), n })
    }

    #[test]
    fn counters_add_up_and_are_bounded() {
        let mut records = Records::default();
        assert_eq!(tally(&mut records, "b", 2), Ok(json!({"name": "b", "total": 2})));
        assert_eq!(tally(&mut records, "b", -5), Ok(json!({"name": "b", "total": -3})));
        assert_eq!(tally(&mut records, "a", i64::MAX), Ok(json!({"name": "a", "total": i64::MAX})));
        assert!(tally(&mut records, "a", 1).is_err());
        assert!(tally(&mut records, "", 1).is_err());
        assert_eq!(records.totals(), json!({"totals": {"a": i64::MAX, "b": -3}}));
        for n in 2..MAX_COUNTERS {
            assert!(tally(&mut records, &n.to_string(), 1).is_ok());
        }
        assert!(tally(&mut records, "one more", 1).is_err());
        assert!(tally(&mut records, "b", 1).is_ok());
    }

    #[test]
    fn reports_are_numbered_and_have_a_title_of_bounded_length() {
        let mut records = Records::default();
        let mut send = |title: String| records.send_report(&SentReport { title, body: "x".into() });
        assert!(send(String::new()).is_err() && send("t".repeat(MAX_TITLE_CHARS + 1)).is_err());
        for id in 1..=3 {
            assert_eq!(send("t".repeat(MAX_TITLE_CHARS)), Ok(json!({"id": id, "bytes": 1})));
        }
    }

    #[test]
    fn invalid_arguments_are_an_error_for_the_model() {
        let arguments = json!({"name": "a", "count": 2}).as_object().cloned().unwrap_or_default();
        let Err(message) = parse::<Tally>(arguments) else { panic!("it was taken") };
        insta::assert_snapshot!(message, @"the arguments do not fit: unknown field `count`, expected `name` or `n`");
    }
}
