//! A chat through the real `openai` client, whose script stops for approvals while the gateway is
//! killed and started again.

use std::process::Stdio;

use airlock_tests::{peers, root};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{ANN, EXECUTE, Recorded, calls, pending};

/// Reads, writes, and writes twice at the same time.
const SCRIPT: &str = "\
a = rec.read(n = 1)
b = rec.add(n = 2)
c = gather([(rec.add, {'n': 3}), (rec.drop, {'n': 4})])
result = [a['n'], b['n']] + [it['n'] for it in c]";

impl Recorded {
    /// Runs one action of `runs.py` as Ann, and returns the document that it prints.
    async fn openai(&self, action: &str, arguments: &[&str]) -> Value {
        let program = root().join("tests/fixtures/openai_clients/runs.py");
        let mut command = Command::new(peers::python());
        command.arg("-B").arg(program).arg(format!("{}/v1", self.gateway.address()));
        command.args([ANN, action]).args(arguments);
        let output =
            command.stdin(Stdio::null()).kill_on_drop(true).output().await.expect("Python");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("it prints a JSON document")
    }
}

#[tokio::test]
async fn a_chat_resumes_its_script_after_each_kill_and_makes_each_write_once() {
    let turns = json!({"turns": [
        {"when": {"role": "user"}, "answer": {"tool_calls": [{"name": EXECUTE, "arguments": {"code": SCRIPT}}]}},
        {"when": {"role": "tool"}, "answer": {"content": "It says: {{last_tool_result}}"}},
    ]});
    let recorded = Recorded::with(&["read"], |setup| setup.scripted("script", &turns)).await;
    let asked = recorded.openai("ask", &[]).await;
    let id = asked["run"]["id"].as_str().expect("an id");
    assert_eq!(pending(&asked["run"]), ["2"]);
    assert_eq!(recorded.written(), []);

    let recorded = Recorded::serve(recorded.gateway.kill().await).await;
    let run = recorded.openai("approve", &[id]).await;
    assert_eq!(
        (&run["state"], pending(&run)),
        (&json!("suspended"), vec!["3.1", "3.2"]),
        "{run:#}"
    );
    assert_eq!(recorded.written(), calls([("add", 2)]));

    let recorded = Recorded::serve(recorded.gateway.kill().await).await;
    let run = recorded.openai("approve", &[id]).await;
    assert_eq!(
        (&run["state"], &run["result"]),
        (&json!("completed"), &json!([1, 2, 3, 4])),
        "{run:#}"
    );
    let mut written = recorded.written();
    written.sort();
    assert_eq!(written, calls([("add", 2), ("add", 3), ("drop", 4)]));

    let chat = recorded.openai("finish", &[id, &asked["messages"].to_string()]).await;
    let content = chat["content"].as_str().expect("text");
    let compact: String = content.split_whitespace().collect();
    assert!(compact.starts_with("Itsays:") && compact.contains("[1,2,3,4]"), "{content}");
    assert_eq!(recorded.written().len(), 3);
    assert_eq!(recorded.replay(id).await["identical"], true);
}
