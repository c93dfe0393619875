//! A gateway as a Python object. Each method returns its work, which is then done on the thread of the
//! caller or beside an event loop.

use std::{mem, path::PathBuf, sync::Arc};

use airlock_binding::{
    BindingChat, BindingFailure, BindingGateway, GatewayChoices, GatewayConfig, HostRuntime,
    RequestOptions,
};
use pyo3::{PyTraverseError, PyVisit, prelude::*, types::PyTuple};

use crate::{
    convert::to_object,
    interrupt::Interrupt,
    program::{ProgramCaller, ProgramFunctions},
    raise::raise,
    tools::ToolSet,
    work::{GatewayWork, WorkResult},
};

/// Key, clients, tools, tools to take away, language, approval, seconds, whether the program is the operator, whether each
/// call is its own approval, the depth of the call whose function sends the request, and the number of scripts in each other
/// around it.
type OptionFields = (
    Option<String>,
    Option<Vec<String>>,
    Option<Vec<String>>,
    Option<Vec<String>>,
    Option<String>,
    Option<String>,
    Option<f64>,
    bool,
    bool,
    u32,
    u32,
);

/// A configuration: a file, or a mapping.
type ConfigFields<'py> = (Option<PathBuf>, Option<Bound<'py, PyAny>>);

/// The functions of the tools, the answers of the model function, whether it is `async def`, an event loop, and the
/// context of the program.
type ProgramPlace = (Py<PyTuple>, Option<Py<PyAny>>, bool, Option<Py<PyAny>>, Py<PyAny>);

/// A gateway.
#[pyclass(frozen, module = "airlock._airlock", name = "NativeGateway")]
pub(crate) struct GatewayHandle {
    pub(crate) gateway: Arc<BindingGateway>,
    pub(crate) program: Py<ProgramFunctions>,
}

/// A streamed chat.
#[pyclass(frozen, module = "airlock._airlock", name = "NativeChat")]
pub(crate) struct ChatHandle {
    pub(crate) chat: Arc<BindingChat>,
    pub(crate) host: Arc<HostRuntime>,
    pub(crate) interrupt: Arc<Interrupt>,
    pub(crate) program: Py<ProgramFunctions>,
}

/// Returns the work that starts a gateway.
#[pyfunction]
pub(crate) fn start_gateway(
    py: Python<'_>,
    config: ConfigFields<'_>,
    tools: &Bound<'_, ToolSet>,
    is_code_mode: bool,
    place: ProgramPlace,
) -> PyResult<GatewayWork> {
    let host = HostRuntime::current().map_err(|failure| raise(py, &failure))?;
    let config = match config {
        (Some(path), _) => GatewayConfig::File(path),
        (None, Some(members)) => GatewayConfig::Inline(to_object(&members)?),
        (None, None) => GatewayConfig::Inline(serde_json::Map::new()),
    };
    let (functions, answers, is_model_async, event_loop, context) = place;
    let choices = GatewayChoices {
        config,
        tools: tools.get().pool.specs().to_vec(),
        is_code_mode,
        has_model: answers.is_some(),
    };
    let tools = tools.clone().unbind();
    let answers = answers.unwrap_or_else(|| py.None());
    let program = ProgramFunctions { tools, functions, answers, event_loop, context };
    let program = Bound::new(py, program)?;
    let caller = ProgramCaller::new(&program, host.function_threads().clone(), is_model_async)?;
    let starting = BindingGateway::start(host.clone(), choices, Arc::new(caller));
    let starting = async move { starting.await.map(WorkResult::Gateway) };
    Ok(GatewayWork::new(host, Arc::default(), program.unbind(), starting))
}

#[pymethods]
impl GatewayHandle {
    fn tools(&self, py: Python<'_>, options: OptionFields) -> PyResult<GatewayWork> {
        self.request(py, options, |gateway, options| async move {
            gateway.tools(options).await.map(WorkResult::Json)
        })
    }

    fn call(
        &self,
        py: Python<'_>,
        options: OptionFields,
        name: String,
        arguments: &Bound<'_, PyAny>,
    ) -> PyResult<GatewayWork> {
        let arguments = to_object(arguments)?;
        self.request(py, options, |gateway, options| async move {
            gateway.call(options, &name, arguments).await.map(WorkResult::Json)
        })
    }

    fn run_script(
        &self,
        py: Python<'_>,
        options: OptionFields,
        code: String,
    ) -> PyResult<GatewayWork> {
        self.request(py, options, |gateway, options| async move {
            gateway.run_script(options, &code).await.map(WorkResult::Json)
        })
    }

    fn chat(
        &self,
        py: Python<'_>,
        options: OptionFields,
        body: &Bound<'_, PyAny>,
    ) -> PyResult<GatewayWork> {
        let body = to_object(body)?;
        self.request(py, options, |gateway, options| async move {
            gateway.chat(options, body).await.map(WorkResult::Json)
        })
    }

    fn chat_stream(
        &self,
        py: Python<'_>,
        options: OptionFields,
        body: &Bound<'_, PyAny>,
    ) -> PyResult<GatewayWork> {
        let body = to_object(body)?;
        self.request(py, options, |gateway, options| async move {
            gateway.chat_stream(options, body).await.map(WorkResult::Chat)
        })
    }

    fn pending(&self, py: Python<'_>, options: OptionFields) -> PyResult<GatewayWork> {
        self.request(py, options, |gateway, options| async move {
            gateway.pending(options).await.map(WorkResult::Json)
        })
    }

    fn approve(&self, py: Python<'_>, options: OptionFields, id: String) -> PyResult<GatewayWork> {
        self.request(py, options, |gateway, options| async move {
            gateway.approve(options, &id).await.map(|()| WorkResult::Nothing)
        })
    }

    fn deny(
        &self,
        py: Python<'_>,
        options: OptionFields,
        id: String,
        reason: String,
    ) -> PyResult<GatewayWork> {
        self.request(py, options, |gateway, options| async move {
            gateway.deny(options, &id, &reason).await.map(|()| WorkResult::Nothing)
        })
    }

    fn resume(&self, py: Python<'_>, options: OptionFields, id: String) -> PyResult<GatewayWork> {
        self.request(py, options, |gateway, options| async move {
            gateway.resume(options, &id).await.map(WorkResult::Json)
        })
    }

    fn serve(&self, py: Python<'_>) -> PyResult<GatewayWork> {
        self.work(py, |gateway| async move { gateway.serve().await.map(WorkResult::Address) })
    }

    fn stop(&self, py: Python<'_>) -> PyResult<GatewayWork> {
        self.work(py, |gateway| async move { gateway.stop().await.map(|()| WorkResult::Nothing) })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.program)
    }
}

impl GatewayHandle {
    /// Returns work of the gateway. Fails if it belongs to the parent of a fork.
    fn work<W>(
        &self,
        py: Python<'_>,
        begin: impl FnOnce(Arc<BindingGateway>) -> W,
    ) -> PyResult<GatewayWork>
    where
        W: Future<Output = Result<WorkResult, BindingFailure>> + Send + 'static,
    {
        let host = self.gateway.host().map_err(|failure| raise(py, &failure))?;
        let work = begin(self.gateway.clone());
        Ok(GatewayWork::new(host, Arc::default(), self.program.clone_ref(py), work))
    }

    /// Returns work of the gateway that is a request. Fails as [`Self::work`].
    fn request<W>(
        &self,
        py: Python<'_>,
        options: OptionFields,
        begin: impl FnOnce(Arc<BindingGateway>, RequestOptions) -> W,
    ) -> PyResult<GatewayWork>
    where
        W: Future<Output = Result<WorkResult, BindingFailure>> + Send + 'static,
    {
        let host = self.gateway.host().map_err(|failure| raise(py, &failure))?;
        let (options, interrupt) = read(options);
        let work = begin(self.gateway.clone(), options);
        Ok(GatewayWork::new(host, interrupt, self.program.clone_ref(py), work))
    }
}

#[pymethods]
impl ChatHandle {
    /// Returns the work that waits for the next chunk; its result is `None` after the last one.
    fn next(&self, py: Python<'_>) -> GatewayWork {
        let chat = self.chat.clone();
        let next = async move {
            let next = chat.next().await?;
            Ok::<_, BindingFailure>(next.map_or(WorkResult::Nothing, WorkResult::Json))
        };
        let program = self.program.clone_ref(py);
        GatewayWork::new(self.host.clone(), self.interrupt.clone(), program, next)
    }

    /// Cancels the chat. Does nothing in the child of a fork: the chat is that of its parent.
    fn close(&self) {
        if self.host.is_this() {
            let _runtime = self.host.handle().enter();
            self.chat.close();
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.program)
    }
}

impl Drop for ChatHandle {
    fn drop(&mut self) {
        self.close();
        if !self.host.is_this() {
            // Dropping a chat takes locks of the runtime, which threads of the parent may have held at the fork.
            mem::forget(self.chat.clone());
        }
    }
}

/// Returns the options of a request, and the place for the exception that ends it.
fn read(options: OptionFields) -> (RequestOptions, Arc<Interrupt>) {
    let (
        key,
        clients,
        tools,
        exclude_tools,
        language,
        approval,
        timeout_seconds,
        is_operator,
        is_approving,
        depth,
        nesting,
    ) = options;
    let interrupt = Arc::new(Interrupt::within(nesting));
    let options = RequestOptions {
        key,
        clients,
        tools,
        exclude_tools,
        language,
        approval,
        timeout_seconds,
        is_operator,
        is_approving,
        depth,
        context: Some(interrupt.clone()),
    };
    (options, interrupt)
}
