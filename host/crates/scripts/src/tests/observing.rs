//! Results of tools that declare none.

use super::*;

/// Returns a JSON object for every call: the arguments, and the tool's name.
struct Reply;
impl Provider for Reply {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            let mut reply = call.arguments().to_object();
            if reply.contains_key("fail") {
                return Err(CallError::from(ToolError::new(ErrorKind::Internal, "no")));
            }
            reply.insert("tool".into(), call.tool().original.clone().into());
            let reply = Value::Object(reply);
            let text = ToolOutput::text(reply.to_string());
            let is_typed = call.tool().output_schema.is_some();
            Ok(ToolOutput { structured: Some(reply).filter(|_| is_typed), ..text })
        })
    }
}

struct Observing {
    catalog: Arc<Catalog>,
    code_mode: Arc<CodeMode>,
}

impl Observing {
    fn new(code_mode_client: bool) -> Self {
        let catalog = Catalog::new();
        let code_mode = with_runner(Arc::new(Fake::default()), BindingLevel::Server);
        code_mode.install(&catalog, ABOVE);
        let tools = json!([
            {"name": "plain", "description": "Reads.", "inputSchema": {}},
            {"name": "typed", "inputSchema": {}, "outputSchema": {"type": "object"}},
        ]);
        for (name, is_scripted) in [("files", code_mode_client), ("other", true)] {
            catalog.add_client(
                &client(name),
                airlock_catalog::SourceKind::Internal,
                open_policy(is_scripted),
            );
            let tools = serde_json::from_value(tools.clone()).expect("definitions");
            assert!(catalog.blocking_publish(&client(name), tools, Arc::new(Reply)).is_empty());
        }
        Self { catalog, code_mode }
    }

    fn caller(&self, key: Option<&str>) -> Caller {
        let rows = ["files", "other"].map(|name| (client(name), Allowlist::All));
        let key = key.map(|key| VirtualKey::new(key, key, rows.into()));
        let view = self.catalog.snapshot().view(&Filter::none(), key.as_ref());
        Caller::new(view, Origin::Caller, BUDGET)
    }

    async fn call(&self, key: Option<&str>, tool: &str, arguments: Value) {
        // The result of a failed call is not of interest.
        let _ = call(&self.caller(key), tool, arguments).await;
        self.code_mode.observations.read_waiting();
    }

    async fn read(&self, key: Option<&str>, tool: &str) -> String {
        let file = json!({"fileName": format!("files/{tool}")});
        let text = call(&self.caller(key), meta::READ, file).await.expect("it answers").to_text();
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[tokio::test]
async fn the_shape_of_results_is_shown_where_none_is_declared() {
    let gateway = Observing::new(true);
    let unknown = gateway.read(None, "plain").await;
    assert_eq!(unknown, "def plain() -> Any: ...  # Reads.");
    gateway.call(None, "files-plain", json!({"fail": 1})).await;
    assert_eq!(gateway.read(None, "plain").await, unknown, "a failure has no shape");
    gateway.call(None, "files-plain", json!({"secret": [1], "name": "ann"})).await;
    insta::assert_snapshot!(gateway.read(None, "plain").await, @r"
    class plain_Result(TypedDict): name: str; secret: list[int]; tool: str
    def plain() -> plain_Result: ...  # Reads. (result observed in 1 result)
    ");
    let docs = json!({"server": "files", "tool": "plain"});
    let docs = call(&gateway.caller(None), meta::DOCS, docs).await.expect("it answers").to_text();
    let (_, returns) = docs.split_once("    Returns:\n").expect("a part");
    insta::assert_snapshot!(returns.split_once("\n\n").expect("a part").0, @r"
            Not declared. As observed in 1 result:
            dict
                name (str): name field (required)
                secret (list[int]): secret field (required)
                tool (str): tool field (required)
    ");
    gateway.call(None, "files-typed", json!({"secret": 1})).await;
    assert_eq!(gateway.read(None, "typed").await, "def typed() -> dict: ...");
}

#[tokio::test]
async fn a_tenant_sees_only_shapes_of_its_own_results() {
    let gateway = Observing::new(true);
    gateway.call(Some("sk-bf-ann"), "files-plain", json!({"secret": 1})).await;
    let of_ann = gateway.read(Some("sk-bf-ann"), "plain").await;
    assert!(of_ann.contains("secret"), "{of_ann}");
    for other in [Some("sk-bf-bob"), None] {
        let file = gateway.read(other, "plain").await;
        assert_eq!(file, "def plain() -> Any: ...  # Reads.", "{other:?}");
    }
    let same_name = json!({"fileName": "other/plain"});
    let other = call(&gateway.caller(Some("sk-bf-ann")), meta::READ, same_name).await;
    assert!(!other.expect("it answers").to_text().contains("secret"));
}

#[tokio::test]
async fn results_of_clients_outside_of_code_mode_are_not_observed() {
    let gateway = Observing::new(false);
    gateway.call(None, "files-plain", json!({"secret": 1})).await;
    let caller = gateway.caller(None);
    let found = caller.view().find(&Origin::Caller, "files-plain");
    let tool = found.map(|found| found.tool.clone());
    let shown = gateway.code_mode.observations.shown(&Tenant::ANONYMOUS, &tool.expect("it exists"));
    assert!(shown.is_none());
}
