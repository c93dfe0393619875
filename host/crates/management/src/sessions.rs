//! Sessions of operators who have logged in with a browser.

use serde_json::{Value, json};
use tracing::info;

use crate::{
    page::ListQuery,
    refusal::{Result, conflict, not_found},
    service::Service,
    timestamp::rfc3339,
    token,
};
use airlock_core::{
    act::{Act, ActKind, Actor},
    operator::Operator,
    secret::Secret,
};
use airlock_store::operator_session::OperatorSession;

impl Service {
    /// Ends the session of a request.
    pub(crate) async fn end_session(
        &self,
        actor: &Operator,
        session: Option<Secret>,
    ) -> Result<Value> {
        let Some(session) = session else {
            return Err(conflict("this request has a token and no session; a token has no end"));
        };
        self.database().await?.end_operator_session(token::digest(session.expose())).await?;
        let name = &actor.name;
        self.settings.acts.record(|| Act::new(ActKind::OperatorLoggedOut, actor, name));
        Ok(json!({"message": "Logout successful"}))
    }

    /// Lists the sessions of all operators, without their credentials.
    pub(crate) async fn list_sessions(&self, query: &str) -> Result<Value> {
        let page = ListQuery::parse(query, &[])?;
        let database = &self.settings.database;
        let oidc = self.settings.oidc.as_ref();
        let Some(oidc) = oidc.filter(|_| !database.location().is_missing_file()) else {
            return Ok(page.document("sessions", Vec::new()));
        };
        let sessions = self.database().await?.operator_sessions(oidc.rules()).await?;
        let found = sessions.iter().filter(|session| page.matches(&session.name));
        Ok(page.document("sessions", found.map(shown).collect()))
    }

    /// Ends a session, whose operator must log in again. It is refused at once, by every gateway of the
    /// store.
    pub(crate) async fn revoke_session(&self, actor: &Operator, id: &str) -> Result<Value> {
        let by = Actor::from(actor).to_string();
        let Some(name) = self.database().await?.revoke_operator_session(id, &by).await? else {
            return Err(not_found(format!("no session has the identifier {id:?}")));
        };
        info!(actor = actor.name, operator = name, "a session of an operator was revoked");
        self.settings.acts.record(|| Act::new(ActKind::OperatorLoggedOut, actor, &name));
        Ok(json!({"message": "Session revoked successfully"}))
    }
}

fn shown(session: &OperatorSession) -> Value {
    json!({
        "id": session.id,
        "name": session.name,
        "issuer": session.issuer,
        "subject": session.subject,
        "role": session.role,
        "sees_payloads": session.sees_payloads,
        "created_at": rfc3339(session.created_ms),
        "last_seen_at": rfc3339(session.seen_ms),
        "expires_at": rfc3339(session.expires_ms),
    })
}
