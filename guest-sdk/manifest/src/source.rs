//! `plugin.toml` as a file: its content in the embedded form, and the positions of its keys.

#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use serde_json::{Number, Value, json};
use toml::de::{DeTable, DeValue};

use crate::fault::{BadManifest, Fault, Faults, MAX_FAULTS, Position};
use crate::key_path::{KeyPath, Step};

/// Name of the file next to a plugin's sources.
pub const FILE: &str = "plugin.toml";
/// Maximum size of a manifest in its embedded form, in bytes: it is parsed before anyone has accepted the component.
pub const MAX_BYTES: usize = 256 << 10;

/// Most bytes of plugin.toml, and of the schema that it names: four times [`MAX_BYTES`], for comments. The name of a
/// schema may be that of any file, such as a data set of gigabytes.
const MAX_FILE: u64 = 1 << 20;
/// Requests that only WASI can fulfil, by their keys in `request`.
const OF_WASI: [&str; 3] = ["clocks", "files", "scratch"];

/// A `plugin.toml` that is TOML.
#[derive(Debug)]
pub struct ManifestSource {
    /// The manifest in its embedded form, and the table `build` of the file.
    pub document: Value,
    /// The files that it was made from.
    pub files: Vec<PathBuf>,
    text: String,
    /// Fault of the file that `config.schema_file` names.
    schema: Option<Fault>,
    /// True if the schema of the configuration is in the plugin's code. The document has the schema
    /// of any object in its place.
    is_schema_in_code: bool,
}

/// Reads `plugin.toml` in a directory; `None` if there is no such file. Fails if it is not TOML; its
/// keys are not checked.
pub fn read(directory: &Path) -> Result<Option<ManifestSource>, BadManifest> {
    let file = directory.join(FILE);
    let text = match read_bounded(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let whole = BadManifest::whole(format!("cannot be read: {error}"));
            return Err(BadManifest { file: Some(FILE.to_owned()), ..whole });
        }
    };
    let document = parse(&text)?;
    let mut source = ManifestSource {
        document,
        files: vec![file],
        text,
        schema: None,
        is_schema_in_code: false,
    };
    source.schema = source.read_schema(directory).err();
    Ok(Some(source))
}

/// Reads a text file of at most [`MAX_FILE`] bytes. A device or a pipe might never end.
fn read_bounded(file: &Path) -> io::Result<String> {
    if !fs::metadata(file)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    let read = fs::File::open(file)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if read as u64 > MAX_FILE {
        return Err(io::Error::other(format!("it has more than {MAX_FILE} bytes")));
    }
    Ok(text)
}

fn parse(text: &str) -> Result<Value, BadManifest> {
    let (_, mut errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        // Numbers are read only here.
        match toml::from_str::<toml::Table>(text) {
            Ok(table) => return Ok(json_of(toml::Value::Table(table))),
            Err(error) => errors.push(error),
        }
    }
    let mut faults = Faults::default();
    // One more than is reported, because each position is searched from the start of the text.
    faults.extend(errors.into_iter().take(MAX_FAULTS + 1).map(|error| {
        let position = error.span().map(|span| position(text, span.start));
        Fault { position, ..Fault::new(KeyPath::default(), error.message()) }
    }));
    Err(faults.of_file(FILE))
}

/// Converts a value. A date becomes a text, and so do the numbers that JSON does not have.
fn json_of(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => {
            Number::from_f64(number).map_or_else(|| number.to_string().into(), Value::Number)
        }
        toml::Value::Boolean(value) => value.into(),
        toml::Value::Datetime(date) => date.to_string().into(),
        toml::Value::Array(elements) => elements.into_iter().map(json_of).collect(),
        toml::Value::Table(members) => {
            members.into_iter().map(|(name, value)| (name, json_of(value))).collect()
        }
    }
}

impl ManifestSource {
    /// Puts the content of the file that `config.schema_file` names in its place.
    fn read_schema(&mut self, directory: &Path) -> Result<(), Fault> {
        let Some(config) = self.document.get_mut("config").and_then(Value::as_object_mut) else {
            return Ok(());
        };
        if config.len() == 1 && config.get("from_code") == Some(&Value::Bool(true)) {
            self.document["config"] = json!({"schema": {"type": "object"}});
            self.is_schema_in_code = true;
            return Ok(());
        }
        let Some(Value::String(name)) = config.get("schema_file").cloned() else { return Ok(()) };
        config.remove("schema_file");
        if config.insert("schema".to_owned(), json!({})).is_some() {
            return Err(fault_of_file(&name, "excludes `schema`, which is also set"));
        }
        let is_within = Path::new(&name)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !is_within {
            return Err(fault_of_file(&name, "is not below the plugin's directory"));
        }
        let file = directory.join(&name);
        let text = read_bounded(&file)
            .map_err(|error| fault_of_file(&name, &format!("cannot be read: {error}")))?;
        config["schema"] = serde_json::from_str(&text)
            .map_err(|error| fault_of_file(&name, &format!("is not JSON: {error}")))?;
        self.files.push(file);
        Ok(())
    }

    /// Returns whether the schema of the configuration is in the plugin's code.
    pub fn is_schema_in_code(&self) -> bool {
        self.is_schema_in_code
    }

    /// Sets the schema of the configuration that the plugin's code declares.
    pub fn set_schema(&mut self, schema: &Value) {
        self.document["config"] = json!({ "schema": schema });
    }

    /// Returns the embedded form as JSON: without the table `build`, which is for the builder alone.
    pub fn json(&self) -> String {
        let mut document = self.document.clone();
        if let Some(members) = document.as_object_mut() {
            members.shift_remove("build");
        }
        document.to_string()
    }

    /// Returns whether the plugin is built with WASI: it requests what only WASI provides, or has
    /// `[build] wasi = true`.
    pub fn needs_wasi(&self) -> bool {
        let is_set = self.document["build"]["wasi"] == true;
        let request = &self.document["request"];
        is_set || OF_WASI.iter().any(|kind| request.get(kind).is_some())
    }

    /// Returns the position of a key such as `request.http.api` or `tool[0].effects`. If the key is
    /// absent, it is that of the table that would contain it; `None` if there is no such table.
    pub fn position(&self, key: &str) -> Option<Position> {
        let (root, _) = DeTable::parse_recoverable(&self.text);
        let at = span(root.get_ref(), &KeyPath::parse(key), true)?;
        Some(position(&self.text, at.start))
    }

    /// Returns what was made of the document. Fails if the document or one of the files has faults,
    /// with the positions of all of them.
    pub fn locate<T>(&self, made: Result<T, Faults>) -> Result<T, BadManifest> {
        let (made, mut faults) = match made {
            Ok(made) => (Some(made), Faults::default()),
            Err(faults) => (None, faults),
        };
        let size = self.json().len();
        if size > MAX_BYTES {
            let problem = format!("has {size} bytes as JSON; the limit is {MAX_BYTES}");
            faults.push(Fault::new(KeyPath::default(), problem));
        }
        faults.extend(self.schema.clone());
        if let Some(made) = made.filter(|_| faults.is_empty()) {
            return Ok(made);
        }
        let (root, _) = DeTable::parse_recoverable(&self.text);
        for fault in faults.iter_mut() {
            let at = span(root.get_ref(), &fault.key, fault.is_about_name);
            fault.position = at.map(|at| position(&self.text, at.start));
        }
        Err(faults.of_file(FILE))
    }
}

fn fault_of_file(name: &str, problem: &str) -> Fault {
    Fault::new(KeyPath::from_iter(["config", "schema_file"]), format!("{name}: {problem}"))
}

/// Finds the position of a key, or of its value. The position of a missing key is that of the table
/// that it belongs to; the root has none.
fn span(root: &DeTable<'_>, key: &KeyPath, is_about_name: bool) -> Option<Range<usize>> {
    let mut steps = key.0.iter();
    let Some(Step::Name(first)) = steps.next() else { return None };
    let (mut name, mut value) = root.get_key_value(first.as_str())?;
    let mut place = name.span();
    let mut is_last = true;
    for step in steps {
        let next = match (step, value.get_ref()) {
            (Step::Name(step), DeValue::Table(members)) => members.get_key_value(step.as_str()),
            (Step::Index(index), DeValue::Array(elements)) => {
                elements.get(*index).map(|element| (name, element))
            }
            _ => None,
        };
        let Some(next) = next else {
            is_last = false;
            break;
        };
        (name, value) = next;
        place = match step {
            Step::Name(_) => name.span(),
            Step::Index(_) => value.span(),
        };
    }
    let is_table = matches!(value.get_ref(), DeValue::Table(_));
    Some(if is_last && !is_table && !is_about_name { value.span() } else { place })
}

fn position(text: &str, offset: usize) -> Position {
    let before = &text[..text.floor_char_boundary(offset)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Position {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}
