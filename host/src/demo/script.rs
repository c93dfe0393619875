//! Texts of the demo: the users' questions and the scripted model's turns.

use serde_json::{Value, json};

/// Question of scene 1.
pub(super) const COUNT_QUESTION: &str =
    "How many words are in \"the quick brown fox jumps over the lazy dog\"?";
/// Question of scene 2.
pub(super) const NOTES_QUESTION: &str =
    "How many words are in all my notes together? Put the total on the desk's counter.";
/// Question of scene 4.
pub(super) const WRITE_QUESTION: &str = "Write \"see you at eight\" to outbox/note.txt, please.";
/// Tool of scene 4. It needs approval.
pub(super) const WRITE_TOOL: &str = "outbox-write_file";

/// Question of scene 5.
pub(super) const STREAM_QUESTION: &str =
    "How many words are in \"to be or not to be\"? Tell me what you do.";

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

/// Time before each chunk of scene 5.
const PACE: &str = "40ms";

/// Returns the script of the scripted model, as the content of its file.
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
        {"when": {"role": "user", "contains": STREAM_QUESTION, "offered": ["text-word_count"]},
         "answer": {"content": "I will ask the tool that counts words.", "pace": PACE, "tool_calls": [
             {"name": "text-word_count", "arguments": {"text": "to be or not to be"}},
         ]}},
        {"when": {"role": "tool", "contains": "words: 6\n"},
         "answer": {"content": "There are six words in it, and two of them occur twice.", "pace": PACE}},
        {"when": {"role": "tool"}, "answer": {"content": "The tool says: {{last_tool_result}}"}},
    ]})
}

/// An attack that the gateway must survive.
pub(super) struct Hostile {
    /// Description of the attack.
    pub(super) does: &'static str,
    /// Tool that is called.
    pub(super) tool: &'static str,
    /// Arguments of the call.
    pub(super) arguments: Value,
    /// Error codes that may end the attack.
    pub(super) ends_with: &'static [&'static str],
}

/// The attacks of scene 3.
pub(super) fn hostile() -> Vec<Hostile> {
    vec![
        Hostile {
            does: "a script that loops for ever",
            tool: "executeToolCode",
            arguments: code("for a in range(1000000):\n    for b in range(1000000):\n        pass"),
            // The machine decides which of the two limits is reached first.
            ends_with: &["airlock.out_of_fuel", "airlock.cpu_time"],
        },
        Hostile {
            does: "a script that doubles a list until memory ends",
            tool: "executeToolCode",
            arguments: code("bomb = [0]\nfor i in range(100):\n    bomb = bomb + bomb"),
            ends_with: &["airlock.memory"],
        },
        Hostile {
            does: "a script that calls itself without end",
            tool: "executeToolCode",
            arguments: code("def down(n):\n    return down(n + 1)\nresult = down(0)"),
            ends_with: &["script_runtime"],
        },
        Hostile {
            does: "a script nested too deeply to parse",
            tool: "executeToolCode",
            // As deep as the limit on the length of a script allows.
            arguments: code(&format!("result = {}1{}", "(".repeat(32_000), ")".repeat(32_000))),
            ends_with: &["script_syntax"],
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

fn code(code: &str) -> Value {
    json!({"code": code})
}
