use super::*;
use crate::check;

/// A manifest without faults, on four lines.
const HEAD: &str = "schema = 'airlock.plugin/1'\nid = 'a'\nversion = '1.0.0'\ncontract = '0.1'\n";

/// Reads and checks a directory with these files. Returns the embedded form, or a line for each
/// fault.
fn embedded(test: &str, files: &[(&str, &str)]) -> Result<Option<String>, String> {
    source_of(test, files).map(|source| source.map(|source| source.json()))
}

/// Reads and checks a directory with these files. Fails with a line for each fault.
fn source_of(test: &str, files: &[(&str, &str)]) -> Result<Option<ManifestSource>, String> {
    let directory =
        std::env::temp_dir().join(format!("airlock-manifest-{}-{test}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    for (name, text) in files {
        fs::write(directory.join(name), text).expect("a file");
    }
    let read = read(&directory);
    fs::remove_dir_all(&directory).expect("it is ours");
    let checked = read.and_then(|source| {
        let Some(source) = source else { return Ok(None) };
        source.locate(check(&source.document, &|_, _| Ok(())).result())?;
        assert_eq!(source.files.len(), files.len());
        Ok(Some(source))
    });
    checked.map_err(|bad| bad.to_string())
}

fn faults(name: &str, text: &str) -> String {
    embedded(name, &[(FILE, text)]).expect_err("a fault")
}

#[test]
fn a_manifest_becomes_json_in_its_own_order_with_the_schema_inside() {
    let manifest = format!(
        "{HEAD}[[tool]]\nname = 'b'\neffects = []\n[config]\nschema_file = 'c.json'\n[metadata]\nreleased = 2026-01-31\nhomepage = 'https://a.example'\n"
    );
    let json = embedded("whole", &[(FILE, &manifest), ("c.json", "{\"type\": \"object\"}")]);
    let expected = r#"{"schema":"airlock.plugin/1","id":"a","version":"1.0.0","contract":"0.1","tool":[{"name":"b","effects":[]}],"config":{"schema":{"type":"object"}},"metadata":{"released":"2026-01-31","homepage":"https://a.example"}}"#;
    assert_eq!(json, Ok(Some(expected.to_owned())));
}

#[test]
fn without_a_plugin_toml_there_is_no_manifest() {
    assert_eq!(embedded("none", &[]), Ok(None));
}

#[test]
fn every_fault_of_a_file_is_reported_at_once_with_its_line_and_column() {
    let text = r#"schema = "airlock.plugin/2"
id = "Weather"
version = "1.0.0"
licence = "MIT"

[[tool]]
name = "get"
effects = ["network", "http"]

[[tool]]
name = "get"

[request.http.api]
url = 7
resaon = "forecasts"

[request.files."my data"]
access = "read-only"
max_files = -1
reason = ""

[request.secret.token]
inject = { header = "x-key" }
audience = ["apo"]
reason = "signs in"

[request.kv]
max_bytes = "1MiB"

[request.clocks]
reason = "dates"
optional = "yes"

[request.directories.data]
"#;
    let expected = r#"plugin.toml has 17 errors:
  plugin.toml: contract: is missing, expected a version of the contract, such as "0.1"
  plugin.toml:1:10: schema: found "airlock.plugin/2", expected "airlock.plugin/1"
  plugin.toml:2:6: id: found "Weather", expected 1 to 32 of the characters a-z, 0-9 and `-`
  plugin.toml:4:1: licence: unknown key; did you mean "license"?
  plugin.toml:8:12: tool[0].effects[0]: found "network", expected "read_files", "write_files", "http", "secret", "read_kv", "write_kv" or "call_tools"
  plugin.toml:11:8: tool[1].name: another [[tool]] is named "get" already
  plugin.toml:13:15: request.http.api.reason: is missing, expected 1 to 300 characters of text for the person who decides
  plugin.toml:14:7: request.http.api.url: found 7, expected a scheme and a host, such as "https://api.example.com", or "*" for hosts that the operator chooses
  plugin.toml:15:1: request.http.api.resaon: unknown key; did you mean "reason"?
  plugin.toml:17:16: request.files."my data": found the name "my data", expected 1 to 64 letters, digits, `_` or `-`, or "*"
  plugin.toml:18:10: request.files."my data".access: found "read-only"; did you mean "read_only"? Valid: "read_only" or "read_write"
  plugin.toml:19:13: request.files."my data".max_files: found -1, expected a whole number from 0
  plugin.toml:20:10: request.files."my data".reason: found "", expected 1 to 300 characters of text for the person who decides
  plugin.toml:24:13: request.secret.token.audience[0]: found "apo", expected a name of [request.http]: "api"
  plugin.toml:28:13: request.kv.max_bytes: found "1MiB", expected a table: [request.kv.NAME]
  plugin.toml:32:12: request.clocks.optional: found "yes", expected true or false
  plugin.toml:34:10: request.directories: unknown key; valid here are http, secret, kv, files, scratch, slot, tools, clocks, limits"#;
    assert_eq!(faults("all", text), expected);
}

#[test]
fn every_syntax_error_has_its_line_and_column() {
    let told = faults("syntax", "id = \nname = 'a'\nversion = = 1\n");
    assert!(told.contains("\n  plugin.toml:1:") && told.contains("\n  plugin.toml:3:"), "{told}");
    assert!(faults("twice", "id = 'a'\nid = 'b'\n").starts_with("plugin.toml:2:1: duplicate key"));
}

#[test]
fn a_schema_file_that_cannot_be_embedded_is_reported_with_the_other_faults() {
    let text = format!("{HEAD}licence = 'MIT'\n[config]\nschema_file = 'c.json'\n");
    let missing = faults("missing", &text);
    assert!(missing.contains("plugin.toml:5:1: licence: unknown key"), "{missing}");
    let at = "plugin.toml:7:15: config.schema_file: c.json: ";
    assert!(missing.contains(&format!("{at}cannot be read: ")), "{missing}");
    let text = format!("{HEAD}[config]\nschema_file = 'c.json'\n");
    let broken = embedded("broken", &[(FILE, &text), ("c.json", "{")]).expect_err("no JSON");
    assert!(broken.contains("config.schema_file: c.json: is not JSON: "), "{broken}");
    let number = faults("number", &format!("{HEAD}[config]\nschema_file = 1"));
    assert!(number.contains("config.schema_file: found 1, expected a text"), "{number}");
    let neither = faults("neither", &format!("{HEAD}[config]\n"));
    assert!(neither.starts_with("plugin.toml:5:2: config: needs `from_code = true`"), "{neither}");
    let both =
        faults("both", &format!("{HEAD}[config]\nfrom_code = true\nschema_file = 'c.json'\n"));
    assert!(both.contains("config"), "{both}");
    let never = faults("never", &format!("{HEAD}[config]\nfrom_code = false\n"));
    assert!(never.contains("config.from_code: is true or absent"), "{never}");
}

#[test]
fn a_schema_in_the_code_is_embedded_once_it_is_known() {
    let text = format!("{HEAD}[config]\nfrom_code = true\n");
    let source = source_of("in_code", &[(FILE, &text)]).expect("it has no faults");
    let mut source = source.expect("a manifest");
    assert!(source.is_schema_in_code());
    source.set_schema(&json!({"type": "object", "properties": {}}));
    assert!(source.json().contains(r#""config":{"schema":{"type":"object","properties":{}}}"#));
}

#[test]
fn a_manifest_that_is_too_large_or_has_too_many_faults_is_refused_in_few_words() {
    let large = format!("{HEAD}[metadata]\ntext = '{}'\n", "x".repeat(MAX_BYTES));
    let told = faults("large", &large);
    assert!(told.starts_with("plugin.toml: has 262") && told.len() < 200, "{told}");
    let many: Vec<_> = (0..1_000).map(|key| format!("k{key} = 1\n")).collect();
    let told = faults("many", &(many.concat() + HEAD));
    assert_eq!(told.lines().count(), 52, "{told}");
    assert!(told.ends_with("there are more, which are not listed"), "{told}");
}

#[test]
fn a_key_has_its_position_and_an_absent_key_that_of_its_table() {
    let text = "id = 'a'\n\n[[tool]]\nname = 'b'\n\n[[tool]]\nname = 'c'\neffects = []\n\n[request.http.api]\nurl = '*'\n\n[request.files.\"*\"]\n";
    let directory = std::env::temp_dir().join(format!("airlock-position-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    fs::write(directory.join(FILE), text).expect("a file");
    let source = read(&directory).expect("it is TOML").expect("a file");
    fs::remove_dir_all(&directory).expect("it is ours");
    for (key, line) in [
        ("id", 1),
        ("tool[0].effects", 3),
        ("tool[1].effects", 8),
        ("tool[1].title", 6),
        ("request.http.api", 10),
        ("request.http.api.url", 11),
        ("request.http.api.reason", 10),
        ("request.files.*", 13),
    ] {
        let position = source.position(key).map(|position| position.line);
        assert_eq!(position, Some(line), "{key}");
    }
    assert_eq!(source.position("version"), None);
}

#[test]
fn a_file_without_an_end_or_outside_the_directory_is_not_read() {
    for outside in ["/dev/zero", "../secret.json", "a/../../secret.json"] {
        let text = faults_of_schema(outside);
        assert!(text.contains("is not below the plugin's directory"), "{text}");
    }
    assert!(faults_of_schema(".").contains("not a regular file"));
    let large = format!("{HEAD}# {}\n", "x".repeat(1 << 20));
    assert!(faults("large-file", &large).contains("more than 1048576 bytes"));
}

fn faults_of_schema(file: &str) -> String {
    faults("endless", &format!("{HEAD}[config]\nschema_file = '{file}'\n"))
}

#[test]
fn lists_and_tables_are_bounded_before_they_are_compared() {
    let names: String = (0..33).fold(String::new(), |all, n| {
        all + &format!("[request.kv.a{n}]\nmax_bytes = '1KiB'\nreason = 'r'\n")
    });
    assert!(bounded(&names).contains("request.kv: found 33 of them, expected at most 32"));
    let effects = format!("[[tool]]\nname = 'a'\neffects = [{}]\n", "'http',".repeat(257));
    assert!(bounded(&effects).contains("effects: found 257 of them, expected at most 256"));
    let tools = "[[tool]]\nname = 'a'\n".repeat(2_001);
    assert!(bounded(&tools).contains("tool: found 2001 of them, expected at most 2000"));
}

fn bounded(tail: &str) -> String {
    faults("bounded", &format!("{HEAD}{tail}"))
}
