//! MCP server: a thin translation of `operations` for agents. The identity comes with the
//! connection, never in an argument, and each role sees and calls only its own tools. The server
//! keeps no state: an agent's claim is a lease in the store, so any server can answer any call.
//!
//! An agent that names its own role, ticket or principal is not believed. Everything of that kind
//! comes from its token.

mod arguments;
pub mod bridge;
#[cfg(feature = "conformance")]
pub(crate) mod conformance;
mod forge_tools;
mod prompts;
mod reporting;
mod resources;
pub(crate) mod tool_access;
mod tool_types;
mod tools;

use std::sync::Arc;

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::ToolCallContext;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, Implementation, JsonObject,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};

use app::failure::{ExitKind, Failure};
use app::operations::App;
use app::operations::forge_tools::{CHANGE_TOOLS, ConfiguredTools, ISSUE_TOOLS};
use app::operations::identity::{self, Identity};
use app::operations::presence::AgentPresence;

/// MCP handler, shared by all agents.
#[derive(Clone, Debug)]
pub struct McpServer {
    app: App,
    router: ToolRouter<Self>,
    /// All tools with compacted schemas.
    tools: Arc<Vec<Tool>>,
    /// Identity on stdio, where the connection carries none.
    stdio_identity: Option<Identity>,
    presence: Arc<AgentPresence>,
    /// Kinds of forges that tools can reach.
    forges: ConfiguredTools,
}

/// Prompts for review loops by messages name their tools `apmas_send_message` and `apmas_complete`.
const MESSAGE_LOOP_PREFIX: &str = "apmas_";

/// Methods of every protocol version that need parameters. Others, such as `initialize`, exist only in
/// some versions, and have to be unknown in the rest.
const METHODS: [&str; 3] = ["prompts/get", "resources/read", "tools/call"];
/// Longest name of an unknown method that is repeated.
const METHOD_CHARS_MAX: usize = 80;

const INSTRUCTIONS: &str = "Countersign gives you work and takes your result. If you have the tool \
get_my_assignment, call it (or wait_for_work), accept the assignment, do it as its brief says (get_diff shows the change), and \
report: a builder with submit_for_review, a reviewer with submit_review_result. Every report carries \
the assignment's attempt. Send a heartbeat while you work: a silent agent loses its assignment to \
another. Without that tool, your prompt is your assignment and your answer there is \
your result; these tools are for what comes up on the way: checkpoint, request_help, send_message.";

impl McpServer {
    pub fn new(app: App, stdio_identity: Option<Identity>) -> Self {
        let router = Self::tools() + Self::forge_router();
        let forges = ConfiguredTools::load(&app.environment);
        // Compacted once at the start, and cloned per call.
        let tools = router.list_all().into_iter().map(compact_tool).collect();
        Self {
            app,
            router,
            tools: Arc::new(tools),
            stdio_identity,
            presence: Arc::default(),
            forges,
        }
    }

    /// Returns the identity that the auth middleware has attached, or the one of stdio.
    fn identify(&self, context: &RequestContext<RoleServer>) -> Result<Identity, ErrorData> {
        let parts = context.extensions.get::<axum::http::request::Parts>();
        let authenticated = parts.and_then(|parts| parts.extensions.get::<Identity>());
        authenticated
            // Over HTTP the middleware has put the identity there. On stdio the process was started
            // with one.
            .or(self.stdio_identity.as_ref())
            .cloned()
            .ok_or_else(|| ErrorData::invalid_request("the call has no identity", None))
    }

    async fn record_refusal(&self, identity: &Identity, tool: &str, why: &str) {
        let body = json!({"tool": tool, "role": identity.actor.role.as_str(), "why": why});
        identity::note_refusal(&self.app, Some(identity), body).await;
    }

    /// Records a refused report and returns its text: the lease has moved on, the work belongs to
    /// another agent, or the claim already has a result.
    async fn refuse_result(&self, identity: &Identity, tool: &str, failure: Failure) -> String {
        // The coordinator notes its own refusals; a second note would double them.
        if failure.exit == ExitKind::Refused && !failure.is_recorded {
            self.record_refusal(identity, tool, &failure.message).await;
        }
        error_text(failure)
    }

    async fn refuse(&self, identity: &Identity, tool: &str) -> CallToolResponse {
        let role = identity.actor.role;
        // A spawned agent gets the reason that fits its state, others the rule of the role.
        let mut why = match tool_access::denial(identity, tool) {
            Some(denied) => denied.to_string(),
            None => format!("the tool {tool} is not for the role {}", role.as_str()),
        };
        // The list tells the agent what it can do instead.
        why.push_str("; your tools are: ");
        why.push_str(&tool_access::tools_for(identity, self.forges).join(", "));
        self.record_refusal(identity, tool, &why).await;
        CallToolResult::error(vec![ContentBlock::text(why)]).into()
    }
}

/// Serves one agent over standard input and output, until it closes them.
pub async fn serve_stdio(app: App, identity: Identity) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::error(format!("the connection to the agent failed: {error}"))
    };
    let server = McpServer::new(app, Some(identity));
    let served = Box::pin(server.serve(rmcp::transport::stdio()))
        .await
        .map_err(|error| failed(&error))?;
    served.waiting().await.map_err(|error| failed(&error))?;
    Ok(())
}

/// Renders a failure with its hints, for an agent to act on.
fn error_text(failure: Failure) -> String {
    let mut text = failure.message;
    for hint in failure.hints {
        text.push_str("\nhint: ");
        text.push_str(&hint);
    }
    text
}

/// Removes what adds nothing to a tool's schemas, because they cost every agent context.
fn compact_tool(mut tool: Tool) -> Tool {
    tool.input_schema = Arc::new(compact_root(&tool.input_schema));
    let output = tool.output_schema.as_deref();
    tool.output_schema = output.map(|schema| Arc::new(compact_root(schema)));
    let is_of_forge = CHANGE_TOOLS
        .iter()
        .chain(&ISSUE_TOOLS)
        .any(|name| tool.name == *name);
    if is_of_forge {
        // Agents need neither: the fields of a pull request explain themselves.
        tool.output_schema = None;
        tool.annotations = None;
    }
    if tool.name == "wait_for_work" {
        // The answer of `wait_for_work` is that of `get_my_assignment`, which has the whole schema;
        // the fields of a pull request explain themselves.
        let object = JsonObject::from_iter([("type".to_owned(), "object".into())]);
        tool.output_schema = Some(Arc::new(object));
    }
    tool
}

/// Leaves out the descriptions of types: the tool's and the fields' own say what they are for.
fn compact_root(schema: &JsonObject) -> JsonObject {
    let mut schema = compact_schema(schema);
    schema.shift_remove("description");
    let types = schema.get_mut("$defs").and_then(Value::as_object_mut);
    for definition in types.into_iter().flat_map(|types| types.values_mut()) {
        if let Some(fields) = definition.as_object_mut() {
            fields.shift_remove("description");
        }
    }
    schema
}

fn compact_schema(schema: &JsonObject) -> JsonObject {
    // Models ignore these fields, but every agent pays for them in its context.
    let noise = |name: &str, value: &Value| match name {
        "$schema" | "format" | "title" => value.is_string(),
        // A field that may be left out says so by not being required.
        "default" => [
            json!(null),
            json!(""),
            json!([]),
            json!({}),
            json!(0),
            json!(0.0),
        ]
        .contains(value),
        "minimum" => value == 0,
        _ => false,
    };
    let fields = schema.iter().filter(|(name, value)| !noise(name, value));
    fields
        .map(|(name, value)| (name.clone(), compact_value(value)))
        .collect()
}

fn compact_value(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(compact_schema(fields)),
        Value::Array(items) => items.iter().map(compact_value).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .build();
        let me = Implementation::new("countersign", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities)
            .with_server_info(me)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let identity = self.identify(&context)?;
        let tools = self.tools.iter();
        let listed = tool_access::listed_tools(&identity, self.forges);
        let tools = tools.filter(|tool| listed.contains(&tool.name.as_ref()));
        Ok(ListToolsResult::with_all_items(tools.cloned().collect()))
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let identity = self.identify(&context)?;
        if let Some(name) = request.name.strip_prefix(MESSAGE_LOOP_PREFIX) {
            request.name = name.to_owned().into();
        }
        // An unknown tool is an error of the protocol; a forbidden one is an answer that the agent
        // can act on.
        let Some(tool) = self.router.get(&request.name) else {
            return Err(ErrorData::invalid_params(
                format!("there is no tool {}", request.name),
                None,
            ));
        };
        let permitted = tool_access::tools_for(&identity, self.forges);
        if !permitted.contains(&tool.name.as_ref()) {
            return Ok(self.refuse(&identity, &request.name).await);
        }
        // Recorded before the call runs: a long call is a sign of life too.
        self.presence.record(&self.app, &identity);
        let (caller, tool) = (&identity.actor.agent, &request.name);
        tracing::info!(target: "request", caller, %tool, "tool called");
        // Tools read the identity from here and never from their arguments.
        context.extensions.insert(identity);
        let tool = request.name.clone();
        if let (Some(given), Some(tool)) = (&mut request.arguments, self.router.get(&tool)) {
            arguments::fit(given, &tool.input_schema);
        }
        let given = arguments::summarize(request.arguments.as_ref());
        let call = ToolCallContext::new(self, request, context);
        let mut answer = self.router.call(call).await;
        if let (Ok(CallToolResponse::Complete(result)), Some(tool)) =
            (&mut answer, self.router.get(&tool))
        {
            arguments::name_wrong_ones(result, &tool.input_schema, &given);
        }
        let succeeded = match &answer {
            Ok(CallToolResponse::Complete(result)) => result.is_error != Some(true),
            Ok(_) => true,
            Err(_) => false,
        };
        // Only names of our own tools come this far, so there are few.
        self.app.calls.count_tool(&tool, succeeded);
        answer
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = findings::shorten(&findings::one_line(&request.method), METHOD_CHARS_MAX);
        // A known method comes here if its parameters have another form.
        if METHODS.contains(&method.as_str()) {
            let why = format!("the parameters of {method} are missing or have another form");
            return Err(ErrorData::invalid_params(why, None));
        }
        let why = format!("there is no method {method}");
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None))
    }

    // Prompts are the same for every role, so no identity is needed.
    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::all()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(&request.name).map(Into::into)
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let identity = self.identify(&context)?;
        let resources = resources::list(&self.app, &identity).await?;
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            resources::templates(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let identity = self.identify(&context)?;
        let read = resources::read(&self.app, &identity, &request.uri).await?;
        Ok(read.into())
    }
}
