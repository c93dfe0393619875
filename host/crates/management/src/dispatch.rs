//! A request of an operator → its act → the method that does it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    operators::{describe, rights},
    refusal::{Result, forbidden, refusal},
    route::Act,
    service::Service,
};
use airlock_core::{door::Membership, operator::Operator};
use airlock_operator_api::{Management, ManagementRefusal, ManagementRequest, OperatorLogins};

impl Service {
    async fn respond(
        &self,
        operator: Option<&Operator>,
        request: ManagementRequest,
    ) -> Result<Value> {
        let act = Act::find(&request.method, &request.path)?;
        let Some(right) = act.right() else { return self.set_up(request).await };
        let Some(actor) = operator else { return Err(no_operator(self.setup.is_active())) };
        if !actor.role.has(right) {
            return Err(forbidden(format!(
                "the operator {:?} has the role {:?}, which does not permit this",
                actor.name,
                actor.role.name()
            )));
        }
        let body = request.body;
        match act {
            Act::SetUp => unreachable!("it needs no right"),
            Act::ShowSession => {
                Ok(json!({"operator": describe(actor), "rights": rights(actor.role)}))
            }
            Act::EndSession => self.end_session(actor, request.session).await,
            Act::ListSessions => self.list_sessions(&request.query).await,
            Act::RevokeSession(id) => self.revoke_session(actor, &id).await,
            Act::ListOperators => self.list_operators().await,
            Act::AddOperator => self.add_operator(actor, body).await,
            Act::RemoveOperator(name) => self.remove_operator(actor, &name).await,
            Act::AddClient => self.add_client(actor, body).await,
            Act::UpdateClient(name) => self.update_client(actor, &name, body).await,
            Act::RemoveClient(name) => self.remove_client(actor, &name).await,
            Act::ListPlugins => self.list_plugins(&request.query).await,
            Act::InstallPlugin => {
                self.install_plugin(actor, &request.query, request.component).await
            }
            Act::ShowPlugin(name) => self.show_plugin(&name).await,
            Act::UpdatePlugin(name) => self.update_plugin(actor, &name, body).await,
            Act::RemovePlugin(name) => self.remove_plugin(actor, &name).await,
            Act::AcceptPlugin(name) => self.accept_plugin(actor, &name, body).await,
            Act::ListKeys => self.list_keys(&request.query).await,
            Act::CreateKey => self.create_key(actor, body).await,
            Act::ShowKey(id) => self.show_key(&id).await,
            Act::UpdateKey(id) => self.update_key(actor, &id, body).await,
            Act::DeleteKey(id) => Box::pin(self.delete_key(actor, &id)).await,
            Act::RotateKey(id) => self.rotate_key(actor, &id, body).await,
            Act::RotateKeys => self.rotate_keys(actor, body).await,
            Act::ListElements(listed) => self.list_elements(listed, &request.query).await,
            Act::CreateElement(listed) => self.create_element(actor, listed, body).await,
            Act::ShowElement(listed, id) => self.show_element(listed, &id).await,
            Act::UpdateElement(listed, id) => self.update_element(actor, listed, &id, body).await,
            Act::DeleteElement(listed, id) => self.delete_element(actor, listed, &id).await,
            Act::AttachKey(listed, id, key) => {
                self.attach_key(actor, listed, &id, &key, true).await
            }
            Act::DetachKey(listed, id, key) => {
                self.attach_key(actor, listed, &id, &key, false).await
            }
            Act::ListBudgets => self.list_budgets(&request.query).await,
            Act::ListRateLimits => self.list_rate_limits(&request.query).await,
            Act::SetOverride(owner, id, budget) => {
                self.set_override(actor, owner, &id, &budget, body).await
            }
            Act::ClearOverride(owner, id, budget) => {
                self.clear_override(actor, owner, &id, &budget).await
            }
            Act::ShowConfig => self.show_config().await,
            Act::UpdateConfig => self.update_config(actor, body).await,
            Act::ListChanges => self.list_changes(&request.query).await,
            Act::Revert(id) => self.revert(actor, id).await,
            Act::ListSettings => self.list_settings().await,
            Act::Preview => self.preview(body).await,
            Act::Logs(kind, wanted) => self.logs(actor, kind, wanted, &request.query, body).await,
        }
    }
}

impl Management for Service {
    fn operator(&self, token: &str) -> Option<Arc<Operator>> {
        self.operators.find(token, self.settings.database.now())
    }

    fn answer<'a>(
        &'a self,
        operator: Option<&'a Operator>,
        request: ManagementRequest,
    ) -> BoxFuture<'a, Result<Value>> {
        Box::pin(self.respond(operator, request))
    }

    fn quota<'a>(&'a self, membership: &'a Membership) -> BoxFuture<'a, Result<Value>> {
        Box::pin(self.show_quota(membership))
    }

    fn logins(&self) -> Option<&dyn OperatorLogins> {
        self.settings.oidc.as_ref().map(|oidc| oidc as &dyn OperatorLogins)
    }
}

fn no_operator(is_new: bool) -> ManagementRefusal {
    let way = if is_new {
        "this gateway has no operator yet: send its setup token to POST /api/session/setup"
    } else {
        "send the token of an operator as `Authorization: Bearer …`"
    };
    refusal(
        StatusCode::UNAUTHORIZED,
        "operator_required",
        format!("an operator is required; {way}"),
    )
}
