//! Operators: those of the configuration file and those of the store, and the table by which their
//! tokens are found.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use arc_swap::ArcSwap;
use http::StatusCode;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::{info, warn};
use uuid::Uuid;

use crate::{
    body,
    refusal::{conflict, invalid, not_found, refusal, unavailable},
    service::Service,
    token::{self, NoRandomness, TokenDigest},
};
use airlock_core::{
    act::Actor,
    operator::{Operator, Right, Role, TOKEN_PREFIX},
    secret::Secret,
    unix_time::unix_milliseconds,
};
use airlock_operator_api::{ConfiguredOperator, ManagementRefusal, ManagementRequest};
use airlock_store::{
    Unavailable,
    operators::{OperatorAdded, StoredOperator},
};

/// Longest name of an operator, in bytes.
const MAX_NAME_BYTES: usize = 128;
/// Name of the first operator, unless the request has one.
const FIRST: &str = "admin";

/// The operators of a gateway, by the digests of their tokens. Readers never wait.
#[derive(Default)]
pub(crate) struct LiveOperators {
    by_digest: ArcSwap<BTreeMap<TokenDigest, KnownToken>>,
    /// Sources of the operators.
    sources: Mutex<OperatorSources>,
}

#[derive(Default)]
struct OperatorSources {
    in_file: Vec<ConfiguredOperator>,
    stored: Vec<StoredOperator>,
}

#[derive(Debug, Clone)]
struct KnownToken {
    operator: Arc<Operator>,
    expires: Option<SystemTime>,
}

impl LiveOperators {
    /// Finds the operator of a token. `None` if the token is unknown or has expired at `now`.
    pub(crate) fn find(&self, token: &str, now: SystemTime) -> Option<Arc<Operator>> {
        let known = self.by_digest.load();
        let known = known.get(&token::digest(token))?;
        known.expires.is_none_or(|expires| now < expires).then(|| known.operator.clone())
    }

    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_digest.load().is_empty()
    }

    /// Replaces the operators of the file.
    pub(crate) fn replace_in_file(&self, in_file: Vec<ConfiguredOperator>) {
        let mut sources = self.sources.lock();
        sources.in_file = in_file;
        self.by_digest.store(Arc::new(sources.by_digest()));
    }

    /// Replaces the operators of the store.
    pub(crate) fn replace_stored(&self, stored: Vec<StoredOperator>) {
        let mut sources = self.sources.lock();
        sources.stored = stored;
        self.by_digest.store(Arc::new(sources.by_digest()));
    }

    /// Returns the operators of the file.
    fn in_file(&self) -> Vec<Operator> {
        self.sources.lock().in_file.iter().map(|own| own.operator.clone()).collect()
    }
}

impl OperatorSources {
    /// Returns all operators. Those of the file take precedence. A stored one whose role this version does
    /// not know is left out.
    fn by_digest(&self) -> BTreeMap<TokenDigest, KnownToken> {
        let stored = self.stored.iter().filter_map(|stored| {
            let expires = stored.expires_ms.map(time);
            let role = stored.role.parse().ok()?;
            let name = stored.name.clone();
            let operator = Operator { name, role, sees_payloads: stored.sees_payloads };
            Some((stored.digest, KnownToken { operator: Arc::new(operator), expires }))
        });
        let in_file = self.in_file.iter().map(|own| {
            (
                own.token_digest,
                KnownToken { operator: Arc::new(own.operator.clone()), expires: None },
            )
        });
        stored.chain(in_file).collect()
    }
}

/// An operator that a request wants.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewOperator {
    name: String,
    role: String,
    #[serde(default)]
    sees_payloads: bool,
    /// RFC 3339; the token is not valid from then on.
    expires_at: Option<String>,
}

/// The set-up of the first operator.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstOperator {
    setup_token: Option<String>,
    name: Option<String>,
}

impl Service {
    /// Makes the first operator, an administrator, for who has the setup token.
    pub(crate) async fn set_up(
        &self,
        request: ManagementRequest,
    ) -> Result<Value, ManagementRefusal> {
        let wanted: FirstOperator = body::read(request.body)?;
        let sent = request.setup_token.or_else(|| wanted.setup_token.map(Secret::new));
        if !self.setup.is_active() {
            return Err(conflict("there is an operator already, so no setup token is valid"));
        }
        if !sent.is_some_and(|sent| self.setup.accepts(sent.expose())) {
            let message =
                "invalid setup token; this gateway prints its own on stderr when it starts";
            return Err(refusal(StatusCode::FORBIDDEN, "setup_token_invalid", message));
        }
        let name = wanted.name.unwrap_or_else(|| FIRST.to_owned());
        let first = Operator { name, role: Role::Admin, sees_payloads: true };
        let shown = self.store_operator(&first, None, true, &Actor::Setup).await?;
        self.setup.end();
        Ok(shown)
    }

    /// Adds an operator.
    pub(crate) async fn add_operator(
        &self,
        actor: &Operator,
        body: Option<Value>,
    ) -> Result<Value, ManagementRefusal> {
        let wanted: NewOperator = body::read(body)?;
        if wanted.sees_payloads && !actor.sees_payloads {
            let message = "this operator does not see the arguments of calls, so it gives that right to nobody: `sees_payloads` is a right of its own";
            return Err(refusal(StatusCode::FORBIDDEN, "payloads_hidden", message));
        }
        let role = wanted.role.parse().map_err(|reason| invalid(format!("`role` {reason}")))?;
        let expires =
            wanted.expires_at.as_deref().map(|text| future("expires_at", text)).transpose()?;
        let new = Operator { name: wanted.name, role, sees_payloads: wanted.sees_payloads };
        self.store_operator(&new, expires, false, &actor.into()).await
    }

    /// Removes an operator of the store. Its token is refused at once.
    pub(crate) async fn remove_operator(
        &self,
        actor: &Operator,
        name: &str,
    ) -> Result<Value, ManagementRefusal> {
        // The file may have one with the same name, which was added to it later.
        if !self.remove_stored(actor, name).await.map_err(|error| unavailable(&error))? {
            return Err(if self.operators.in_file().iter().any(|own| own.name == name) {
                conflict(format!(
                    "the operator {name:?} is one of the configuration file; remove it there"
                ))
            } else {
                not_found(format!("no operator is named {name:?}"))
            });
        }
        info!(actor = actor.name, operator = name, "an operator was removed");
        self.refresh_operators().await.map_err(|error| unavailable(&error))?;
        Ok(json!({"message": "Operator removed successfully"}))
    }

    /// Removes an operator of the store. Returns false if there is none. A store that does not exist is not
    /// made.
    async fn remove_stored(&self, actor: &Operator, name: &str) -> Result<bool, Unavailable> {
        if self.settings.database.location().is_missing_file() {
            return Ok(false);
        }
        let by = Actor::from(actor).to_string();
        self.settings.database.available().await?.remove_operator(name, &by).await
    }

    /// Lists the operators, without anything of their tokens.
    pub(crate) async fn list_operators(&self) -> Result<Value, ManagementRefusal> {
        let stored = self.stored_operators().await.map_err(|error| unavailable(&error))?;
        let in_file = self.operators.in_file();
        let in_file = in_file.iter().map(|own| {
            let mut shown = describe(own);
            shown["source"] = "file".into();
            shown
        });
        let stored = stored.iter().map(|stored| {
            json!({
                "id": stored.id,
                "name": stored.name,
                "role": stored.role,
                "sees_payloads": stored.sees_payloads,
                "source": "store",
                "created_at": rfc3339(stored.created_ms),
                "expires_at": stored.expires_ms.map(rfc3339),
            })
        });
        let all: Vec<_> = in_file.chain(stored).collect();
        Ok(json!({"count": all.len(), "operators": all}))
    }

    async fn store_operator(
        &self,
        new: &Operator,
        expires: Option<SystemTime>,
        first_only: bool,
        actor: &Actor,
    ) -> Result<Value, ManagementRefusal> {
        check_name(&new.name)?;
        if self.operators.in_file().iter().any(|own| own.name == new.name) {
            return Err(name_taken(&new.name));
        }
        let token = token::generate(TOKEN_PREFIX).map_err(|error| no_randomness(&error))?;
        let stored = StoredOperator {
            id: Uuid::new_v4().to_string(),
            name: new.name.clone(),
            role: new.role.name().to_owned(),
            sees_payloads: new.sees_payloads,
            digest: token::digest(token.expose()),
            created_ms: unix_milliseconds(SystemTime::now()),
            expires_ms: expires.map(unix_milliseconds),
        };
        let database = self.database().await?;
        let added = database.add_operator(stored, first_only, &actor.to_string()).await;
        match added.map_err(|error| unavailable(&error))? {
            OperatorAdded::Done => {}
            OperatorAdded::NameTaken => return Err(name_taken(&new.name)),
            OperatorAdded::NotFirst => {
                self.setup.end();
                return Err(conflict("there is an operator already, so no setup token is valid"));
            }
            OperatorAdded::Full => return Err(conflict("there are as many operators as may be")),
        }
        info!(%actor, operator = new.name, role = new.role.name(), "an operator was added");
        if let Err(error) = self.refresh_operators().await {
            // The token is shown only now. The gateway learns of it with the next change of operators.
            warn!(%error, "the operators cannot be read again after a change");
        }
        Ok(json!({
            "message": "Operator created successfully; the token is shown only now",
            "operator": describe(new),
            "token": token.expose(),
        }))
    }
}

/// Describes an operator.
pub(crate) fn describe(operator: &Operator) -> Value {
    json!({
        "name": operator.name,
        "role": operator.role.name(),
        "sees_payloads": operator.sees_payloads,
    })
}

/// Returns the names of the rights of a role.
pub(crate) fn rights(role: Role) -> Vec<&'static str> {
    let all = [
        (Right::Read, "read"),
        (Right::Approve, "approve"),
        (Right::Operate, "operate"),
        (Right::Change, "change"),
        (Right::Administer, "administer"),
    ];
    all.into_iter().filter(|(right, _)| role.has(*right)).map(|(_, name)| name).collect()
}

pub(crate) fn no_randomness(error: &NoRandomness) -> ManagementRefusal {
    refusal(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", error.to_string())
}

/// Reads a time in the future, of the member `key`.
pub(crate) fn future(key: &str, text: &str) -> Result<SystemTime, ManagementRefusal> {
    let time = humantime::parse_rfc3339(text).map_err(|_| {
        invalid(format!("`{key}` must be a time such as \"2027-01-31T00:00:00Z\" (RFC 3339)"))
    })?;
    if time <= SystemTime::now() {
        return Err(invalid(format!("{key} must be a future timestamp")));
    }
    Ok(time)
}

pub(crate) fn rfc3339(milliseconds: i64) -> String {
    humantime::format_rfc3339_seconds(time(milliseconds)).to_string()
}

pub(crate) fn time(milliseconds: i64) -> SystemTime {
    /// The last second of the year 9999, the latest that is written in RFC 3339.
    const LATEST: u64 = 253_402_300_799;
    let since = Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0));
    UNIX_EPOCH + since.min(Duration::from_secs(LATEST))
}

fn name_taken(name: &str) -> ManagementRefusal {
    conflict(format!("an operator is named {name:?} already"))
}

fn check_name(name: &str) -> Result<(), ManagementRefusal> {
    let is_valid = !name.trim().is_empty()
        && name.len() <= MAX_NAME_BYTES
        && airlock_strings::visible_line(name) == name;
    if is_valid {
        return Ok(());
    }
    Err(invalid(format!(
        "`name` must have 1 to {MAX_NAME_BYTES} bytes, without hidden characters and line breaks"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str, role: &str, token: &str, expires_ms: Option<i64>) -> StoredOperator {
        StoredOperator {
            id: name.to_owned(),
            name: name.to_owned(),
            role: role.to_owned(),
            sees_payloads: false,
            digest: token::digest(token),
            created_ms: 0,
            expires_ms,
        }
    }

    fn role_at(live: &LiveOperators, token: &str, seconds: u64) -> Option<Role> {
        let found = live.find(token, UNIX_EPOCH + Duration::from_secs(seconds));
        found.map(|found| found.role)
    }

    #[test]
    fn a_token_is_found_until_it_expires_or_is_replaced() {
        let live = LiveOperators::default();
        assert!(live.is_empty());
        let stored_ones = vec![
            stored("ann", "viewer", "t1", None),
            stored("bob", "admin", "t2", Some(5_000)),
            stored("cy", "owner", "t3", None),
        ];
        live.replace_stored(stored_ones);
        assert_eq!(role_at(&live, "t1", 9), Some(Role::Viewer));
        assert_eq!([role_at(&live, "t2", 4), role_at(&live, "t2", 5)], [Some(Role::Admin), None]);
        assert_eq!(
            [role_at(&live, "t3", 0), role_at(&live, "", 0)],
            [None, None],
            "an unknown role, an unknown token"
        );
        let own = Operator { name: "file".into(), role: Role::Admin, sees_payloads: true };
        let own = ConfiguredOperator { operator: own, token_digest: token::digest("t4") };
        live.replace_in_file(vec![own]);
        live.replace_stored(Vec::new());
        assert_eq!([role_at(&live, "t1", 0), role_at(&live, "t4", 0)], [None, Some(Role::Admin)]);
    }

    #[test]
    fn a_name_is_one_visible_line() {
        for name in ["", " ", "a\nb", "a\u{202e}b", &"x".repeat(129)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(check_name("ann@example.com").is_ok() && check_name(&"x".repeat(128)).is_ok());
    }

    #[test]
    fn a_time_that_no_calendar_has_is_shown_as_the_last_one() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(i64::MAX), "9999-12-31T23:59:59Z");
        assert_eq!(rfc3339(-5), "1970-01-01T00:00:00Z");
    }
}
