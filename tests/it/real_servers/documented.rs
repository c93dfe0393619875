//! Servers of `docs/servers.md`: the elements that stand there, with the programs that `make peers` installs.

use std::{fs, path::Path};

use airlock_tests::{Client, Setup, peers, root};
use serde_json::{Value, json};

use super::page::Page;

/// A page of results, as `SearXNG` returns it.
const RESULTS: &str = r#"{"query": "milk", "number_of_results": 1, "results": [{"title": "Milk", "content": "Where to buy it.",
    "url": "https://example.com/milk", "engine": "x", "score": 1.0, "category": "general"}], "answers": [], "infoboxes": [],
    "suggestions": [], "corrections": [], "unresponsive_engines": []}"#;

/// Returns the blocks of the page in a language.
fn blocks(language: &str) -> Vec<String> {
    let page = fs::read_to_string(root().join("docs/servers.md")).expect("UTF-8");
    let fence = format!("```{language}\n");
    let blocks = page.split(fence.as_str()).skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(str::to_owned).collect()
}

/// Returns a client of the page with another program.
fn documented(name: &str, program: &Path, arguments: &[&str]) -> Client {
    let elements = blocks("json").into_iter().map(|block| serde_json::from_str(&block));
    let mut elements = elements.map(|element| element.expect("it is JSON"));
    let element = elements.find(|element: &Value| element["name"] == name);
    Client::from_element(element.unwrap_or_else(|| panic!("{name} is not on the page")))
        .set("/stdio_config/command", program.display().to_string())
        .set("/stdio_config/args", arguments)
}

/// Writes a database with three orders.
fn shop(file: &Path) {
    let database = rusqlite::Connection::open(file).expect("a database");
    let made = database.execute_batch(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, total REAL);
        INSERT INTO orders VALUES (1, 'ann', 10.5), (2, 'bob', 3.0), (3, 'ann', 7.0);",
    );
    made.expect("it is written");
}

fn orders(file: &Path) -> i64 {
    let database = rusqlite::Connection::open(file).expect("a database");
    let counted = database.query_row("SELECT count(*) FROM orders", [], |row| row.get(0));
    counted.expect("it is read")
}

#[tokio::test]
async fn dbhub_runs_queries_of_the_operator_with_parameters_and_refuses_writes() {
    let setup = Setup::new();
    let database = setup.directory().join("shop.db");
    shop(&database);
    let settings = blocks("toml").concat();
    assert!(settings.contains("sqlite:///srv/shop.db"), "{settings}");
    let place = format!("sqlite://{}", database.display());
    let file = setup.file("dbhub.toml", settings.replace("sqlite:///srv/shop.db", &place));
    let server = peers::installed("servers/node_modules/@bytebase/dbhub/dist/index.js");
    let arguments =
        [server.to_str(), Some("--config"), file.to_str()].map(|path| path.expect("UTF-8"));
    let client = documented("shop", &peers::recent_node(), &arguments);
    let gateway = setup.client(client).serve_connected().await;
    let of_ann = gateway.execute("shop-orders_of", &json!({"customer": "ann"})).await.content();
    assert!(of_ann.contains("10.5") && of_ann.contains("\"count\": 2"), "{of_ann}");
    let injected = json!({"customer": "ann' OR 1=1 --"});
    let injected = gateway.execute("shop-orders_of", &injected).await.content();
    assert!(!injected.contains("10.5"), "{injected}");
    for sql in ["DELETE FROM orders", "SELECT 1; DROP TABLE orders"] {
        let refused = gateway.execute("shop-execute_sql", &json!({"sql": sql})).await.ok();
        assert_eq!(refused["is_error"], true, "{sql}: {refused:#}");
    }
    assert_eq!(orders(&database), 3);
}

#[tokio::test]
async fn the_sqlite_server_is_read_only_by_the_list_of_its_tools() {
    let setup = Setup::new();
    let database = setup.directory().join("notebook.db");
    shop(&database);
    let file = database.display().to_string();
    let server = peers::python_server("sqlite");
    let client = documented("notebook", &server, &["--db-path", &file]);
    let gateway = setup.client(client).serve_connected().await;
    let read = json!({"query": "SELECT customer FROM orders WHERE id = 2"});
    assert!(gateway.execute("notebook-read_query", &read).await.content().contains("bob"));
    let delete = json!({"query": "DELETE FROM orders"});
    // The server returns its refusals as text, without `isError`.
    let refused = gateway.execute("notebook-read_query", &delete).await.content();
    assert!(refused.contains("Only SELECT queries are allowed"), "{refused}");
    assert_eq!(gateway.execute("notebook-write_query", &delete).await.code(), "not_found");
    assert_eq!(orders(&database), 3);
}

#[tokio::test]
async fn searxng_is_searched_and_its_reader_of_urls_is_left_out() {
    let searxng = Page::start("application/json", RESULTS).await;
    let server = peers::installed("servers/node_modules/.bin/mcp-searxng");
    let server = server.to_str().expect("UTF-8");
    let variable = format!("SEARXNG_URL={}", searxng.url.trim_end_matches('/'));
    let client = documented("search", &peers::recent_node(), &[server]);
    let gateway = Setup::new().client(client.envs(&[&variable])).serve_connected().await;
    let found = gateway.execute("search-searxng_web_search", &json!({"query": "milk"})).await;
    assert!(found.clone().content().contains("https://example.com/milk"), "{}", found.text);
    let read = gateway.execute("search-web_url_read", &json!({"url": searxng.url})).await;
    assert_eq!(read.code(), "not_found");
}
