//! The requests: what each is checked for, and the API that handles it.

mod route;

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderName, Request};
use tracing::{debug, error, info};

use self::route::{Route, StatusRoute};
use super::{
    App, audit_key, availability, chat, cors, debug, execute, health, identity,
    logins::{self, sessions},
    mcp, messages, metrics, models, origin, quota, responses, results, runs,
    sender::sender_of,
    served,
    template::{MESSAGES, NO_ROUTE},
    trace::RequestSpan,
};
use airlock_core::request_memory::{ChargeRefused, REQUEST_BYTES, RequestCharge};
use airlock_http::{
    alias, body,
    memory::{AfterWork as _, head_bytes},
    respond::{ApiError, Reply, RequestId},
};
use airlock_ingress::{ChargedReply, Ingress, Payload, RequestBody, Seat, ShareInUse};
use airlock_operator_api::{
    admin, admin_page, approvals, console, explain, management,
    operator::{self, RequestOperator},
    operator_login, reload, upstreams,
};
use airlock_requests::Sender;
use airlock_telemetry::TraceFuture as _;

/// Header with the identifier of a request, by Anthropic's name.
const ANTHROPIC_REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// The same header by OpenAI's name.
const OPENAI_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A request whose head was checked.
enum Admission<'p> {
    /// It is answered.
    Handled(Reply),
    /// Its API handles it.
    Charged(Box<Charged<'p>>),
}

/// A request that its API handles.
struct Charged<'p> {
    route: Route<'p>,
    sender: Sender,
    /// The operator who sends it; `None` for callers.
    actor: Option<RequestOperator>,
    ingress: Ingress,
    charge: RequestCharge,
}

impl App {
    /// Handles one request. A panic becomes an internal error.
    pub(super) async fn respond(
        &self,
        mut request: Request<RequestBody>,
        ingress: Ingress,
    ) -> ChargedReply {
        alias::apply(&mut request);
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        let logged_path = logins::logged_path(&path);
        let route = Route::parse(&path);
        let observed = self.hooks.http.begin(route.map_or(NO_ROUTE, Route::template));
        request.body_mut().count_in(self.hooks.http.received());
        let page = cors::origin(&self.settings, request.headers());
        let is_anthropic = path.starts_with(MESSAGES)
            || request.extensions().get::<alias::BelowAnthropic>().is_some();
        let is_model = matches!(route, Some(Route::Chat | Route::Responses | Route::Messages));
        let request_id = (is_anthropic || is_model).then(RequestId::generate);
        // Anthropic's API and the debug records alone read it: without them, a request has no map of extensions.
        if let Some(id) = request_id.as_ref().filter(|_| is_anthropic || self.debug.is_some()) {
            request.extensions_mut().insert(id.clone());
        }
        // Unwind-safe: the catalog snapshot and the view belong to the request alone, so no state
        // of it is used after a panic.
        // Boxed: it is large, and catching a panic moves it.
        let mut span = RequestSpan::default();
        let routed = Box::pin(self.route(route, request, ingress, &mut span));
        let routed = AssertUnwindSafe(routed).catch_unwind();
        let reply = routed.await.unwrap_or_else(|_| {
            error!(%method, path = logged_path, "a request made the gateway panic");
            Err(ApiError::internal())
        });
        let mut reply = reply.unwrap_or_else(|error| match (route, &request_id) {
            (_, Some(id)) if is_anthropic => (error.into_anthropic_reply(id), None),
            (Some(Route::Mcp(_) | Route::Sse(_)), _) => (mcp::rpc_failure(error), None),
            _ => (error.into_reply(), None),
        });
        if let Some(id) = &request_id {
            let name = if is_anthropic { ANTHROPIC_REQUEST_ID } else { OPENAI_REQUEST_ID };
            reply.0.headers_mut().insert(name, id.to_header());
        }
        if let Some(page) = page {
            cors::permit(page, reply.0.headers_mut());
        }
        let status = reply.0.status();
        let duration = observed.elapsed();
        // Calls are logged at the default level. Of a streamed response, its beginning is.
        let is_call = matches!(
            route,
            Some(Route::Chat | Route::Responses | Route::Messages | Route::Execute)
        );
        if status.is_success() && is_call {
            let id = request_id.map(tracing::field::display);
            info!(%method, path = logged_path, status = status.as_u16(), ?duration, id, "request");
        } else {
            debug!(%method, path = logged_path, status = status.as_u16(), ?duration, "request");
        }
        (observed.end(span.end(reply.0), duration), reply.1)
    }

    async fn route(
        &self,
        route: Option<Route<'_>>,
        request: Request<RequestBody>,
        ingress: Ingress,
        span: &mut RequestSpan,
    ) -> Result<ChargedReply, ApiError> {
        let charged = match self.admit(route, &request, ingress).await {
            Ok(Admission::Handled(reply)) => return Ok((reply, None)),
            Ok(Admission::Charged(charged)) => charged,
            Err(error) => {
                // The places that are left when all others are in use are given back at once.
                let is_reserved = request.body().seat().is_some_and(Seat::is_reserved);
                if !is_reserved {
                    body::discard(request).await;
                }
                return Err(error);
            }
        };
        if charged.route.is_traced() {
            *span = RequestSpan::begin(&request, charged.route.template(), &charged.sender);
        }
        let reply = self.dispatch(&charged, request).in_span(span.span()).await?;
        let charge = charged.charge;
        // A streamed response is still being made, and what it holds stays charged.
        if let Payload::Whole(body) = reply.body() {
            let bytes = REQUEST_BYTES + body.len();
            charge.settle(bytes).map_err(ChargeRefused::after_work)?;
        }
        Ok((reply, Some(charge)))
    }

    /// Checks, authenticates and charges a request by its head. Handles it if that needs no charge.
    async fn admit<'p>(
        &self,
        route: Option<Route<'p>>,
        request: &Request<RequestBody>,
        ingress: Ingress,
    ) -> Result<Admission<'p>, ApiError> {
        let headers = request.headers();
        if route.is_some_and(|route| route.is_visited(request.method())) {
            origin::check_visit(&self.settings, ingress, headers, request.uri())?;
        } else {
            origin::check(&self.settings, ingress, headers, request.uri())?;
        }
        served::check(ingress, request.uri().path())?;
        let route = route
            .filter(|route| self.settings.mcp.sse || !matches!(route, Route::Sse(_)))
            .ok_or_else(|| ApiError::no_such_path(alias::sent_path(request)))?;
        if cors::is_preflight(request)
            && cors::origin(&self.settings, headers).is_some()
            && !route.is_of_operators()
        {
            return Ok(Admission::Handled(cors::preflight(route.methods(), headers)));
        }
        if !route.methods().contains(request.method()) {
            return Err(ApiError::wrong_method(route.methods()));
        }
        let seat = request.body().seat();
        let shows_state = matches!(
            route,
            Route::Status(StatusRoute::Health | StatusRoute::Readiness | StatusRoute::Metrics)
        );
        if seat.is_some_and(Seat::is_reserved) && !shows_state {
            return Err(availability::all_in_use());
        }
        if !shows_state {
            availability::check_settings(&self.hooks.settings_read)?;
        }
        let actor = self.actor(route, request, ingress, seat).await?;
        let is_local = matches!(ingress, Ingress::Socket(_));
        if actor.is_none() && is_local && matches!(route, Route::Approvals(..)) {
            // A confined server reaches the socket, and must not decide as a caller without a key.
            return Err(operator::required(approvals::WORDS));
        }
        if let Route::Status(status) = route {
            return self.show(status, headers).await.map(Admission::Handled);
        }
        let mut sender = match (route, &actor) {
            (_, Some(_)) => Sender::of_operator(),
            // A user at a page has no credential of the gateway: a link is one.
            (Route::Management | Route::Login(_) | Route::OperatorLogin(_), None) => {
                sender_of(None, headers)?
            }
            _ => {
                let rules = route.credentials();
                identity::sender(self, rules, headers, ingress, seat).await?
            }
        };
        let waits = route.waits(request.method());
        if let Some(seat) = seat {
            let claimed = seat.claim(&sender.tenant(), waits);
            claimed.map_err(|ShareInUse| availability::share_in_use())?;
        }
        let charge = self.parts.memory.open(sender.tenant(), head_bytes(headers))?;
        // A stream lasts for hours, longer than its token may be valid.
        if let Some(token) = sender.take_token().filter(|_| !waits) {
            charge.hold(token);
        }
        let charged = Charged { route, sender, actor, ingress, charge };
        Ok(Admission::Charged(Box::new(charged)))
    }

    /// Finds the operator of a request to what operators use. Fails if its credential is not valid, or
    /// if only another operator may send the request. Callers have other credentials, and may use a part
    /// of it.
    async fn actor(
        &self,
        route: Route<'_>,
        request: &Request<RequestBody>,
        ingress: Ingress,
        seat: Option<&Seat>,
    ) -> Result<Option<RequestOperator>, ApiError> {
        let act = route.act();
        if act.is_none() && !route.takes_operators() {
            return Ok(None);
        }
        let headers = request.headers();
        let actor =
            operator::identify(&self.operators, ingress, request.method(), headers, seat).await?;
        let operator = actor.as_ref().map(|actor| &*actor.operator);
        if let Some(act) = act {
            operator::check(act, operator, ingress, headers)?;
            // Of the metrics, which are shown to programs of this machine.
            if operator.is_none() {
                origin::check_unbound(&self.settings, headers, request.uri())?;
            }
            if let Some(operator) = operator.filter(|_| act.changes()) {
                info!(operator = operator.name, path = request.uri().path(), "an operator acts");
            }
        }
        if matches!(route, Route::Management) {
            management::check(operator, request)?;
        }
        Ok(actor)
    }

    /// Hands a request to its API. The futures of large APIs that are seldom used are boxed: that of each request would have
    /// their room.
    async fn dispatch(
        &self,
        charged: &Charged<'_>,
        request: Request<RequestBody>,
    ) -> Result<Reply, ApiError> {
        let Charged { route, sender, actor, ingress, charge } = charged;
        let operator = actor.as_ref().map(|actor| &*actor.operator);
        match *route {
            Route::Chat => chat::complete(self, sender, request, charge).await,
            Route::Responses => responses::create(self, sender, request, charge).await,
            Route::InputTokens => Box::pin(responses::count(self, sender, request, charge)).await,
            Route::Messages => messages::create(self, sender, request, charge).await,
            Route::MessageTokens => Box::pin(messages::count(self, sender, request, charge)).await,
            Route::StoredResponse(target, id) => {
                responses::stored(self, sender, target, id, request, charge).await
            }
            Route::Runs(target, id) => runs::run(self, sender, target, id, request, charge).await,
            Route::Execute => execute::run(self, sender, request, charge).await,
            Route::Result(handle) => {
                Box::pin(results::raw(self, sender, handle, request, charge)).await
            }
            Route::Clients => {
                let head = request.into_parts().0;
                admin::clients(&self.operators, sender, operator, head.uri.query(), charge).await
            }
            Route::Explain => {
                let head = request.into_parts().0;
                explain::show(&self.operators, head.uri.query().unwrap_or_default(), charge).await
            }
            Route::Console(target) => {
                let actor = actor.as_ref().ok_or_else(ApiError::internal)?;
                console::run(&self.operators, actor, target, request, charge).await
            }
            Route::Debug(id) => {
                let operator = operator.ok_or_else(ApiError::internal)?;
                Box::pin(debug::show(self, operator, *ingress, id, request, charge)).await
            }
            Route::Management => {
                Box::pin(management::answer(
                    &self.operators,
                    actor.as_ref(),
                    *ingress,
                    request,
                    charge,
                ))
                .await
            }
            Route::Quota => {
                drop(request);
                quota::show(self, sender).await
            }
            Route::Mcp(rest) => mcp::handle(self, sender, rest, request, charge).await,
            Route::Sse(mcp::SseTarget::Stream(rest)) => {
                mcp::sse::open(self, sender, rest, &request)
            }
            Route::Sse(mcp::SseTarget::Message) => {
                Box::pin(mcp::sse::post(self, sender, request, charge)).await
            }
            Route::Approvals(target, id) => {
                let actor = actor.as_ref();
                approvals::run(&self.operators, sender, actor, target, id, request, charge).await
            }
            Route::Model(id) => {
                drop(request);
                models::show(self, id, charge).await
            }
            Route::Models => {
                // Drops the unread body, so that it is not held while the providers are queried.
                drop(request);
                models::list(self, sender, charge).await
            }
            Route::Reload(client) => {
                drop(request);
                reload::run(&self.operators, client).await
            }
            Route::ReloadConfiguration => {
                drop(request);
                reload::run_all(&self.operators).await
            }
            Route::Upstream(operation, client) => {
                let head = request.into_parts().0;
                upstreams::run(&self.operators, operation, client, head.uri.query()).await
            }
            Route::OperatorLogin(step) => {
                Ok(operator_login::answer(&self.operators, step, *ingress, request).await)
            }
            Route::Login(page) => {
                Box::pin(logins::answer(self, page, *ingress, request, charge)).await
            }
            Route::LoginSessions(target) => {
                sessions::run(self, sender, operator, target, request, charge).await
            }
            Route::Status(status) => self.show(status, request.headers()).await,
        }
    }

    async fn show(&self, route: StatusRoute<'_>, headers: &HeaderMap) -> Result<Reply, ApiError> {
        match route {
            StatusRoute::Health => Ok(health::show(self)),
            StatusRoute::Readiness => Ok(health::readiness(self)),
            StatusRoute::Metrics => metrics::show(&self.hooks.metrics).await,
            StatusRoute::ResourceMetadata(path) => identity::show(self, path),
            StatusRoute::AuditKey => audit_key::show(self),
            StatusRoute::Page(rest) => admin_page::show(&self.operators, rest, headers),
        }
    }
}
