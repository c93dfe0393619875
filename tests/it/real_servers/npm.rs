//! Reference servers from npm, which speak the revisions up to 2025-11-25.

use std::{fs, path::Path};

use airlock_tests::peers;
use serde_json::json;

use super::server::Server;

/// Calls of `server-everything` whose results do not depend on the client.
pub(super) fn everything(server: Server) -> Server {
    server
        .call("echo", json!({"message": "hello"}))
        .call("get-sum", json!({"a": 2, "b": 3}))
        .call("get-structured-content", json!({"location": "Chicago"}))
        .call("get-tiny-image", json!({}))
        .call("get-resource-links", json!({"count": 2}))
        .call("get-annotated-message", json!({"messageType": "error", "includeImage": true}))
        // The arguments fit the schema, and the server refuses them.
        .call("get-resource-reference", json!({"resourceType": "Text", "resourceId": 0}))
}

#[tokio::test]
async fn everything_over_stdio_is_the_same_through_the_gateway() {
    let server = Server::stdio(peers::everything_program(), ["stdio"]).path();
    let seen = everything(server).compared(|| ()).await;
    assert_eq!(seen.names().len(), 13, "{:?}", seen.names());
    assert_eq!(seen.text(0), "Echo: hello");
    assert!(seen.results[2]["structuredContent"].is_object(), "{:#}", seen.results[2]);
    assert_eq!(seen.results[6]["isError"], true, "{:#}", seen.results[6]);
}

#[tokio::test]
async fn everything_over_streamable_http_is_the_same_through_the_gateway() {
    let listening = peers::everything_over("streamableHttp").await;
    let server = Server::http(format!("{}/mcp", listening.address()));
    let seen = everything(server).compared(|| ()).await;
    assert_eq!(seen.names().len(), 13, "{:?}", seen.names());
    assert_eq!(seen.text(1), "The sum of 2 and 3 is 5.");
}

/// Writes a directory with one file, and removes all else from it.
pub(super) fn one_file(directory: &Path) {
    // It is missing the first time.
    let _ = fs::remove_dir_all(directory);
    fs::create_dir(directory).expect("its parent is a temporary directory");
    fs::write(directory.join("note.txt"), "remember the milk\n").expect("it was created");
}

#[tokio::test]
async fn the_filesystem_server_is_the_same_through_the_gateway() {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let directory = temporary.path().canonicalize().expect("it exists").join("files");
    one_file(&directory);
    let file = |name: &str| directory.join(name).display().to_string();
    let server = Server::stdio(peers::node_server("filesystem"), [file("")])
        .path()
        .call("read_text_file", json!({"path": file("note.txt")}))
        .call("write_file", json!({"path": file("new.txt"), "content": "ä\nb"}))
        .call("read_multiple_files", json!({"paths": [file("new.txt"), file("none.txt")]}))
        .call("list_directory", json!({"path": file("")}))
        .call("directory_tree", json!({"path": file("")}))
        .call("read_text_file", json!({"path": "/etc/passwd"}));
    let seen = server.compared(|| one_file(&directory)).await;
    assert_eq!(seen.names().len(), 14, "{:?}", seen.names());
    assert_eq!(seen.text(0), "remember the milk\n");
    assert_eq!(seen.results[5]["isError"], true, "{:#}", seen.results[5]);
}

#[tokio::test]
async fn the_memory_server_is_the_same_through_the_gateway() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let graph = directory.path().join("graph.jsonl");
    let milk = json!({"name": "milk", "entityType": "thing", "observations": ["it is white"]});
    let server = Server::stdio(peers::node_server("memory"), Vec::<String>::new())
        .path()
        .env("MEMORY_FILE_PATH", graph.display().to_string())
        .call("create_entities", json!({"entities": [milk]}))
        .call("search_nodes", json!({"query": "white"}))
        .call("read_graph", json!({}));
    // It is missing the first time.
    let seen = server.compared(|| drop(fs::remove_file(&graph))).await;
    assert_eq!(seen.names().len(), 9, "{:?}", seen.names());
    assert!(seen.text(1).contains("it is white"), "{:#}", seen.results[1]);
}

#[tokio::test]
async fn the_sequential_thinking_server_is_the_same_through_the_gateway() {
    let thought = |number: u32| json!({"thought": "so?", "nextThoughtNeeded": number < 2, "thoughtNumber": number, "totalThoughts": 2});
    let server = Server::stdio(peers::node_server("sequential-thinking"), Vec::<String>::new())
        .path()
        .call("sequentialthinking", thought(1))
        .call("sequentialthinking", thought(2));
    let seen = server.compared(|| ()).await;
    assert_eq!(seen.names(), ["sequentialthinking"]);
    assert!(seen.text(1).contains("thoughtHistoryLength"), "{:#}", seen.results[1]);
}
