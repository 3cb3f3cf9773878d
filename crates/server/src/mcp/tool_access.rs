//! Decides which tools a caller sees and may call.

use app::operations::forge_tools::ConfiguredTools;
use app::operations::identity::Identity;
use flow::Role;
use flow::access::{Action, Denied};

/// Returns the tools that the caller may call: those of its role, without those that agents started
/// by a worker may not use, and without those that need a forge that is not configured.
pub fn tools_for(identity: &Identity, configured: ConfiguredTools) -> Vec<&'static str> {
    let tools = tools_of_role(identity.actor.role).iter().copied();
    tools
        .filter(|tool| configured.has(tool))
        .filter(|tool| identity.access.check(action_of(tool)).is_ok())
        .collect()
}

/// Returns the tools that the caller is shown. Every schema costs an agent context, so the least
/// needed ones are left out of a long list. They can be called all the same.
pub fn listed_tools(identity: &Identity, configured: ConfiguredTools) -> Vec<&'static str> {
    let mut tools = tools_for(identity, configured);
    if configured == ConfiguredTools::default() {
        return tools;
    }
    let unlisted = unlisted_with_forge(identity.actor.role, configured);
    tools.retain(|tool| !unlisted.contains(tool));
    tools
}

/// Returns the tools of a role that make room for those of forges.
fn unlisted_with_forge(role: Role, configured: ConfiguredTools) -> &'static [&'static str] {
    match role {
        // A builder reads its own change in its checkout, and says with a heartbeat that it works.
        Role::Builder if configured.issues => &[
            "checkpoint",
            "github_get_pr_by_branch",
            "github_get_pr",
            "github_add_pr_comment",
        ],
        Role::Builder => &["checkpoint", "github_get_pr_by_branch", "github_get_pr"],
        // A reviewer can say the same with a heartbeat and a message.
        Role::Reviewer => &["checkpoint", "request_help"],
        Role::Verifier | Role::Human | Role::Service | Role::Admin | Role::Viewer => &[],
    }
}

/// Returns why the caller may not use a tool of its role.
pub fn denial(identity: &Identity, tool: &str) -> Option<Denied> {
    let in_role = tools_of_role(identity.actor.role).contains(&tool);
    identity
        .access
        .check(action_of(tool))
        .err()
        .filter(|_| in_role)
}

fn action_of(tool: &str) -> Action {
    match tool {
        "heartbeat" | "checkpoint" | "request_help" | "send_message" | "dispute_finding"
        | "get_review_context" => Action::Communicate,
        // An agent that Countersign started has the diff as a file.
        "get_my_assignment" | "wait_for_work" | "accept_assignment" | "get_diff" => Action::Claim,
        "queue_task_for_agent" => Action::CreateWork,
        _ => Action::Report,
    }
}

/// Returns the tools of a role.
pub(crate) fn tools_of_role(role: Role) -> &'static [&'static str] {
    match role {
        Role::Builder => &[
            "get_my_assignment",
            "wait_for_work",
            "accept_assignment",
            "get_diff",
            "submit_for_review",
            "dispute_finding",
            "complete",
            "heartbeat",
            "checkpoint",
            "request_help",
            "send_message",
            "queue_task_for_agent",
            "github_create_pr",
            "github_get_pr",
            "github_get_pr_by_branch",
            "github_add_pr_comment",
            "jira_add_comment",
            "jira_transition_issue",
        ],
        Role::Reviewer => &[
            "get_my_assignment",
            "wait_for_work",
            "accept_assignment",
            "get_review_context",
            "get_diff",
            "submit_review_result",
            "complete",
            "heartbeat",
            "checkpoint",
            "request_help",
            "send_message",
            "queue_task_for_agent",
            "github_get_pr",
            "github_get_pr_by_branch",
            "github_add_pr_comment",
            "jira_add_comment",
            "jira_transition_issue",
        ],
        Role::Verifier => &[
            "get_my_assignment",
            "wait_for_work",
            "accept_assignment",
            "get_review_context",
            "get_diff",
            "submit_review_result",
            "heartbeat",
            "request_help",
            "github_get_pr",
            "github_get_pr_by_branch",
        ],
        Role::Human | Role::Service | Role::Admin => &[
            "send_message",
            "queue_task_for_agent",
            "github_create_pr",
            "github_get_pr",
            "github_get_pr_by_branch",
            "github_add_pr_comment",
            "jira_add_comment",
            "jira_transition_issue",
        ],
        // A viewer changes nothing, and every tool reports or sends something.
        Role::Viewer => &[],
    }
}
