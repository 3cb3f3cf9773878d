//! MCP tools for pull requests and issues. They exist where a connection is configured, and work
//! with the server's own account.

use rmcp::handler::server::common::Extension;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{Json, tool, tool_router};

use super::McpServer;
use super::tools::CallerIdentity;
use app::operations::forge_tools::{
    self, AddIssueComment, AddPullRequestComment, CommentReply, CreatePullRequest,
    FoundPullRequest, GetPullRequest, GetPullRequestByBranch, PullRequestReply, TransitionIssue,
    TransitionReply,
};

#[tool_router(router = forge_router, vis = "pub(super)")]
impl McpServer {
    #[tool(
        description = "Push your branch and open its pull request, or update it.",
        annotations(
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = true
        )
    )]
    async fn github_create_pr(
        &self,
        Extension(identity): CallerIdentity,
        Parameters(request): Parameters<CreatePullRequest>,
    ) -> Result<Json<PullRequestReply>, String> {
        let created = forge_tools::create_pull_request(&self.app, &identity, request);
        let created = Box::pin(created).await;
        self.answer(&identity, "github_create_pr", created).await
    }

    #[tool(
        description = "A pull request's details and diff.",
        annotations(read_only_hint = true, idempotent_hint = true, open_world_hint = true)
    )]
    async fn github_get_pr(
        &self,
        Extension(identity): CallerIdentity,
        Parameters(request): Parameters<GetPullRequest>,
    ) -> Result<Json<PullRequestReply>, String> {
        let found = forge_tools::get_pull_request(&self.app, &identity, request);
        let found = Box::pin(found).await;
        self.answer(&identity, "github_get_pr", found).await
    }

    #[tool(
        description = "The open pull request of a branch.",
        annotations(read_only_hint = true, idempotent_hint = true, open_world_hint = true)
    )]
    async fn github_get_pr_by_branch(
        &self,
        Extension(identity): CallerIdentity,
        Parameters(request): Parameters<GetPullRequestByBranch>,
    ) -> Result<Json<FoundPullRequest>, String> {
        let found = forge_tools::get_pull_request_by_branch(&self.app, &identity, request);
        let found = Box::pin(found).await;
        self.answer(&identity, "github_get_pr_by_branch", found)
            .await
    }

    #[tool(
        description = "Comment on a pull request.",
        annotations(
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = true
        )
    )]
    async fn github_add_pr_comment(
        &self,
        Extension(identity): CallerIdentity,
        Parameters(request): Parameters<AddPullRequestComment>,
    ) -> Result<Json<CommentReply>, String> {
        let written = forge_tools::comment_on_pull_request(&self.app, &identity, request);
        let written = Box::pin(written).await;
        self.answer(&identity, "github_add_pr_comment", written)
            .await
    }

    #[tool(
        description = "Comment on a Jira issue.",
        annotations(
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = true
        )
    )]
    async fn jira_add_comment(
        &self,
        Extension(identity): CallerIdentity,
        Parameters(request): Parameters<AddIssueComment>,
    ) -> Result<Json<CommentReply>, String> {
        let written = forge_tools::comment_on_issue(&self.app, &identity, request);
        let written = Box::pin(written).await;
        self.answer(&identity, "jira_add_comment", written).await
    }

    #[tool(
        description = "Move a Jira issue to a status.",
        annotations(
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = true
        )
    )]
    async fn jira_transition_issue(
        &self,
        Extension(identity): CallerIdentity,
        Parameters(request): Parameters<TransitionIssue>,
    ) -> Result<Json<TransitionReply>, String> {
        let moved = forge_tools::transition_issue(&self.app, &identity, request);
        let moved = Box::pin(moved).await;
        self.answer(&identity, "jira_transition_issue", moved).await
    }
}
