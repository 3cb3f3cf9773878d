//! Fixtures of the MCP conformance suite: the tools, resources and prompts that its scenarios call.
//! They exist only in a build with the feature `conformance`, which `scripts/interop` makes, so the
//! scenarios exercise our transport, authentication and handler. They touch no ticket.

use std::sync::LazyLock;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorCode, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, InputRequiredResult, InputResponses, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    Prompt, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceTemplate, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::McpServer;

static FIXTURES: LazyLock<Option<Fixtures>> =
    LazyLock::new(|| serde_json::from_str(include_str!("conformance.json")).ok());

/// The file `conformance.json`.
#[derive(Debug, Deserialize)]
struct Fixtures {
    tools: Vec<Fixture>,
    prompts: Vec<Fixture>,
    resources: Vec<Fixture>,
}

/// A tool, a prompt or a resource, with its answer.
#[derive(Debug, Deserialize)]
struct Fixture {
    name: String,
    /// Its entry in the list, in the form of the protocol. Without one it is not listed.
    #[serde(default)]
    listed: Value,
    /// Requests that the client has to fulfil before it gets the answer, round by round.
    #[serde(default)]
    asks: Vec<FixtureRound>,
    /// Leaves out requests whose capability the client does not declare.
    #[serde(default)]
    by_capability: bool,
    /// Capability that the client must declare.
    #[serde(default)]
    needs: Option<String>,
    /// Its text may contain `{ARGUMENT}` and, after a round, `{responses}`.
    #[serde(default)]
    answer: Value,
}

#[derive(Debug, Deserialize)]
struct FixtureRound {
    requests: Map<String, Value>,
    /// State that the client has to send back unchanged.
    #[serde(default)]
    state: Option<String>,
}

/// The parts of a request that fixtures look at.
struct FixtureCall {
    arguments: Map<String, Value>,
    responses: Option<InputResponses>,
    state: Option<String>,
    /// Names of the capabilities that the client declares.
    capabilities: Map<String, Value>,
}

/// Either the answer, or a request for input.
enum FixtureReply {
    Answer(Value),
    Asks(Value),
}

impl Fixture {
    fn reply(&self, call: &FixtureCall) -> Result<FixtureReply, ErrorData> {
        if let Some(needed) = &self.needs
            && !call.capabilities.contains_key(needed)
        {
            let data = json!({"requiredCapabilities": {needed: {}}});
            let code = ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY;
            let why = format!("the client does not declare {needed}");
            return Err(ErrorData::new(code, why, Some(data)));
        }
        let mut round = match &call.state {
            Some(state) => self.round_of(state)?,
            None => 0,
        };
        let asked = self.asks.get(round);
        if asked.is_some_and(|asked| asked.is_answered(call)) {
            round += 1;
        }
        match self.asks.get(round) {
            Some(next) => Ok(FixtureReply::Asks(self.ask(next, call))),
            None => Ok(FixtureReply::Answer(self.fill(call))),
        }
    }

    /// Returns the round whose state the client has sent back.
    fn round_of(&self, state: &str) -> Result<usize, ErrorData> {
        let is_ours = |round: &FixtureRound| round.state.as_deref() == Some(state);
        self.asks.iter().position(is_ours).ok_or_else(|| {
            ErrorData::invalid_params("requestState is not as it was sent".to_owned(), None)
        })
    }

    fn ask(&self, round: &FixtureRound, call: &FixtureCall) -> Value {
        let mut requests = round.requests.clone();
        if self.by_capability {
            requests.retain(|_, request| {
                let method = request["method"].as_str().unwrap_or_default();
                let (capability, _) = method.split_once('/').unwrap_or_default();
                call.capabilities.contains_key(capability)
            });
        }
        let mut asked = json!({"resultType": "input_required", "inputRequests": requests});
        if let Some(state) = &round.state {
            asked["requestState"] = state.clone().into();
        }
        asked
    }

    fn fill(&self, call: &FixtureCall) -> Value {
        let responses = json!(call.responses).to_string();
        let mut answer = self.answer.clone();
        // The newest protocol requires it; rmcp removes it for older clients.
        answer["resultType"] = "complete".into();
        fill_texts(&answer, &|text| {
            let text = call
                .arguments
                .iter()
                .fold(text.to_owned(), |text, (name, value)| {
                    let value = value
                        .as_str()
                        .map_or_else(|| value.to_string(), str::to_owned);
                    text.replace(&format!("{{{name}}}"), &value)
                });
            text.replace("{responses}", &responses)
        })
    }
}

impl FixtureRound {
    /// Returns whether the client answers all requests of this round. Other keys are ignored.
    fn is_answered(&self, call: &FixtureCall) -> bool {
        let Some(responses) = &call.responses else {
            return false;
        };
        let mut keys = self.requests.keys();
        keys.all(|key| responses.get(key).is_some_and(Value::is_object))
    }
}

fn fill_texts(value: &Value, fill: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => fill(text).into(),
        Value::Array(items) => items.iter().map(|item| fill_texts(item, fill)).collect(),
        Value::Object(fields) => {
            let filled = fields.iter();
            let filled = filled.map(|(name, value)| (name.clone(), fill_texts(value, fill)));
            Value::Object(filled.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(format!("a fixture is wrong: {error}"), None))
}

fn capabilities(context: &RequestContext<RoleServer>) -> Map<String, Value> {
    let declared = context.meta.client_capabilities();
    match declared.map(|declared| json!(declared)) {
        Some(Value::Object(declared)) => declared,
        _ => Map::new(),
    }
}

/// The MCP handler with the fixtures before it.
#[derive(Clone, Debug)]
pub struct ConformanceServer(pub McpServer);

impl ConformanceServer {
    fn find(list: fn(&Fixtures) -> &Vec<Fixture>, name: &str) -> Option<&'static Fixture> {
        let fixtures = list(FIXTURES.as_ref()?);
        fixtures.iter().find(|fixture| fixture.name == name)
    }

    /// Returns the listed entries of the wanted form.
    fn listed<T: DeserializeOwned>(
        list: fn(&Fixtures) -> &Vec<Fixture>,
        has: &str,
    ) -> Result<Vec<T>, ErrorData> {
        let fixtures = FIXTURES.iter().flat_map(list);
        let wanted = fixtures.filter(|fixture| fixture.listed.get(has).is_some());
        wanted.map(|fixture| read(fixture.listed.clone())).collect()
    }
}

impl ServerHandler for ConformanceServer {
    fn get_info(&self) -> ServerConfig {
        self.0.get_info()
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut list = self.0.list_tools(page, context).await?;
        let fixtures = Self::listed::<Tool>(|all| &all.tools, "inputSchema")?;
        list.tools.extend(fixtures);
        Ok(list)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(fixture) = Self::find(|all| &all.tools, &request.name) else {
            return self.0.call_tool(request, context).await;
        };
        let call = FixtureCall {
            arguments: request.arguments.unwrap_or_default(),
            responses: request.input_responses,
            state: request.request_state,
            capabilities: capabilities(&context),
        };
        Ok(match fixture.reply(&call)? {
            FixtureReply::Answer(answer) => read::<CallToolResult>(answer)?.into(),
            FixtureReply::Asks(asks) => {
                CallToolResponse::InputRequired(read::<InputRequiredResult>(asks)?)
            }
        })
    }

    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut list = self.0.list_prompts(page, context).await?;
        let fixtures = Self::listed::<Prompt>(|all| &all.prompts, "name")?;
        list.prompts.extend(fixtures);
        Ok(list)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let Some(fixture) = Self::find(|all| &all.prompts, &request.name) else {
            return self.0.get_prompt(request, context).await;
        };
        let call = FixtureCall {
            arguments: request.arguments.unwrap_or_default(),
            responses: request.input_responses,
            state: request.request_state,
            capabilities: capabilities(&context),
        };
        Ok(match fixture.reply(&call)? {
            FixtureReply::Answer(answer) => read::<GetPromptResult>(answer)?.into(),
            FixtureReply::Asks(asks) => {
                GetPromptResponse::InputRequired(read::<InputRequiredResult>(asks)?)
            }
        })
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut list = self.0.list_resources(page, context).await?;
        let fixtures = Self::listed::<Resource>(|all| &all.resources, "uri")?;
        list.resources.extend(fixtures);
        Ok(list)
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut list = self.0.list_resource_templates(page, context).await?;
        let fixtures = Self::listed::<ResourceTemplate>(|all| &all.resources, "uriTemplate")?;
        list.resource_templates.extend(fixtures);
        Ok(list)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        // The template has one variable, in front of `/data`.
        let template = request.uri.strip_prefix("test://template/");
        let id = template.and_then(|rest| rest.strip_suffix("/data"));
        let name = match id {
            Some(_) => "test://template/{id}/data",
            None => &request.uri,
        };
        let Some(fixture) = Self::find(|all| &all.resources, name) else {
            return self.0.read_resource(request, context).await;
        };
        let arguments = id.map(|id| ("id".to_owned(), id.into()));
        let call = FixtureCall {
            arguments: arguments.into_iter().collect(),
            responses: None,
            state: None,
            capabilities: Map::new(),
        };
        Ok(read::<ReadResourceResult>(fixture.fill(&call))?.into())
    }
}
