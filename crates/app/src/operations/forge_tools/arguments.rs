//! Arguments and answers of the forge tools. Their names are part of the public interface.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pull request, as agents see it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PullRequestReply {
    pub number: u64,
    pub title: String,
    pub body: String,
    pub state: &'static str,
    pub author: String,
    pub head_branch: String,
    pub head_sha: String,
    pub base_branch: String,
    pub draft: bool,
    pub labels: Vec<String>,
    pub html_url: String,
    /// The unified diff, if the server has the commits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct FoundPullRequest {
    /// Null if the branch has no open pull request.
    pub pull_request: Option<PullRequestReply>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct CommentReply {
    pub id: String,
    pub message: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TransitionReply {
    pub key: String,
    pub status: String,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePullRequest {
    pub title: String,
    #[serde(default)]
    pub body: String,
    /// Default: your ticket's branch.
    #[serde(default, alias = "branch")]
    pub head: Option<String>,
    #[serde(default)]
    pub base: Option<String>,
    #[serde(default)]
    pub draft: bool,
    /// The issue to link.
    #[serde(default)]
    pub jira_key: Option<String>,
    // OWNER/NAME, for callers without a ticket. The schema leaves it out: it is sent with every call.
    #[serde(default, alias = "github_repo")]
    #[schemars(skip)]
    pub repo: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetPullRequest {
    #[serde(alias = "number")]
    pub pr_number: u64,
    // OWNER/NAME, for callers without a ticket. The schema leaves it out: it is sent with every call.
    #[serde(default, alias = "github_repo")]
    #[schemars(skip)]
    pub repo: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetPullRequestByBranch {
    #[serde(alias = "branch_name")]
    pub branch: String,
    // OWNER/NAME, for callers without a ticket. The schema leaves it out: it is sent with every call.
    #[serde(default, alias = "github_repo")]
    #[schemars(skip)]
    pub repo: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddPullRequestComment {
    #[serde(alias = "number")]
    pub pr_number: u64,
    #[serde(alias = "comment")]
    pub body: String,
    // OWNER/NAME, for callers without a ticket. The schema leaves it out: it is sent with every call.
    #[serde(default, alias = "github_repo")]
    #[schemars(skip)]
    pub repo: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddIssueComment {
    #[serde(alias = "issue_key", alias = "key")]
    pub jira_key: String,
    #[serde(alias = "body")]
    pub comment: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransitionIssue {
    #[serde(alias = "issue_key", alias = "key")]
    pub jira_key: String,
    /// `code_review`, `approved`, `changes_requested`, `done`, or a status by its name.
    #[serde(alias = "transition")]
    pub status: String,
}
