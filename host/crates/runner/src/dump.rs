//! A run as bytes: a line with the version, a line with the SHA-256 of the rest, and a JSON document.
//!
//! The digest finds bytes that were changed by accident. It is no signature: keep a dump where only the program can change it.
//! A dump says which calls are approved, what calls have returned, and which limits the run has, and is believed. All that is
//! in one is still bounded and checked, and each call that was not answered is decided by the door.
//!
//! Nothing is built of a dump before its memory is known: a document can take 150 times as much memory
//! as it has bytes. So the digest is that of the bytes, and the document is measured before it is parsed.

mod error;

use std::{borrow::Cow, fmt, sync::Arc};

use airlock_compile::MAX_MEMORY_BYTES;
use airlock_core::door::ScriptLanguage;
use airlock_json::{Caps, raw};
use airlock_sandbox::Bindings;
use airlock_strings::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use self::error::{BadDump, MAX_DUMP_BYTES};
use crate::{
    Functions, MAX_CODE_BYTES, MAX_INPUT_BYTES, RunLimits,
    functions::global,
    journal::{CallState, JournalEntry},
    request::{RunContent, check_input, check_size, is_global},
};

/// Maximum memory of a document that is read: that of its texts, which are at most as long as the dump, and of its calls.
const MAX_DOCUMENT_BYTES: usize = MAX_DUMP_BYTES + (64 << 20);
/// Beginning of every dump; the version follows.
const MAGIC: &[u8] = b"airlock-run ";
/// The version that this program writes and reads.
const VERSION: &[u8] = b"1";
/// Bytes before the document: the lines with the version and with the digest.
const HEAD_BYTES: usize = MAGIC.len() + VERSION.len() + 1 + 64 + 1;

/// A run as bytes, to be kept and to be loaded in another process: a [`PendingRun`](crate::PendingRun), or the journal of a
/// finished one.
#[derive(Clone, PartialEq, Eq)]
pub struct RunDump(Vec<u8>);

/// The document of a dump.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunDocument<'d> {
    language: Cow<'d, str>,
    code: Cow<'d, str>,
    inputs: Option<Cow<'d, str>>,
    limits: RunLimits,
    functions: Vec<StoredFunction<'d>>,
    calls: Cow<'d, [JournalEntry]>,
    output: Cow<'d, str>,
    lines: u64,
    journal: bool,
    is_finished: bool,
}

/// A function as it was declared.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredFunction<'d> {
    name: Cow<'d, str>,
    parameters: Cow<'d, [String]>,
    digest: Cow<'d, str>,
}

impl RunDump {
    /// Reads a dump. Fails if the bytes are too many, are none, are of another version, or were changed.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, BadDump> {
        Self::check(&bytes)?;
        Ok(Self(bytes))
    }

    /// Reads a dump like [`from_bytes`](Self::from_bytes). Copies the bytes only if they are one.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, BadDump> {
        Self::check(bytes)?;
        Ok(Self(bytes.to_vec()))
    }

    /// Checks bytes against their digest.
    fn check(bytes: &[u8]) -> Result<(), BadDump> {
        let content = content(bytes)?;
        let (digest, document) = content.split_at_checked(64).ok_or(BadDump::Digest)?;
        let document = document.strip_prefix(b"\n").ok_or(BadDump::Digest)?;
        if hex(&Sha256::digest(document)).as_bytes() != digest {
            return Err(BadDump::Digest);
        }
        Ok(())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Writes a run. Fails if that takes more than [`MAX_DUMP_BYTES`]: it could not be read again.
    pub(crate) fn new(
        content: &RunContent,
        output: &str,
        is_finished: bool,
    ) -> Result<Self, BadDump> {
        Self::within(MAX_DUMP_BYTES, content, output, is_finished)
    }

    /// Writes a run. Fails if that takes more than `max_bytes`.
    fn within(
        max_bytes: usize,
        content: &RunContent,
        output: &str,
        is_finished: bool,
    ) -> Result<Self, BadDump> {
        let functions = content.functions.entries().map(|(name, entry)| StoredFunction {
            name: name.into(),
            parameters: Cow::Borrowed(&entry.parameters),
            digest: Cow::Borrowed(&entry.digest),
        });
        let document = RunDocument {
            language: content.language.name().into(),
            code: Cow::Borrowed(&content.code),
            inputs: content.inputs.as_deref().map(Cow::Borrowed),
            limits: content.limits,
            functions: functions.collect(),
            calls: Cow::Borrowed(&content.entries),
            output: output.into(),
            lines: content.lines,
            journal: content.journal,
            is_finished,
        };
        let document =
            serde_json::to_vec(&document).expect("keys are strings, and memory takes the text");
        let found = HEAD_BYTES + document.len();
        if found > max_bytes {
            return Err(BadDump::TooLarge { found });
        }
        let digest = hex(&Sha256::digest(&document));
        let head = [MAGIC, VERSION, b"\n".as_slice(), digest.as_bytes(), b"\n".as_slice()];
        Ok(Self([head.concat(), document].concat()))
    }

    fn document(&self) -> Result<RunDocument<'static>, BadDump> {
        let (_, document) = content(&self.0)?.split_at_checked(65).ok_or(BadDump::Digest)?;
        airlock_json::check(document, &Caps::memory(MAX_DOCUMENT_BYTES))
            .map_err(BadDump::content)?;
        serde_json::from_slice(document).map_err(BadDump::content)
    }

    /// Returns a run that waits, and the printed text.
    pub(crate) fn pending(&self, functions: Functions) -> Result<(RunContent, String), BadDump> {
        let document = self.document()?;
        if document.is_finished {
            return Err(BadDump::Finished);
        }
        for StoredFunction { name, digest, .. } in &document.functions {
            let name = name.to_string();
            match functions.entry(&name) {
                None => return Err(BadDump::MissingFunction { name }),
                Some(entry) if entry.digest != **digest => {
                    return Err(BadDump::ChangedFunction { name });
                }
                Some(_) => {}
            }
        }
        if !document.calls.iter().any(|entry| entry.state.is_undecided()) {
            return Err(BadDump::content("no call waits for a decision"));
        }
        let bindings = functions.bindings().clone();
        document.into_content(functions, bindings)
    }

    /// Returns a run that is replayed. It has the functions by their names alone: none of them is called.
    pub(crate) fn replayed(&self) -> Result<RunContent, BadDump> {
        let document = self.document()?;
        if let Some(bad) = document.functions.iter().find(|function| !is_global(&function.name)) {
            return Err(BadDump::content(format_args!("it has a function named {:?}", bad.name)));
        }
        let functions =
            document.functions.iter().map(|function| global(&function.name, &function.parameters));
        let bindings = Arc::new(Bindings::with_functions(functions.collect()));
        let (content, _) = document.into_content(Functions::none(), bindings)?;
        Ok(RunContent { is_replay: true, journal: false, ..content })
    }
}

impl fmt::Debug for RunDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunDump({} bytes)", self.0.len())
    }
}

impl RunDocument<'_> {
    /// Checks the content. Returns it, and the printed text.
    fn into_content(
        self,
        functions: Functions,
        bindings: Arc<Bindings>,
    ) -> Result<(RunContent, String), BadDump> {
        let language = ScriptLanguage::named(&self.language).ok_or_else(|| {
            BadDump::content(format_args!("unknown language {:?}", self.language))
        })?;
        self.limits.check().map_err(BadDump::content)?;
        check_size("code", self.code.len(), MAX_CODE_BYTES).map_err(BadDump::content)?;
        if let Some(inputs) = &self.inputs {
            check_inputs(inputs, &functions)?;
        }
        let calls: &[JournalEntry] = &self.calls;
        if calls.len() > RunLimits::MAX.calls as usize {
            return Err(BadDump::content("it has more calls than a run may make"));
        }
        // A script receives all of them in its sandbox, which has no more.
        check_answers(calls, MAX_MEMORY_BYTES)?;
        let content = RunContent {
            language,
            code: self.code.into_owned(),
            inputs: self.inputs.map(|inputs| Arc::from(&*inputs)),
            functions,
            bindings,
            limits: self.limits,
            on_print: None,
            journal: self.journal,
            is_replay: false,
            entries: self.calls.into_owned(),
            lines: self.lines,
            context: None,
            nesting: 0,
        };
        Ok((content, self.output.into_owned()))
    }
}

fn check_inputs(inputs: &str, functions: &Functions) -> Result<(), BadDump> {
    check_size("inputs", inputs.len(), MAX_INPUT_BYTES).map_err(BadDump::content)?;
    // They reach the sandbox as text.
    check_json(inputs, usize::MAX)?;
    let members = raw::members(inputs).ok_or_else(|| BadDump::content("inputs are no object"))?;
    for (name, _) in members {
        check_input(&name, functions).map_err(BadDump::content)?;
    }
    Ok(())
}

/// Fails if an answer cannot be read, or if all of them take more memory than this.
fn check_answers(calls: &[JournalEntry], memory_bytes: usize) -> Result<(), BadDump> {
    let mut left = memory_bytes;
    for entry in calls {
        if let CallState::Value(text) = &entry.state {
            left = left.saturating_sub(check_json(text, left)?);
        }
    }
    Ok(())
}

/// Returns what follows the line with the version: the digest, a line break, and the document.
fn content(bytes: &[u8]) -> Result<&[u8], BadDump> {
    /// Bytes of a version that are shown.
    const SHOWN: usize = 32;
    if bytes.len() > MAX_DUMP_BYTES {
        return Err(BadDump::TooLarge { found: bytes.len() });
    }
    let rest = bytes.strip_prefix(MAGIC).ok_or(BadDump::NotADump)?;
    let end = rest.iter().take(SHOWN).position(|byte| *byte == b'\n');
    let (version, content) = rest.split_at(end.ok_or(BadDump::NotADump)?);
    if version != VERSION {
        let found = String::from_utf8_lossy(version).into_owned();
        return Err(BadDump::Version { found });
    }
    Ok(&content[1..])
}

/// Returns the memory of a JSON text as a value. Fails if it is no JSON, takes more than `memory_bytes`, or nests more deeply
/// than an executor reads.
fn check_json(text: &str, memory_bytes: usize) -> Result<usize, BadDump> {
    let cost = airlock_json::check(text.as_bytes(), &Caps::memory(memory_bytes));
    cost.map(|cost| cost.tree_bytes).map_err(BadDump::content)
}

#[cfg(test)]
mod tests;
