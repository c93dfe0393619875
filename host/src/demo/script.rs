//! What is said: the people's questions and the scripted model's part.

use serde_json::{Value, json};

/// Scene 1.
pub(super) const COUNT_QUESTION: &str =
    "How many words are in \"the quick brown fox jumps over the lazy dog\"?";
/// Scene 2.
pub(super) const NOTES_QUESTION: &str =
    "How many words are in all my notes together? Put the total on the desk's counter.";
/// Scene 4.
pub(super) const WRITE_QUESTION: &str = "Write \"see you at eight\" to outbox/note.txt, please.";
/// The tool of scene 4, which nobody allowed to run by itself.
pub(super) const WRITE_TOOL: &str = "outbox-write_file";

/// The script that the model writes in scene 2.
const NOTES_SCRIPT: &str = r#"
notes = files.list_directory(path="notes")["entries"]
texts = gather([(files.read_file, {"path": "notes/" + note["name"]}) for note in notes])
counts = gather([(words.word_count, {"text": note["text"]}) for note in texts])
total = 0
for count in counts:
    total += count["words"]
print("read", len(notes), "notes")
result = desk.tally(name="words", n=total)
"#;

/// The scripted model's file.
pub(super) fn model() -> Value {
    json!({"turns": [
        {"when": {"role": "user", "contains": COUNT_QUESTION, "offered": ["text-word_count"]},
         "answer": {"tool_calls": [
             {"name": "text-word_count", "arguments": {"text": "the quick brown fox jumps over the lazy dog"}},
         ]}},
        {"when": {"role": "user", "contains": NOTES_QUESTION, "offered": ["executeToolCode"]},
         "answer": {"tool_calls": [{"name": "executeToolCode", "arguments": {"code": NOTES_SCRIPT}}]}},
        {"when": {"role": "user", "contains": WRITE_QUESTION, "offered": [WRITE_TOOL]},
         "answer": {"tool_calls": [
             {"name": WRITE_TOOL, "arguments": {"path": "outbox/note.txt", "text": "see you at eight\n"}},
         ]}},
        {"when": {"role": "tool"}, "answer": {"content": "The tool says: {{last_tool_result}}"}},
    ]})
}

/// Something that a gateway has to survive.
pub(super) struct Hostile {
    /// What it does.
    pub(super) does: &'static str,
    /// The tool that is called for it.
    pub(super) tool: &'static str,
    /// With which arguments.
    pub(super) arguments: Value,
    /// The codes of the errors that may end it; one that has none ends with an answer that says it
    /// failed.
    pub(super) ends_with: &'static [&'static str],
}

/// The attacks of scene 3.
pub(super) fn hostile() -> Vec<Hostile> {
    let code = |code: &str| json!({"code": code});
    vec![
        Hostile {
            does: "a script that loops for ever",
            tool: "executeToolCode",
            arguments: code("for a in range(1000000):\n    for b in range(1000000):\n        pass"),
            // Which of the two comes first depends on the machine.
            ends_with: &["out_of_fuel", "cpu_time"],
        },
        Hostile {
            does: "a script that doubles a list until memory ends",
            tool: "executeToolCode",
            arguments: code("bomb = [0]\nfor i in range(100):\n    bomb = bomb + bomb"),
            ends_with: &["memory"],
        },
        Hostile {
            does: "a script that calls itself without end",
            tool: "executeToolCode",
            arguments: code("def down(n):\n    return down(n + 1)\nresult = down(0)"),
            ends_with: &[],
        },
        Hostile {
            does: "a script nested too deeply to parse",
            tool: "executeToolCode",
            arguments: code(&format!("result = {}1{}", "(".repeat(50_000), ")".repeat(50_000))),
            ends_with: &["stack_overflow"],
        },
        Hostile {
            does: "a plugin that crashes",
            tool: "unruly-crash",
            arguments: json!({"index": 7}),
            ends_with: &["trap"],
        },
        Hostile {
            does: "a plugin that computes for ever",
            tool: "unruly-spin",
            arguments: json!({}),
            ends_with: &["out_of_fuel", "cpu_time"],
        },
    ]
}
