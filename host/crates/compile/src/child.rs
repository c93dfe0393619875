//! Runs the compiler as a child process: the same program, started for one component.
//!
//! The child reads the component from its standard input and writes native code to its standard
//! output. It gets an empty environment and a process group of its own. It sets its own limits
//! before it reads anything.

use std::{
    io::{self, Read as _, Write as _},
    path::Path,
    process::{ExitStatus, Stdio},
};

use airlock_strings::{cut, one_line};
use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use rustix::process::{Resource, Rlimit, setrlimit};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
};
use wasmtime::Engine;

use crate::{
    cache::name::settings_digest,
    engine::compiler_engine,
    error::{CompilerFailure, MAX_COMPONENT_BYTES},
    precompile::precompile,
    settings::{CompilerChild, Form},
};

/// Command with which the program is started as a compiler.
pub const COMMAND: &str = "compile-component";
/// Bytes of native code that are accepted from a child: eight times the largest component. Compiled
/// code is about four times the size of the component.
const MAX_CODE_BYTES: usize = 512 << 20;
/// Bytes of a child's standard error that are kept when it fails. The text may quote the component,
/// and becomes part of an error.
const MAX_WORDS_BYTES: usize = 2 << 10;

/// Arguments of a child on its command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Form in which the component is compiled.
    pub form: Form,
    /// Digest of the engine's settings. The child's own digest must be the same.
    pub settings: String,
    /// CPU time of all its threads together, in seconds.
    pub cpu_seconds: u64,
    /// Address space, in bytes.
    pub memory_bytes: u64,
}

/// Compiles in a child. Dropping the future kills the child and the other processes of its group.
pub(crate) async fn run(
    settings: &CompilerChild,
    engine: &Engine,
    form: Form,
    wasm: &[u8],
) -> Result<Vec<u8>, CompilerFailure> {
    let job = Job::new(settings, engine, form);
    let arguments = [
        COMMAND.to_owned(),
        job.form.to_string(),
        job.settings,
        job.cpu_seconds.to_string(),
        job.memory_bytes.to_string(),
    ];
    let mut child = Child::spawn(&settings.program, &arguments).map_err(CompilerFailure::Run)?;
    match tokio::time::timeout(settings.wall, child.converse(wasm)).await {
        Ok(answered) => answered,
        Err(_) => Err(CompilerFailure::Wall(settings.wall)),
    }
}

impl Job {
    fn new(settings: &CompilerChild, engine: &Engine, form: Form) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        Self {
            form,
            settings: settings_digest(engine),
            cpu_seconds: settings.wall.as_secs().max(1).saturating_mul(cores),
            memory_bytes: settings.memory_bytes,
        }
    }
}

/// A running child. Dropping it kills it.
struct Child {
    process: Box<dyn ChildWrapper>,
    /// True if the process was reaped. Its id may then belong to another process.
    is_reaped: bool,
}

impl Child {
    fn spawn(program: &Path, arguments: &[String]) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut wrapped = CommandWrap::from(command);
        wrapped.wrap(ProcessGroup::leader());
        wrapped.spawn().map(|process| Self { process, is_reaped: false })
    }

    /// Writes the component and reads the output at the same time, so that neither side waits for a
    /// full pipe.
    async fn converse(&mut self, wasm: &[u8]) -> Result<Vec<u8>, CompilerFailure> {
        let stdin = self.process.stdin().take();
        let stdout = self.process.stdout().take();
        let stderr = self.process.stderr().take();
        let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(CompilerFailure::Run(io::Error::other("it has no pipes")));
        };
        let write = async move {
            // A child that fails may not read to the end. Its exit status is the error to report.
            let _ = stdin.write_all(wasm).await;
        };
        let (code, words, ()) =
            tokio::join!(read(stdout, MAX_CODE_BYTES), read(stderr, MAX_WORDS_BYTES), write);
        let code = code.map_err(CompilerFailure::Run)?;
        let words = words.map_err(CompilerFailure::Run)?;
        if code.len() > MAX_CODE_BYTES {
            return Err(CompilerFailure::TooMuchCode(MAX_CODE_BYTES));
        }
        let status = self.process.wait().await.map_err(CompilerFailure::Run)?;
        self.is_reaped = true;
        if status.success() { Ok(code) } else { Err(failure(status, &words)) }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.is_reaped {
            // Fails if no process is left, which is the wanted state. The runtime reaps a process
            // that is killed here.
            let _ = self.process.start_kill();
        }
    }
}

/// Reads to the end, or up to one byte more than `limit`. It then closes the stream, which ends a
/// child that continues to write.
async fn read(stream: impl AsyncRead + Unpin, limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(limit as u64 + 1).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

fn failure(status: ExitStatus, words: &[u8]) -> CompilerFailure {
    // The text may quote the component.
    let words = cut(one_line(&String::from_utf8_lossy(words)), MAX_WORDS_BYTES);
    match status.code() {
        Some(1) if !words.is_empty() => CompilerFailure::Refused(words),
        _ => CompilerFailure::Died {
            status: status.to_string(),
            words: if words.is_empty() { words } else { format!(": {words}") },
        },
    }
}

/// Compiles what the child reads from standard input. Returns whether it succeeded; if not, the
/// reason is on standard error. It has to be called before anything else happens in the process.
pub fn compile_component(job: &Job) -> bool {
    match compile(job) {
        Ok(()) => true,
        Err(reason) => {
            // A write fails only if the parent no longer reads.
            let _ = writeln!(io::stderr(), "{reason}");
            false
        }
    }
}

fn compile(job: &Job) -> Result<(), CompilerFailure> {
    limit(job).map_err(CompilerFailure::Run)?;
    let engine =
        compiler_engine().map_err(|error| CompilerFailure::Refused(format!("{error:#}")))?;
    if settings_digest(&engine) != job.settings {
        return Err(CompilerFailure::Refused(
            "the compiler and the gateway are different builds or have different settings".into(),
        ));
    }
    let mut wasm = Vec::new();
    io::stdin()
        .take(MAX_COMPONENT_BYTES as u64 + 1)
        .read_to_end(&mut wasm)
        .map_err(CompilerFailure::Run)?;
    if wasm.len() > MAX_COMPONENT_BYTES {
        return Err(CompilerFailure::Refused(format!("more than {MAX_COMPONENT_BYTES} bytes")));
    }
    let native = precompile(&engine, job.form, &wasm)?;
    io::stdout().write_all(&native).map_err(CompilerFailure::Run)
}

/// Limits the process: its CPU time and address space, no writes to files, and no core dump, which
/// would hold the component.
fn limit(job: &Job) -> io::Result<()> {
    set_limit(Resource::Cpu, job.cpu_seconds)?;
    set_limit(Resource::As, job.memory_bytes)?;
    set_limit(Resource::Fsize, 0)?;
    set_limit(Resource::Core, 0)
}

fn set_limit(resource: Resource, most: u64) -> io::Result<()> {
    Ok(setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?)
}
