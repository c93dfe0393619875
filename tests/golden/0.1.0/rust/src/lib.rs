//! Uses every function of contract 0.1.0, every field that a plugin writes, every kind of error and
//! every level of the log.
//!
//! This source, its SDK and what the tools return never change.

use std::time::Duration;

use airlock_guest::{
    Annotations, Content, Context, Descriptor, Embedded, Error, ErrorKind, Link, Output, Tool, config, data,
    http, kv, log, plugin, secrets,
    serde_json::{Value, json},
    tool, tools,
};

/// Returns parts of every kind, with every field.
fn parts() -> Vec<Content> {
    let link = Link::new("https://example.com/a", "a")
        .with_title("A")
        .with_description("The letter.")
        .with_mime_type("text/plain")
        .with_size(1);
    let text = Embedded::text("note:1", "one")
        .with_mime_type("text/plain")
        .with_meta(json!({ "of": "resource" }))
        .with_extra(json!({ "etag": "e" }));
    vec![
        Content::text("text")
            .with_annotations(json!({ "audience": ["user"], "priority": 0.5 }))
            .with_meta(json!({ "of": "part" }))
            .with_extra(json!({ "other": "member" })),
        Content::image([0, 1, 255], "image/png"),
        Content::audio([2], "audio/wav"),
        link.into(),
        text.into(),
        Embedded::blob("note:2", [3]).into(),
        Content::other(json!({ "type": "chart", "points": [1, 2] })),
    ]
}

/// The running call.
#[data]
struct Shown {
    /// True if the call has an identifier.
    has_id: bool,
    /// True if the call has a deadline.
    has_deadline: bool,
    /// The setting `greeting`.
    greeting: Option<String>,
    /// All settings.
    settings: Value,
}

/// Reports, emits, and returns parts of every kind.
#[tool(title = "Show", read_only, destructive = false, idempotent, open_world = false)]
fn show(
    /// A number with a default.
    #[arg(default = 7, range = 1..=9)]
    number: u8,
    context: &Context,
) -> Result<Output, Error> {
    log::trace!("a");
    log::debug!("b");
    log::info!(number, "shows");
    log::warn!("d");
    log::error!("e");
    context.progress(1.0, Some(2.0), Some("half"));
    context.emit("early");
    let shown = Shown {
        has_id: !context.id().is_empty(),
        has_deadline: context.remaining().is_some(),
        greeting: config::get("greeting")?,
        settings: config::get_all()?,
    };
    Ok(Output::json(&shown)?
        .with_parts(parts())
        .with_meta(json!({ "of": "result" }))
        .with_extra(json!({ "number": number })))
}

/// Fails with every field of an error.
#[tool(read_only)]
fn fail(context: &Context) -> Result<Output, Error> {
    context.emit("early");
    Err(Error::new(ErrorKind::RateLimited, "too often")
        .with_code("often")
        .with_retry_after(Duration::from_millis(1_500))
        .with_parts(parts())
        .with_details(json!([1, null]))
        .with_meta(json!({ "of": "error" }))
        .with_extra(json!({ "more": 1 })))
}

const KINDS: [ErrorKind; 14] = [
    ErrorKind::InvalidInput,
    ErrorKind::NotFound,
    ErrorKind::Conflict,
    ErrorKind::Denied,
    ErrorKind::AuthRequired,
    ErrorKind::RateLimited,
    ErrorKind::LimitReached,
    ErrorKind::Unavailable,
    ErrorKind::Unsupported,
    ErrorKind::Timeout,
    ErrorKind::Cancelled,
    ErrorKind::TooLarge,
    ErrorKind::Internal,
    ErrorKind::Other,
];

/// Fails with one of the kinds of errors.
#[tool(read_only)]
fn fail_as(
    /// Position of the kind in the contract.
    #[arg(range = 0..=13)]
    kind: usize,
) -> Result<Output, Error> {
    Err(Error::new(KINDS[kind], "on purpose"))
}

/// A tool whose descriptor has every member.
#[allow(non_camel_case_types)]
struct list_all;

impl Tool for list_all {
    const NAME: &'static str = "list_all";

    fn descriptor() -> Descriptor {
        let schema = |schema: Value| schema.try_into().expect("a schema");
        let mut descriptor = Descriptor::new(
            Self::NAME,
            "Returns a list.",
            schema(json!({ "type": "object", "properties": {}, "additionalProperties": false })),
        );
        descriptor.title = Some("List".to_owned());
        descriptor.output_schema = Some(schema(json!({ "type": "array", "items": { "type": "integer" } })));
        descriptor.annotations = Annotations {
            read_only: Some(false),
            destructive: Some(true),
            idempotent: Some(false),
            open_world: Some(true),
            extra: Some(json!({ "of": "annotations" })),
        };
        descriptor.meta = Some(json!({ "of": "tool" }));
        descriptor.extra = Some(json!({ "icons": [] }));
        descriptor
    }

    fn invoke(_: &str, _: &Context<'_>) -> Result<Output, Error> {
        Ok(Output::default().with_structured_content(json!([1, 2])))
    }
}

/// Uses every function of a store.
#[tool]
fn keep() -> Result<Value, Error> {
    let store = kv::open("entries")?;
    let first = store.write("a", &kv::Write::new("1").if_absent())?;
    let taken = store.write("a", &kv::Write::new("2").if_absent());
    let second = store
        .write("a", &kv::Write::new("2").if_version(first).expires_after(Duration::from_secs(60)))?;
    store.set("b", "3")?;
    let texts = |entry: Option<kv::Entry>| entry.map(|entry| String::from_utf8(entry.value));
    let found = json!({
        "a": texts(store.get("a")?).transpose().ok(),
        "many": store.get_many(&["b", "c"])?.into_iter().map(|entry| entry.is_some()).collect::<Vec<_>>(),
        "keys": store.keys("").collect::<Result<Vec<_>, _>>()?,
        "page": store.page("", Some("a"), 1)?.keys,
        "taken": taken == Err(kv::KvError::Conflict),
        "grows": second > first,
        "stale": store.delete_if("a", first) == Err(kv::KvError::Conflict),
        "deleted": [store.delete_if("a", second)?, store.delete("b")?, store.delete("b")?],
        "unknown": kv::open("unknown").err() == Some(kv::KvError::NoSuchStore),
    });
    Ok(found)
}

/// Sends one request with a secret, and one that is not granted.
#[tool]
fn fetch(
    /// An address of the granted server.
    url: String,
) -> Result<Value, Error> {
    let response = http::Request::post(&url)
        .with_query("q", "a b")
        .with_header("x-golden", "1")
        .with_json(&json!({ "n": 1 }))?
        .with_timeout(Duration::from_secs(20))
        .with_max_response_bytes(10_000)
        .with_credential("token")
        .with_redirects(http::Redirects::Manual)
        .send()?
        .ok()?;
    let refused = http::Request::get("https://elsewhere.example/").send().err();
    Ok(json!({
        "status": response.status,
        "url": response.final_url == format!("{url}?q=a%20b"),
        "json": response.json::<Value>()?,
        "type": response.header("content-type"),
        "refused": refused.map(|error| (error.kind == http::HttpErrorKind::Denied, error.request_sent)),
        "exists": [secrets::exists("token"), secrets::exists("other")],
        "revealed": secrets::reveal("token")?.expose().len(),
        "unknown": secrets::reveal("other").err().and_then(|error| error.code().map(str::to_owned)),
    }))
}

/// Lists, describes and calls the tools of the slots.
#[tool]
fn delegate(
    /// Arguments of the calls.
    arguments: Value,
) -> Result<Output, Error> {
    let first = tools::list(None, 1)?;
    let rest = tools::list(first.next.as_deref(), 10)?;
    let names: Vec<_> = first.items.iter().chain(&rest.items).map(|item| &item.name).collect();
    let described = tools::describe("other")?;
    let call = || tools::Call::new("other", &arguments).map(|call| call.with_timeout(Duration::from_secs(9)));
    let failing = || tools::Call::new("failing", &json!({}));
    let batch = tools::call_batch([call()?, tools::Call::new("unknown", &arguments)?, failing()?]);
    let batch: Vec<_> = batch.into_iter().map(|answer| answer.map_err(|error| {
        (error.is_from_host(), error.code().map(str::to_owned))
    })).map(|answer| answer.map_or_else(|error| json!(error), |output| json!(output.content.len()))).collect();
    // The result of the other tool, as it is: every part crosses the contract twice.
    let output = tools::send(&call()?)?;
    let seen = json!({ "names": names, "described": described.name, "next": rest.next, "batch": batch });
    Ok(output.with_text(seen.to_string()))
}

plugin!(show, fail, fail_as, list_all, keep, fetch, delegate);
