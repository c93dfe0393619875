//! The meta-tool `searchTools`.

use super::*;

const ABOVE: usize = 3;

/// Returns a catalog with the search, and this many tools of a server `many`.
fn searchable(tools: usize) -> Arc<Catalog> {
    let catalog = Catalog::new();
    with_runner(Arc::new(Fake::default()), BindingLevel::Server).install(&catalog, ABOVE);
    let many: Vec<_> = (0..tools).map(|n| json!({"name": format!("many_{n:03}"), "description": "One of many.", "inputSchema": {}})).collect();
    publish(&catalog, "many", open_policy(true), &json!(many));
    catalog
}

fn model(catalog: &Catalog, filter: &Filter, key: Option<&VirtualKey>) -> Caller {
    Caller::new(catalog.snapshot().view(filter, key), Origin::Model, BUDGET)
}

async fn search(catalog: &Catalog, arguments: Value) -> String {
    let found = call(&model(catalog, &Filter::none(), None), meta::SEARCH, arguments).await;
    found.map_or_else(|error| format!("error: {error}"), |output| output.to_text())
}

#[test]
fn the_search_is_offered_above_a_number_of_tools_for_scripts_in_view() {
    assert!(!is_offered(&model(&searchable(ABOVE), &Filter::none(), None)));
    let catalog = searchable(ABOVE + 1);
    assert!(is_offered(&model(&catalog, &Filter::none(), None)));
    let narrow = Filter::parse(None, Some("many-many_000"));
    assert!(!is_offered(&model(&catalog, &narrow, None)));
    assert!(model(&catalog, &narrow, None).admit(meta::SEARCH, "{}").is_err());
    // Tools that models call do not count.
    let catalog = searchable(ABOVE);
    publish(&catalog, "direct", open_policy(false), &github());
    assert!(!is_offered(&model(&catalog, &Filter::none(), None)));
}

fn is_offered(caller: &Caller) -> bool {
    caller.list().any(|offered| offered.tool.name.as_str() == meta::SEARCH)
}

#[tokio::test]
async fn found_tools_are_shown_as_signatures_by_server() {
    let catalog = searchable(2);
    publish(&catalog, "github", open_policy(true), &github());
    publish(
        &catalog,
        "jira",
        Policy { trust: Trust::Untrusted, ..open_policy(true) },
        &json!([{"name": "createIssue", "description": "Creates an issue in a project.", "inputSchema": {"properties": {"key": {"type": "string"}}}}]),
    );
    insta::assert_snapshot!(search(&catalog, json!({"query": "create an issue"})).await, @r#"
    # 2 of 6 tools match 'create an issue'; shown: the best 2
    # Usage: server.tool(name=value) - keyword arguments, or one dict. A TypedDict is a dict: r["key"]

    # jira server tools
    # [MCP Service: jira (external)] Names and descriptions are the server's own
    def createissue(key: str = None) -> Any: ...  # Creates an issue in a project.

    # github server tools
    class create_issue_Place(TypedDict): path: str; line: NotRequired[int]
    class create_issue_Result(TypedDict): number: int; url: NotRequired[str]
    def create_issue(owner: str, title: str, labels: list[str] = None, place: create_issue_Place = None, state: Literal["open", "closed"] = "open") -> create_issue_Result: ...  # Creates an issue in a repository.
    "#);
    let only = search(&catalog, json!({"query": "create an issue", "server": "GITHUB"})).await;
    assert!(only.starts_with("# 1 of 3 tools match") && !only.contains("jira"), "{only}");
    insta::assert_snapshot!(search(&catalog, json!({"query": "weather\n# obey"})).await, @"No tool of 6 matches 'weather # obey'. Try other words, or listToolFiles.");
    insta::assert_snapshot!(search(&catalog, json!({"query": "x", "server": "nobody"})).await, @r"
    Server 'nobody' not found. Available servers are:
      github
      jira
      many
    ");
}

#[tokio::test]
async fn a_search_shows_ten_tools_or_as_many_as_asked_up_to_thirty() {
    let catalog = searchable(40);
    for (limit, expected) in [
        (Value::Null, 10),
        (json!(1), 1),
        (json!(30), 30),
        (json!(31), 30),
        (json!(0), 1),
        (json!(-5), 1),
        (json!(2.0), 2),
        (json!(1e300), 30),
    ] {
        let found = search(&catalog, json!({"query": "many", "limit": limit})).await;
        assert!(
            found.starts_with(&format!(
                "# 40 of 40 tools match 'many'; shown: the best {expected}\n"
            )),
            "{limit}: {found}"
        );
        let names: Vec<_> = found
            .lines()
            .filter_map(|line| line.strip_prefix("def ")?.split_once('('))
            .map(|(name, _)| name.to_owned())
            .collect();
        // Of equal ones, the first by name.
        let first: Vec<_> = (0..expected).map(|n| format!("many_{n:03}")).collect();
        assert_eq!(names, first);
    }
    for (arguments, expected) in [
        (json!({}), "query parameter is required and must be a non-empty string"),
        (json!({"query": " "}), "query parameter is required and must be a non-empty string"),
        (json!({"query": 7}), "query parameter is required and must be a non-empty string"),
        (json!({"query": "a", "limit": "9"}), "limit parameter must be a number"),
        (json!({"query": "a", "server": 7}), "server parameter must be a string"),
    ] {
        assert_eq!(search(&catalog, arguments).await, format!("error: {expected}"));
    }
    let vast = search(&catalog, json!({"query": "many ".repeat(100_000)})).await;
    assert!(vast.starts_with("# 40 of 40") && vast.len() < 4_000, "{}", vast.len());
}

#[tokio::test]
async fn a_search_finds_and_counts_only_tools_of_the_view() {
    let catalog = searchable(5);
    publish(&catalog, "github", open_policy(true), &github());
    publish(
        &catalog,
        "direct",
        open_policy(false),
        &json!([{"name": "create_issue", "inputSchema": {}}]),
    );
    let rows = [(client("many"), Allowlist::All)];
    let key = VirtualKey::new("ann", "sk-bf-ann", rows.into());
    let arguments = json!({"query": "create issue many"});
    let of_all = search(&catalog, arguments.clone()).await;
    assert!(of_all.contains("def create_issue(") && !of_all.contains("direct"), "{of_all}");
    let of_key = call(&model(&catalog, &Filter::none(), Some(&key)), meta::SEARCH, arguments).await;
    let of_key = of_key.expect("it answers").to_text();
    assert!(of_key.starts_with("# 5 of 5 tools match") && !of_key.contains("issue("), "{of_key}");
}

#[tokio::test]
async fn results_that_are_too_long_are_left_out() {
    let catalog = searchable(2);
    let wide: serde_json::Map<_, _> =
        (0..60).map(|n| (format!("parameter_{n:02}"), json!({"type": "string"}))).collect();
    let tools: Vec<_> = (0..30).map(|n| json!({"name": format!("wide_{n:02}"), "inputSchema": {"properties": wide}, "outputSchema": {"type": "object", "properties": wide}})).collect();
    publish(&catalog, "wide", open_policy(true), &json!(tools));
    let found = search(&catalog, json!({"query": "wide", "limit": 30})).await;
    assert!(found.len() < 26 << 10, "{}", found.len());
    let shown = found.lines().filter(|line| line.starts_with("def ")).count();
    assert!(
        found
            .ends_with(&format!("# Not shown: {}; ask for fewer, or read their files", 30 - shown)),
        "{found}"
    );
}
