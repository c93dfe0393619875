//! Tools of synthetic servers, like those of issue trackers, chats, object stores and customer
//! databases. Every run makes the same ones.

use airlock::tool::ToolDefinition;
use serde_json::{Map, Value, json};

/// A server and its tools.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) tools: Vec<Value>,
}

impl Server {
    /// Returns the definitions of its tools.
    pub(crate) fn definitions(&self) -> Vec<ToolDefinition> {
        serde_json::from_value(Value::from(self.tools.clone())).expect("definitions")
    }
}

/// Names of the servers, with their kinds of things, and whether they declare results.
const SERVERS: [(&str, [&str; 7], bool); 12] = [
    (
        "github",
        ["issue", "pull_request", "repository", "branch", "release", "workflow_run", "comment"],
        false,
    ),
    ("jira", ["ticket", "sprint", "project", "board", "worklog", "version", "filter"], false),
    ("slack", ["message", "channel", "user", "reaction", "file", "reminder", "bookmark"], false),
    (
        "s3",
        ["object", "bucket", "upload", "policy", "lifecycle_rule", "inventory", "tag_set"],
        true,
    ),
    ("crm", ["contact", "company", "deal", "note", "task", "pipeline", "quote"], true),
    (
        "gitlab",
        ["merge_request", "pipeline_job", "snippet", "milestone", "runner", "package", "label"],
        false,
    ),
    (
        "confluence",
        ["page", "space", "attachment", "template", "restriction", "blog_post", "macro"],
        false,
    ),
    (
        "calendar",
        ["event", "calendar", "attendee", "room", "availability", "invitation", "series"],
        true,
    ),
    (
        "billing",
        ["invoice", "customer", "subscription", "payment", "refund", "coupon", "price"],
        true,
    ),
    (
        "warehouse",
        ["product", "stock_level", "shipment", "supplier", "purchase_order", "location", "return"],
        false,
    ),
    (
        "monitoring",
        ["alert", "dashboard", "metric", "incident", "on_call_shift", "log_query", "monitor"],
        false,
    ),
    (
        "helpdesk",
        ["conversation", "agent", "macro_reply", "queue", "survey", "article", "organization"],
        true,
    ),
];

/// Returns a catalogue with this many tools, about equally many for each server: one server for each
/// 42 tools, and at least one for each 15 of the first 60.
pub(crate) fn servers(count: usize) -> Vec<Server> {
    let servers = count.div_ceil(42).max(count.min(60).div_ceil(15)).min(SERVERS.len());
    let mut left = count;
    let made = SERVERS.iter().take(servers).enumerate().map(|(at, (name, things, declares))| {
        let share = left.div_ceil(servers - at);
        left -= share;
        let tools = (0..share).map(|n| tool(name, things[n % 7], n / 7, *declares));
        Server { name, tools: tools.collect() }
    });
    made.collect()
}

/// Names of all servers.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SERVERS.iter().map(|(name, ..)| *name)
}

/// Makes one tool: what it does depends on `verb`.
fn tool(server: &str, thing: &str, verb: usize, declares: bool) -> Value {
    let words = thing.replace('_', " ");
    let id = format!("{thing}_id");
    let (name, description, input) = match verb {
        0 => (
            format!("create_{thing}"),
            format!("Creates a new {words} in {server}. Requires write access to the parent. Returns the created {words} with its identifier and URL. Fields that are left out get the defaults of the workspace."),
            object(&["title"], fields(&words)),
        ),
        1 => (
            format!("list_{thing}s"),
            format!("Lists {words}s that match the given filters, newest first. Results are paginated: pass the cursor of the previous page to get the next one. An empty filter returns everything that the token may read."),
            object(&[], listing(&words)),
        ),
        2 => (
            format!("get_{thing}"),
            format!("Returns one {words} by its identifier, with all of its fields."),
            object(&[&id], [(id.clone(), json!({"type": "string", "description": format!("Identifier of the {words}")})), ("fields".to_owned(), json!({"type": "array", "items": {"type": "string"}, "description": "Names of the fields to return; all if left out"}))]),
        ),
        3 => (
            format!("update_{thing}"),
            format!("Updates the given fields of an existing {words}. Fields that are not given stay as they are; null clears a field. Fails if the {words} was changed since `version`."),
            object(&[&id], [(id.clone(), json!({"type": "string", "description": format!("Identifier of the {words}")})), ("version".to_owned(), json!({"type": "integer", "minimum": 1, "description": "Version that was read last"}))].into_iter().chain(fields(&words))),
        ),
        4 => (
            format!("search_{thing}s"),
            format!("Full-text search over {words}s. Supports quoted phrases, AND, OR and NOT, and qualifiers such as `author:name` and `created:>2024-01-01`. Returns the best matches with a highlighted excerpt."),
            object(&["query"], [("query".to_owned(), json!({"type": "string", "minLength": 1, "maxLength": 256, "description": "Words to search for"}))].into_iter().chain(listing(&words))),
        ),
        _ => (
            format!("bulk_update_{thing}s"),
            format!("Applies one change to many {words}s at once, up to 100. Each change is independent: the result tells for each identifier whether it succeeded, and why not."),
            object(&["changes"], [("changes".to_owned(), json!({"type": "array", "maxItems": 100, "items": object(&["id"], [("id".to_owned(), json!({"type": "string"})), ("set".to_owned(), object(&[], fields(&words)))])})), ("dry_run".to_owned(), json!({"type": "boolean", "default": false, "description": "True to check the changes and apply none"}))]),
        ),
    };
    let mut tool = json!({"name": name, "description": description, "inputSchema": input});
    if declares {
        tool["outputSchema"] = result(&words, verb);
    }
    tool
}

/// Fields of a thing that can be written.
fn fields(words: &str) -> impl Iterator<Item = (String, Value)> {
    let person = object(
        &[],
        [
            ("id".to_owned(), json!({"type": "string", "description": "Account identifier"})),
            ("email".to_owned(), json!({"type": "string", "format": "email"})),
        ],
    );
    [
        ("title", json!({"type": "string", "maxLength": 255, "description": format!("Short title of the {words}")})),
        ("description", json!({"type": "string", "description": "Long text in Markdown"})),
        ("status", json!({"type": "string", "enum": ["open", "in_progress", "blocked", "done"], "default": "open"})),
        ("priority", json!({"type": "integer", "minimum": 1, "maximum": 5, "description": "1 is the highest"})),
        ("labels", json!({"type": "array", "items": {"type": "string"}, "description": "Names of labels; unknown ones are created"})),
        ("assignee", person),
        ("due", json!({"type": ["string", "null"], "format": "date", "description": "Date by which it has to be done"})),
    ]
    .map(|(name, schema)| (name.to_owned(), schema))
    .into_iter()
}

/// Parameters of a listing.
fn listing(words: &str) -> impl Iterator<Item = (String, Value)> {
    [
        ("status", json!({"type": "string", "enum": ["open", "in_progress", "blocked", "done", "all"], "default": "open"})),
        ("assignee", json!({"type": "string", "description": format!("Only {words}s of this account")})),
        ("created_after", json!({"type": "string", "format": "date-time", "description": "Only those created after this time"})),
        ("sort", json!({"type": "string", "enum": ["created", "updated", "priority"], "default": "created"})),
        ("limit", json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 30, "description": "Results per page"})),
        ("cursor", json!({"type": "string", "description": "Cursor of the previous page"})),
    ]
    .map(|(name, schema)| (name.to_owned(), schema))
    .into_iter()
}

fn result(words: &str, verb: usize) -> Value {
    let thing = object(
        &["id", "url"],
        [
            ("id".to_owned(), json!({"type": "string"})),
            ("url".to_owned(), json!({"type": "string", "format": "uri"})),
            ("version".to_owned(), json!({"type": "integer"})),
        ]
        .into_iter()
        .chain(fields(words)),
    );
    match verb {
        1 | 4 => object(
            &["items"],
            [
                ("items".to_owned(), json!({"type": "array", "items": thing})),
                ("next_cursor".to_owned(), json!({"type": ["string", "null"]})),
            ],
        ),
        _ => thing,
    }
}

fn object(required: &[&str], fields: impl IntoIterator<Item = (String, Value)>) -> Value {
    let properties: Map<_, _> = fields.into_iter().collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}
