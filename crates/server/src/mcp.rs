//! MCP: a thin translation of `operations` for agents. Who speaks comes with the connection, never
//! in an argument; each role sees its own tools and can call no others. It keeps no state: what an
//! agent has in hand is a lease in the store, so any server can answer any call.

pub mod bridge;
mod prompts;
mod reporting;
mod resources;
mod tools;
mod words;

use std::sync::Arc;

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::ToolCallContext;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams,
    GetPromptResponse, Implementation, JsonObject, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};

use app::failure::{ExitKind, Failure};
use app::operations::App;
use app::operations::identity::{self, Identity};
use app::operations::presence::AgentPresence;

/// One for all agents.
#[derive(Clone, Debug)]
pub struct McpServer {
    office: App,
    router: ToolRouter<Self>,
    /// All of them, as they are shown.
    tools: Arc<Vec<Tool>>,
    /// Who speaks where the connection does not say: on stdio, whoever started us.
    alone: Option<Identity>,
    presence: Arc<AgentPresence>,
}

const INSTRUCTIONS: &str = "Countersign gives you work and takes your result. If you have the tool \
get_my_assignment, call it (or wait_for_work), accept the assignment, do it as its brief says, and \
report: a builder with submit_for_review, a reviewer with submit_review_result. Every report carries \
the assignment's attempt. Send a heartbeat while you work: a silent agent loses its assignment to \
another. If you do not have it, your prompt is your assignment and your answer there is \
your result; these tools are for what comes up on the way: checkpoint, request_help, send_message.";

impl McpServer {
    pub fn new(office: App, alone: Option<Identity>) -> Self {
        let router = Self::tools();
        let shown = router.list_all().into_iter().map(shortened).collect();
        Self {
            office,
            router,
            tools: Arc::new(shown),
            alone,
            presence: Arc::default(),
        }
    }

    /// The speaker, whom the listener has recognised, or who started us.
    fn speaker(&self, context: &RequestContext<RoleServer>) -> Result<Identity, ErrorData> {
        let parts = context.extensions.get::<axum::http::request::Parts>();
        let recognised = parts.and_then(|parts| parts.extensions.get::<Identity>());
        recognised
            .or(self.alone.as_ref())
            .cloned()
            .ok_or_else(|| ErrorData::invalid_request("nobody is recognised by this call", None))
    }

    async fn write_down(&self, speaker: &Identity, tool: &str, why: &str) {
        let body = json!({"tool": tool, "role": speaker.actor.role.word(), "why": why});
        identity::note_refusal(&self.office, Some(speaker), body).await;
    }

    /// A result that is not taken: of a lease that is somebody else's by now, of another's work, or a
    /// second one under the same claim.
    async fn refuse_result(&self, speaker: &Identity, tool: &str, failure: Failure) -> String {
        if failure.exit == ExitKind::Refused && !failure.on_record {
            self.write_down(speaker, tool, &failure.message).await;
        }
        told(failure)
    }

    async fn refuse(&self, speaker: &Identity, tool: &str) -> CallToolResponse {
        let role = speaker.actor.role;
        let mut why = match tools::barred(speaker, tool) {
            Some(barred) => barred.to_string(),
            None => format!("the tool {tool} is not for the role {}", role.word()),
        };
        why.push_str("; yours are: ");
        why.push_str(&tools::of(speaker).join(", "));
        self.write_down(speaker, tool, &why).await;
        CallToolResult::error(vec![ContentBlock::text(why)]).into()
    }
}

/// Serves one agent over standard input and output, until it closes them.
pub async fn serve_stdio(office: App, speaker: Identity) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::error(format!("the connection to the agent failed: {error}"))
    };
    let served = McpServer::new(office, Some(speaker))
        .serve(rmcp::transport::stdio())
        .await
        .map_err(|error| failed(&error))?;
    served.waiting().await.map_err(|error| failed(&error))?;
    Ok(())
}

/// What an agent is told of a failure: it reads it and can act.
fn told(failure: Failure) -> String {
    let mut text = failure.message;
    for hint in failure.hints {
        text.push_str("\nhint: ");
        text.push_str(&hint);
    }
    text
}

/// What schemas say beside their meaning costs every agent's context.
fn shortened(mut tool: Tool) -> Tool {
    tool.input_schema = Arc::new(tidied(&tool.input_schema));
    let output = tool.output_schema.as_deref();
    tool.output_schema = output.map(|schema| Arc::new(tidied(schema)));
    tool
}

fn tidied(schema: &JsonObject) -> JsonObject {
    let noise = |name: &str, value: &Value| match name {
        "$schema" | "format" | "title" => value.is_string(),
        "default" => value.is_null(),
        "minimum" => value == 0,
        _ => false,
    };
    let kept = schema.iter().filter(|(name, value)| !noise(name, value));
    kept.map(|(name, value)| (name.clone(), tidied_value(value)))
        .collect()
}

fn tidied_value(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(tidied(fields)),
        Value::Array(items) => items.iter().map(tidied_value).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn mine(speaker: &Identity, tool: &Tool) -> bool {
    tools::of(speaker).contains(&tool.name.as_ref())
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
        let speaker = self.speaker(&context)?;
        let ours = self.tools.iter().filter(|tool| mine(&speaker, tool));
        Ok(ListToolsResult::with_all_items(ours.cloned().collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let speaker = self.speaker(&context)?;
        let Some(tool) = self.router.get(&request.name) else {
            return Err(ErrorData::invalid_params(
                format!("there is no tool {}", request.name),
                None,
            ));
        };
        if !mine(&speaker, tool) {
            return Ok(self.refuse(&speaker, &request.name).await);
        }
        self.presence.sign(&self.office, &speaker);
        let (caller, tool) = (&speaker.actor.agent, &request.name);
        tracing::info!(target: "request", caller, %tool, "tool called");
        context.extensions.insert(speaker);
        let call = ToolCallContext::new(self, request, context);
        self.router.call(call).await
    }

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
        let speaker = self.speaker(&context)?;
        let resources = resources::list(&self.office, &speaker).await?;
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
        let speaker = self.speaker(&context)?;
        let read = resources::read(&self.office, &speaker, &request.uri).await?;
        Ok(read.into())
    }
}
