//! `management`.

mod oidc;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use super::{
    digest,
    file_env::FileEnv,
    key::PREFIX,
    resolved::{Problems, Resolved},
    same_variants::{SameVariants as _, same_variants},
};
use airlock_config_file::{env_text::EnvText, file, refused::InvalidValue};
use airlock_core::{
    door::credential_digest,
    operator::{Operator, Role},
};
use airlock_ingress::socket::MAX_PATH_BYTES;
use airlock_operator_api::{ConfiguredOperator, ManagementSettings};

/// Name of the socket without the key, beside the file.
const SOCKET: &str = "airlock.sock";
/// Minimum length of a token, in bytes: 128 bits if they are random hexadecimal digits. Shorter ones could be guessed.
const MIN_TOKEN_CHARACTERS: usize = 32;
/// Maximum length of the name of an operator: caps `name`, which each record of a change repeats.
const MAX_NAME_CHARACTERS: usize = 64;

/// Names and tokens of earlier operators of the list, which no other may have.
#[derive(Default)]
struct Earlier {
    names: BTreeSet<String>,
    /// Names of the operators, by the digests of their tokens.
    digests: BTreeMap<[u8; 32], String>,
}

/// Resolves the section. If it is disabled, the environment variables of tokens need not exist.
pub(super) fn resolve(file: file::Management, env: FileEnv<'_>) -> Resolved<ManagementSettings> {
    Resolved::new(|problems| {
        let socket = problems.merge(socket(&file, env));
        let mut earlier = Earlier::default();
        let operators = Resolved::elements(file.operators, |problems, operator| {
            resolve_one(problems, operator, &mut earlier, file.disabled, env)
        });
        let oidc = file.oidc.filter(|_| !file.disabled);
        ManagementSettings {
            disabled: file.disabled,
            hides_page: file.page == Some(false),
            reports: file.reports.map(|path| env.directory.join(path)),
            socket,
            operators: problems.take("operators", operators),
            oidc: oidc.and_then(|oidc| problems.take("oidc", oidc::resolve(oidc, env))),
        }
    })
}

/// Returns the path of the socket; `None` for none, and if the section is disabled.
pub(super) fn socket(file: &file::Management, env: FileEnv<'_>) -> Resolved<Option<PathBuf>> {
    Resolved::new(|problems| {
        let path = problems.accept("socket", socket_path(file.socket.as_deref(), env)).flatten();
        path.filter(|_| !file.disabled)
    })
}

/// Returns the path of the socket; `None` for none. The default needs a file that it is beside.
fn socket_path(path: Option<&Path>, env: FileEnv<'_>) -> Result<Option<PathBuf>, InvalidValue> {
    let Some(path) = path else {
        return Ok(env.is_file.then(|| env.directory.join(SOCKET)));
    };
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let path = env.directory.join(path);
    let length = path.as_os_str().len();
    if length > MAX_PATH_BYTES {
        return Err(format!(
            "the path of a socket has at most {MAX_PATH_BYTES} bytes, found {length} with the directory of this file"
        )
        .into());
    }
    Ok(Some(path))
}

fn resolve_one(
    problems: &mut Problems,
    operator: file::Operator,
    earlier: &mut Earlier,
    is_disabled: bool,
    env: FileEnv<'_>,
) -> Option<ConfiguredOperator> {
    let name = operator.name;
    if let Some(problem) = bad_name(&name) {
        problems.refuse("name", problem);
    } else if !earlier.names.insert(name.clone()) {
        problems.refuse("name", format_args!("another operator is named {name:?} already"));
    }
    let member = if operator.token.is_some() { "token" } else { "token_sha256" };
    let token_digest = match (operator.token, operator.token_sha256) {
        (Some(_), Some(_)) | (None, None) => {
            problems.refuse_whole("needs either `token` or `token_sha256`, and not both");
            None
        }
        (None, Some(text)) => problems.accept(member, digest::sha256(&text)),
        (Some(_), None) if is_disabled => None,
        (Some(token), None) => problems.accept(member, token_digest(token, env)),
    };
    let token_digest = token_digest?;
    if let Some(first) = earlier.digests.insert(token_digest, name.clone()) {
        problems.refuse(member, format_args!("is the same as that of the operator {first:?}"));
    }
    let role = operator.role.same();
    let operator = Operator { name, role, sees_payloads: operator.sees_payloads };
    Some(ConfiguredOperator { operator, token_digest })
}

same_variants!(file::OperatorRole => Role { Viewer, Approver, Operator, Admin });

fn bad_name(name: &str) -> Option<&'static str> {
    let is_short = name.chars().nth(MAX_NAME_CHARACTERS).is_none();
    let is_visible = !name.trim().is_empty() && !name.chars().any(char::is_control);
    (!is_short || !is_visible).then_some(
        "expected 1 to 64 characters, which are not all spaces, without control characters",
    )
}

fn token_digest(token: EnvText, env: FileEnv<'_>) -> Result<[u8; 32], InvalidValue> {
    let token = env.text(token)?;
    let token = token.expose();
    if token.len() < MIN_TOKEN_CHARACTERS || !token.chars().all(|c| c.is_ascii_graphic()) {
        return Err(format!(
            "must have at least {MIN_TOKEN_CHARACTERS} ASCII characters, without spaces"
        )
        .into());
    }
    // Such a bearer credential is looked up among the virtual keys.
    if token.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX)) {
        return Err(format!("must not start with {PREFIX:?}, the prefix of virtual keys").into());
    }
    Ok(credential_digest(token))
}
