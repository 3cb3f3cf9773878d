//! Parameters and replies of the MCP tools. Their names and fields are part of the public
//! interface.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use app::operations::assignments::verdict::FindingAnswer;
use app::operations::assignments::{Assignment, CriterionReport, FindingResponse};
use app::operations::messages::{InboxMessage, MessageKind};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitParams {
    /// At most 50; default 25.
    #[serde(default)]
    pub timeout_secs: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkReply {
    /// Null if there is no work for you now.
    pub assignment: Option<Assignment>,
    /// A task from your own queue.
    pub task: Option<Value>,
    pub messages: Vec<InboxMessage>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AssignmentParams {
    /// Default: your current assignment.
    #[serde(default)]
    pub assignment_id: Option<i64>,
    #[serde(default)]
    pub attempt: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiffParams {
    /// Only this file.
    #[serde(default)]
    pub file: Option<String>,
    #[serde(default)]
    pub offset: Option<usize>,
    #[serde(default)]
    pub attempt: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatParams {
    #[serde(default)]
    pub attempt: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct AcceptedReply {
    pub status: String,
    pub attempt: String,
    pub lease_until: String,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitParams {
    #[serde(default)]
    pub assignment_id: Option<i64>,
    /// The attempt of your assignment.
    #[serde(default)]
    pub attempt: Option<String>,
    /// Default: the ticket's own branch.
    #[serde(default)]
    pub branch_name: Option<String>,
    #[serde(default)]
    pub summary: String,
    /// Your claim for each acceptance criterion.
    #[serde(default)]
    pub claims: Vec<CriterionReport>,
    /// Your response to each finding of the last round.
    #[serde(default)]
    pub findings: Vec<FindingResponse>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct SubmitReply {
    pub status: String,
    pub review_attempt: u32,
    pub commit: String,
    pub message: String,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewResultParams {
    #[serde(default)]
    pub assignment_id: Option<i64>,
    /// The attempt of your assignment.
    #[serde(default)]
    pub attempt: Option<String>,
    /// A refusal in the feedback overrules true.
    #[serde(default)]
    pub approved: Option<bool>,
    /// Must be the assignment's commit.
    #[serde(default)]
    pub commit: Option<String>,
    /// Required unless approved. An approval carries no prose: use findings.
    #[serde(default)]
    pub feedback: String,
    #[serde(default)]
    #[schemars(with = "Option<Vec<FindingParam>>")]
    pub findings: Option<Vec<Map<String, Value>>>,
    /// {dimension: {score, weight}}
    #[serde(default)]
    pub dimension_scores: Option<Map<String, Value>>,
    /// [{dimension, message, `required_action`}]
    #[serde(default)]
    pub blocking_issues: Option<Vec<Map<String, Value>>>,
    #[serde(default)]
    pub overall_score: Option<u8>,
    #[serde(default)]
    pub revision_notes: Option<String>,
    /// Each acceptance criterion, with your evidence.
    #[serde(default)]
    pub criteria: Option<Vec<CriterionReport>>,
    /// For a verification: your answer for each finding.
    #[serde(default)]
    pub answers: Vec<FindingAnswer>,
    // The other fields of a review report. They are taken so that a report can be sent as it is, and
    // are not in the schema, which is sent to the model with every call. All of them are computed
    // here, but two: `status` is the verdict if `approved` is missing, and `ticket_id` must be right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub ticket_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub status: Option<ReportStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub reviewed_at: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub reviewer: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub revision_count: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub pass_criteria_met: Option<Value>,
}

/// Status of a review report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportStatus {
    Pass,
    Fail,
}

/// Schema of a finding. The reader takes more forms than this one; it is what agents are shown.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct FindingParam {
    severity: FindingSeverity,
    title: String,
    /// The failure and its evidence.
    #[schemars(default)]
    problem: String,
    #[schemars(default)]
    file: String,
    #[schemars(default)]
    line: u32,
    #[schemars(default)]
    fix: String,
    /// 0 to 1.
    #[schemars(default)]
    confidence: f64,
    #[schemars(default)]
    category: String,
    #[schemars(default)]
    impact: String,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum FindingSeverity {
    Critical,
    High,
    Medium,
    Low,
    Suggestion,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DisputeParams {
    /// The id from the brief: F1, F2, …
    pub finding: String,
    pub reason: String,
    #[serde(default)]
    pub attempt: Option<String>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SummaryParams {
    #[serde(default)]
    pub summary: String,
    #[serde(default)]
    pub attempt: Option<String>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HelpParams {
    pub why: String,
    #[serde(default)]
    pub attempt: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct LeaseReply {
    /// Null if you have no assignment.
    pub lease_until: Option<String>,
    pub attempt: Option<String>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendMessageParams {
    /// An agent's name, developer or reviewer.
    pub to: String,
    #[serde(rename = "type")]
    pub kind: MessageKind,
    pub content: String,
    /// Required for a verdict.
    #[serde(default)]
    pub attempt: Option<String>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct MessageReply {
    pub message: String,
}
