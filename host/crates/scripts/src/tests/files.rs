//! The meta-tools `listToolFiles` and `readToolFile`.

use super::*;

#[tokio::test]
async fn files_are_listed_by_server_or_by_tool() {
    insta::assert_snapshot!(text(&catalog(), BindingLevel::Server, "listToolFiles", json!({})).await, @r#"
    # Workflow: listToolFiles -> readToolFile -> (optional) getToolDocs -> executeToolCode
    # Read a file before you call what is in it: it has the exact names and parameters

    servers/
      clock.pyi
      github.pyi
    "#);
    insta::assert_snapshot!(text(&catalog(), BindingLevel::Tool, "listToolFiles", json!({})).await, @r#"
    # Workflow: listToolFiles -> readToolFile -> (optional) getToolDocs -> executeToolCode
    # Read a file before you call what is in it: it has the exact names and parameters
    # One file a tool; its name is the tool's name in code. To read a server's tools at once: servers/<server>.pyi

    servers/
      clock/
        now.pyi
      github/
        create_issue.pyi
        getuser.pyi
        send.pyi
    "#);
}

/// Returns the text of a meta-tool if the files of `github` are by tool and those of `clock` by server.
async fn mixed(tool: &str, arguments: Value) -> String {
    let layout = Layout::from(BindingLevel::Server)
        .with(client("github"), BindingLevel::Tool)
        .with(client("clock"), BindingLevel::Server);
    let catalog = catalog();
    let runner = Arc::new(Fake::default());
    with_runner(runner, layout).install(&catalog, ABOVE);
    let view = catalog.snapshot().view(&Filter::none(), None);
    let called = call(&Caller::new(view, Origin::Model, BUDGET), tool, arguments).await;
    called.expect("it answers").to_text()
}

#[tokio::test]
async fn each_client_has_its_own_layout() {
    insta::assert_snapshot!(mixed("listToolFiles", json!({})).await, @r"
    # Workflow: listToolFiles -> readToolFile -> (optional) getToolDocs -> executeToolCode
    # Read a file before you call what is in it: it has the exact names and parameters
    # One file a tool; its name is the tool's name in code. To read a server's tools at once: servers/<server>.pyi

    servers/
      clock.pyi
      github/
        create_issue.pyi
        getuser.pyi
        send.pyi
    ");
    insta::assert_snapshot!(mixed("readToolFile", json!({"fileName": "x"})).await, @r"
    No server found matching 'x'. Available virtual files are:
      servers/clock.pyi
      servers/github/create_issue.pyi
      servers/github/getuser.pyi
      servers/github/send.pyi
    ");
    // Both depths of path work in every layout.
    for (path, title) in [
        ("servers/clock/now.pyi", "# clock server tools"),
        ("servers/clock.pyi", "# clock server tools"),
        ("servers/github.pyi", "# github server tools"),
        ("servers/github/send.pyi", "# github.send tool"),
    ] {
        let file = mixed("readToolFile", json!({"fileName": path})).await;
        assert_eq!(file.lines().nth(1), Some(title));
    }
    let server = BindingLevel::Server;
    let tool = BindingLevel::Tool;
    assert_eq!(listing(tool, tool), meta_tools(&tool.into())[0].description);
    assert!(
        listing(server, tool)
            .contains("servers/<server>.pyi, or one file a tool, servers/<server>/<tool>.pyi")
    );
}

/// Describes `listToolFiles` for two clients with layouts of their own.
fn listing(first: BindingLevel, second: BindingLevel) -> String {
    let layout = Layout::from(BindingLevel::Server).with(client("a"), first);
    meta_tools(&layout.with(client("b"), second))[0].description.clone()
}

#[tokio::test]
async fn texts_are_the_same_in_every_process_whatever_the_order_of_the_tools() {
    for (tool, arguments) in [
        (meta::LIST, json!({})),
        (meta::READ, json!({"fileName": "a"})),
        (meta::DOCS, json!({"server": "b", "tool": "create_issue"})),
    ] {
        let mut texts = BTreeSet::new();
        for reverse in [false, true, false] {
            texts.insert(
                text(&published(reverse), BindingLevel::Tool, tool, arguments.clone()).await,
            );
        }
        assert_eq!(texts.len(), 1, "{texts:#?}");
    }
}

fn published(reverse: bool) -> Arc<Catalog> {
    let catalog = Catalog::new();
    let mut tools = github();
    if reverse {
        tools.as_array_mut().expect("a list").reverse();
    }
    for name in if reverse { ["b", "a"] } else { ["a", "b"] } {
        publish(&catalog, name, open_policy(true), &tools);
    }
    catalog
}

#[tokio::test]
async fn docs_have_limits_of_parameters_effects_and_the_approval() {
    let catalog = Catalog::new();
    let policy = Policy {
        auto_execute: Allowlist::parse(&["list"]).expect("a good list"),
        ..open_policy(true)
    };
    let list = json!({
        "name": "list", "description": "Lists.", "annotations": {"readOnlyHint": true, "openWorldHint": true},
        "inputSchema": {"type": "object", "required": ["owner"], "properties": {
            "owner": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 39, "examples": ["octocat"]},
            "per_page": {"type": "integer", "minimum": 1, "maximum": 100, "default": 30},
            "since": {"type": "string", "format": "date-time", "description": "Only newer ones"},
        }},
        "outputSchema": {"type": "array", "items": {"$ref": "#/$defs/Issue"}, "$defs": {"Issue":
            {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}, "parent": {"$ref": "#/$defs/Issue"}}}}},
    });
    let delete = json!({"name": "delete", "annotations": {"destructiveHint": true, "idempotentHint": true}, "inputSchema": {}});
    publish(&catalog, "x", policy, &json!([list, delete]));
    insta::assert_snapshot!(docs(&catalog, "list").await, @r#"
    # x.list
    # Usage: x.list(owner="octocat")
    # The call waits for the result: no async, no await
    # If it fails the script ends; attempt(x.list, {...}) returns .ok, .value and .error instead
    # Approval: not needed
    # Effect, as the server declares it: read-only; reaches outside systems

    class list_ResultIssue(TypedDict): id: int; parent: NotRequired[list_ResultIssue]
    def list(owner: str, per_page: int = 30, since: str = None) -> list[list_ResultIssue]:
        """
        Lists.

        Args:
            owner (str): owner parameter (required, maximum length 39, pattern "^[a-z]+$", e.g. "octocat")
            per_page (int): per_page parameter (optional, default 30, minimum 1, maximum 100)
            since (str): Only newer ones (optional, format date-time)

        Returns:
            list[dict]
                id (int): id field (required)
                parent (dict): parent field (optional)
                    id (int): id field (required)
                    parent (dict): parent field (optional)
                        id (int): id field (required)
                        parent (dict): parent field (optional)

        Example:
            result = x.list(owner="octocat")
        """
        ...
    "#);
    let delete = docs(&catalog, "delete").await;
    let banner: Vec<_> = delete
        .lines()
        .filter(|line| line.starts_with("# Approval") || line.starts_with("# Effect"))
        .collect();
    insta::assert_snapshot!(banner.join("\n"), @r"
    # Approval: needed; a person approves each call before it runs
    # Effect, as the server declares it: destructive: it may delete or overwrite; a second call with the same arguments changes nothing more
    ");
}

async fn docs(catalog: &Catalog, tool: &str) -> String {
    text(catalog, BindingLevel::Server, meta::DOCS, json!({"server": "x", "tool": tool})).await
}

#[tokio::test]
async fn stubs_follow_the_published_tools_of_code_mode() {
    let catalog = catalog();
    let code_mode = with_runner(Arc::new(Fake::default()), BindingLevel::Server);
    let check = async {
        stubs_become(&code_mode, 4).await;
        publish(&catalog, "github", open_policy(true), &json!([]));
        stubs_become(&code_mode, 1).await;
    };
    let soon = tokio::time::timeout(Duration::from_secs(10), check);
    tokio::select! {
        () = code_mode.follow(&catalog) => panic!("the catalog still exists"),
        done = soon => done.expect("it happens soon"),
    }
}

async fn stubs_become(code_mode: &CodeMode, count: usize) {
    while code_mode.stubs.count() != count {
        tokio::task::yield_now().await;
    }
}

#[test]
fn an_empty_list_names_the_reason() {
    insta::assert_snapshot!(stubs::nothing_to_list(false), @"No servers are currently connected. There is nothing that a script could call.");
    insta::assert_snapshot!(stubs::nothing_to_list(true), @"Servers are connected but none are configured for code mode. Call their tools directly.");
}

#[tokio::test]
async fn a_file_has_a_line_for_each_tool() {
    let file = text(
        &catalog(),
        BindingLevel::Server,
        "readToolFile",
        json!({"fileName": "servers/github.pyi"}),
    )
    .await;
    insta::assert_snapshot!(file, @r#"
    # Total lines: 13 (this is the complete file, no need to paginate)
    # github server tools
    # Usage: github.tool_name(name=value) - keyword arguments, or one dict
    # The names after def are exact; call nothing that you have not read here
    # A call returns what is declared (a TypedDict is a dict: r["key"]); for Any: the result as data if it is JSON, otherwise a str
    # Descriptions are shortened; in full: getToolDocs(server="github", tool="tool_name")

    class create_issue_Place(TypedDict): path: str; line: NotRequired[int]
    class create_issue_Result(TypedDict): number: int; url: NotRequired[str]
    def create_issue(owner: str, title: str, labels: list[str] = None, place: create_issue_Place = None, state: Literal["open", "closed"] = "open") -> create_issue_Result: ...  # Creates an issue in a repository.
    def getuser() -> Any: ...
    send_Arguments = TypedDict("send_Arguments", {"from": str, "reply-to": NotRequired[str | None]})
    def send(arguments: send_Arguments) -> Any: ...  # Sends.
    "#);
    let file = text(
        &catalog(),
        BindingLevel::Tool,
        "readToolFile",
        json!({"fileName": "servers/github/getuser.pyi"}),
    )
    .await;
    insta::assert_snapshot!(file, @r#"
    # Total lines: 8 (this is the complete file, no need to paginate)
    # github.getuser tool
    # Usage: github.getuser(name=value) - keyword arguments, or one dict
    # The names after def are exact; call nothing that you have not read here
    # A call returns what is declared (a TypedDict is a dict: r["key"]); for Any: the result as data if it is JSON, otherwise a str
    # Descriptions are shortened; in full: getToolDocs(server="github", tool="getuser")

    def getuser() -> Any: ...
    "#);
}

#[tokio::test]
async fn a_file_is_found_under_any_spelling_at_either_level() {
    for level in [BindingLevel::Server, BindingLevel::Tool] {
        let file =
            text(&catalog(), level, "readToolFile", json!({"fileName": "servers/github.pyi"}))
                .await;
        for name in ["github", "GitHub.pyi", "servers/GITHUB"] {
            assert_eq!(
                text(&catalog(), level, "readToolFile", json!({"fileName": name})).await,
                file
            );
        }
        let file = text(
            &catalog(),
            level,
            "readToolFile",
            json!({"fileName": "servers/github/create_issue.pyi"}),
        )
        .await;
        for name in ["github/create-issue", "github/Create_Issue.pyi", "github/github-create-issue"]
        {
            assert_eq!(
                text(&catalog(), level, "readToolFile", json!({"fileName": name})).await,
                file
            );
        }
    }
}

#[tokio::test]
async fn unknown_names_are_answered_with_the_existing_ones() {
    insta::assert_snapshot!(read(BindingLevel::Server, "servers/direct.pyi").await, @r#"
    No server found matching 'servers/direct.pyi'. Available virtual files are:
      servers/clock.pyi
      servers/github.pyi
    "#);
    insta::assert_snapshot!(read(BindingLevel::Tool, "a/b/c\n# obey").await, @r#"
    No server found matching 'a/b/c # obey'. Available virtual files are:
      servers/clock/now.pyi
      servers/github/create_issue.pyi
      servers/github/getuser.pyi
      servers/github/send.pyi
    "#);
    insta::assert_snapshot!(read(BindingLevel::Tool, "github/nothing").await, @r#"
    Tool 'nothing' not found in server 'github'. Available tools in this server are:
      create_issue
      getuser
      send
    "#);
    for name in ["", "..", "servers/../github", "github/..", "servers/servers/github"] {
        let answer = read(BindingLevel::Server, name).await;
        assert!(
            answer.contains("not found") || answer.starts_with("No server found"),
            "{name}: {answer}"
        );
    }
}

async fn read(level: BindingLevel, name: &str) -> String {
    text(&catalog(), level, "readToolFile", json!({"fileName": name})).await
}

#[tokio::test]
async fn two_servers_that_differ_only_in_case_must_be_named_exactly() {
    let catalog = catalog();
    publish(&catalog, "GitHub", open_policy(true), &json!([{"name": "a", "inputSchema": {}}]));
    insta::assert_snapshot!(text(&catalog, BindingLevel::Server, "readToolFile", json!({"fileName": "GITHUB"})).await, @r#"
    More than one server matches 'GITHUB'; spell it exactly:
      GitHub
      github
    "#);
    let exact =
        text(&catalog, BindingLevel::Server, "readToolFile", json!({"fileName": "GitHub"})).await;
    assert!(exact.contains("# GitHub server tools"), "{exact}");
}

#[tokio::test]
async fn lines_are_counted_with_the_first_and_a_range_is_clamped() {
    let whole = read_lines(&Value::Null, &Value::Null).await;
    assert!(whole.starts_with("# Total lines: 8 (") && whole.lines().count() == 8, "{whole}");
    let lines: Vec<_> = whole.lines().collect();
    for (start, end, expected) in [
        (json!(1), json!(8), &lines[..]),
        (json!(-3), json!(99), &lines[..]),
        (json!(2), json!(3.0), &lines[1..3]),
        (json!(99), Value::Null, &lines[7..]),
        (json!(3), json!(1), &lines[2..3]),
        (Value::Null, json!(0), &lines[..1]),
        (json!(1e300), json!(-1e300), &lines[7..]),
    ] {
        assert_eq!(read_lines(&start, &end).await, expected.join("\n"), "{start} to {end}");
    }
    let wrong = read_lines(&json!("1"), &Value::Null).await;
    assert_eq!(wrong, "error: startLine parameter must be a number");
}

async fn read_lines(start: &Value, end: &Value) -> String {
    let arguments = json!({"fileName": "clock", "startLine": start, "endLine": end});
    text(&catalog(), BindingLevel::Server, "readToolFile", arguments).await
}

#[tokio::test]
async fn a_file_that_is_too_long_names_the_next_line_to_read() {
    let tools: Vec<_> =
        (0..2_000).map(|n| json!({"name": format!("tool_{n:04}"), "description": "x".repeat(80), "inputSchema": {}})).collect();
    let catalog = Catalog::new();
    publish(&catalog, "many", open_policy(true), &json!(tools));
    let first =
        text(&catalog, BindingLevel::Server, "readToolFile", json!({"fileName": "many"})).await;
    assert!(first.len() < 140 << 10);
    assert!(first.starts_with("# Total lines: 2007 (too long to be shown at once)\n"));
    let (first, note) = first.rsplit_once('\n').expect("it has lines");
    let shown = first.lines().count();
    assert_eq!(
        note,
        format!(
            "# Not shown: lines {next} to 2007; read on with startLine={next}",
            next = shown + 1
        )
    );
    let rest = json!({"fileName": "many", "startLine": shown + 1});
    let rest = text(&catalog, BindingLevel::Server, "readToolFile", rest).await;
    assert_eq!(shown + rest.lines().count(), 2_007);
}

#[tokio::test]
async fn a_listing_that_is_too_long_states_the_number_of_omitted_lines() {
    let tools: Vec<_> = (0..2_000)
        .map(|n| json!({"name": format!("{}{n:04}", "a".repeat(40)), "inputSchema": {}}))
        .collect();
    let catalog = Catalog::new();
    publish(&catalog, "many", open_policy(true), &json!(tools));
    let list = text(&catalog, BindingLevel::Tool, "listToolFiles", json!({})).await;
    assert!((60 << 10..65 << 10).contains(&list.len()), "{} bytes", list.len());
    let listed = list.lines().filter(|line| line.starts_with("    aaa")).count();
    assert!(list.ends_with(&format!("\n... and {} more", 2_000 - listed)), "{listed}");
}

#[tokio::test]
async fn the_original_name_of_a_tool_is_cut_in_a_file() {
    let catalog = Catalog::new();
    // Only a name that another tool has too is shown beside the signature.
    let tools = [127, 128].map(|n| json!({"name": "ä".repeat(n), "inputSchema": {}}));
    publish(&catalog, "long", open_policy(true), &json!(tools));
    let file =
        text(&catalog, BindingLevel::Server, "readToolFile", json!({"fileName": "long"})).await;
    let (_, comment) = file.rsplit_once("# ").expect("it has a comment");
    assert_eq!(comment, format!("[{}…]", "ä".repeat(62)));
}
