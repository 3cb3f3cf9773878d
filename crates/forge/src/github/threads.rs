//! Threads of findings: made once, answered, resolved and reopened. Only GraphQL knows whether a
//! thread is resolved.

use serde_json::{Value, json};

use super::read::{entries, id, text};
use super::{Github, PAGE, is_own};
use crate::ForgeError;
use crate::anchors::{DiffSide, LineAnchor, Placement};
use crate::body::{BODY_CHARS_MAX, cut_body};
use crate::marker::marked;
use crate::model::{
    CommentDraft, CommentTopic, InlineFinding, ReviewThread, ThreadAnswer, ThreadDraft,
    ThreadPlace, ThreadState,
};
use crate::rest::unreadable;
use crate::review_plan::CUT_NOTICE;

const THREADS: &str = "query($owner:String!,$name:String!,$number:Int!,$after:String){repository(owner:$owner,name:$name){pullRequest(number:$number){id isDraft reviewThreads(first:100,after:$after){pageInfo{hasNextPage endCursor} nodes{id isResolved comments(first:1){nodes{databaseId}}}}}}}";

/// Only GraphQL knows the merge queue.
const QUEUED: &str = "query($owner:String!,$name:String!,$number:Int!){repository(owner:$owner,name:$name){pullRequest(number:$number){mergeQueueEntry{headCommit{oid}}}}}";

/// Maximum number of pages of threads, of a hundred each.
const THREAD_PAGES_MAX: usize = 30;

/// Body of the first comment of a finding's thread.
pub fn finding_body(finding: &InlineFinding) -> String {
    let marked = marked("finding", &finding.key, &finding.body);
    cut_body(&marked, BODY_CHARS_MAX, CUT_NOTICE)
}

/// A comment on a line, as reviews and single comments have it.
pub fn comment(anchor: &LineAnchor, body: &str) -> Value {
    let side = match anchor.side {
        DiffSide::Left => "LEFT",
        DiffSide::Right => "RIGHT",
    };
    let mut value = json!({"path": anchor.path, "line": anchor.line, "side": side, "body": body});
    // One line must not be written as a range: GitHub refuses a start that is its end.
    if let Some(start) = anchor.start_line {
        value["start_line"] = json!(start);
        value["start_side"] = json!(side);
    }
    value
}

impl Github {
    fn comments_path(&self, change: u64) -> String {
        self.path(&format!("/pulls/{change}/comments"))
    }

    /// Returns the texts of our own comments on the change's lines.
    pub(super) async fn own_findings(&self, change: u64) -> Result<Vec<String>, ForgeError> {
        let own = self.own_login().await?;
        let entries = self.rest.list(&self.comments_path(change), PAGE).await?;
        Ok(entries
            .iter()
            .filter(|entry| is_own(entry, own))
            .map(|entry| text(entry, "body"))
            .collect())
    }

    pub(super) async fn try_thread(&self, draft: &ThreadDraft) -> Result<ReviewThread, ForgeError> {
        let path = self.comments_path(draft.change);
        let finding = &draft.finding;
        // A thread that is there stays where it is, also if the finding has moved.
        if let Some(found) = self.find_own(&path, "finding", &finding.key).await? {
            let place = if found["subject_type"] == "file" {
                ThreadPlace::File
            } else {
                ThreadPlace::Line
            };
            return Ok(ReviewThread {
                id: id(&found),
                place,
            });
        }
        let body = finding_body(finding);
        let placement = finding
            .anchor
            .as_ref()
            .map_or(Placement::Body, |anchor| draft.lines.place(anchor));
        let mut requests = Vec::new();
        let mut file = None;
        match &placement {
            Placement::Line(anchor) => {
                requests.push((ThreadPlace::Line, comment(anchor, &body)));
                file = Some(&anchor.path);
            }
            Placement::File(path) => file = Some(path),
            Placement::Body => {}
        }
        if let Some(file) = file {
            requests.push((
                ThreadPlace::File,
                json!({"path": file, "subject_type": "file", "body": body}),
            ));
        }
        for (place, mut request) in requests {
            request["commit_id"] = json!(draft.commit);
            match self.rest.write("POST", &path, &request).await {
                Ok(written) => {
                    return Ok(ReviewThread {
                        id: id(&written),
                        place,
                    });
                }
                // GitHub's diff is not ours: try the next, wider place.
                Err(error) if error.refused_with() == Some(422) => {}
                Err(error) => return Err(error),
            }
        }
        // No place in the diff. A comment cannot be resolved, but it can be found and edited.
        let comment = CommentDraft {
            on: draft.change.to_string(),
            topic: CommentTopic(format!("finding:{}", finding.key)),
            body: finding.body.clone(),
        };
        let written = self.try_comment(&comment).await?;
        Ok(ReviewThread {
            id: written.id,
            place: ThreadPlace::Comment,
        })
    }

    pub(super) async fn try_settle(&self, answer: &ThreadAnswer) -> Result<(), ForgeError> {
        let path = self.comments_path(answer.change);
        // An answer goes to the first comment of the thread; replies to replies are not possible.
        let Some(first) = self.find_own(&path, "finding", &answer.finding).await? else {
            return Err(ForgeError::NotFound {
                what: format!("thread of {}", answer.finding),
            });
        };
        if let Some((key, body)) = &answer.reply {
            let key = format!("{}:{key}", answer.finding);
            if self.find_own(&path, "reply", &key).await?.is_none() {
                let reply = self.path(&format!(
                    "/pulls/{}/comments/{}/replies",
                    answer.change,
                    id(&first)
                ));
                let body = cut_body(&marked("reply", &key, body), BODY_CHARS_MAX, CUT_NOTICE);
                self.rest
                    .write("POST", &reply, &json!({"body": body}))
                    .await?;
            }
        }
        // REST knows comments and no threads, so their state is read and changed by GraphQL.
        let (thread, is_resolved) = self.thread_of(answer.change, &id(&first)).await?;
        let verb = match answer.state {
            ThreadState::Resolved if !is_resolved => "resolveReviewThread",
            ThreadState::Open if is_resolved => "unresolveReviewThread",
            ThreadState::Resolved | ThreadState::Open => return Ok(()),
        };
        let query =
            format!("mutation($id:ID!){{{verb}(input:{{threadId:$id}}){{thread{{isResolved}}}}}}");
        self.graphql(&query, &json!({"id": thread})).await.map(drop)
    }

    /// Reads the threads of a change: the id of each, of its first comment, and whether it is resolved.
    async fn threads(&self, change: u64) -> Result<Vec<(String, String, bool)>, ForgeError> {
        let mut all = Vec::new();
        let mut after = Value::Null;
        // A cursor that never ends would keep us here.
        for _ in 0..THREAD_PAGES_MAX {
            let variables =
                json!({"owner": self.owner, "name": self.name, "number": change, "after": after});
            let data = self.graphql_read(THREADS, &variables).await?;
            let threads = &data["repository"]["pullRequest"]["reviewThreads"];
            all.extend(entries(&threads["nodes"]).iter().map(|thread| {
                let first = &thread["comments"]["nodes"][0]["databaseId"];
                let first = first.as_u64().unwrap_or_default().to_string();
                (text(thread, "id"), first, thread["isResolved"] == true)
            }));
            if threads["pageInfo"]["hasNextPage"] != true {
                break;
            }
            after = threads["pageInfo"]["endCursor"].clone();
        }
        Ok(all)
    }

    /// Returns the ids of the first comments of resolved threads.
    pub(super) async fn resolved_threads(&self, change: u64) -> Result<Vec<String>, ForgeError> {
        let threads = self.threads(change).await?.into_iter();
        let resolved = threads.filter(|(_, _, is_resolved)| *is_resolved);
        Ok(resolved.map(|(_, first, _)| first).collect())
    }

    async fn thread_of(&self, change: u64, comment: &str) -> Result<(String, bool), ForgeError> {
        let threads = self.threads(change).await?.into_iter();
        let mut threads = threads.filter(|(_, first, _)| first == comment);
        let found = threads.next().map(|(id, _, is_resolved)| (id, is_resolved));
        found.ok_or_else(|| ForgeError::NotFound {
            what: format!("thread of comment {comment}"),
        })
    }

    pub(super) async fn set_draft(&self, change: u64, draft: bool) -> Result<(), ForgeError> {
        let variables =
            json!({"owner": self.owner, "name": self.name, "number": change, "after": null});
        let data = self.graphql_read(THREADS, &variables).await?;
        let found = &data["repository"]["pullRequest"];
        // The mutation fails if there is nothing to change.
        if found["isDraft"] == draft {
            return Ok(());
        }
        let verb = if draft {
            "convertPullRequestToDraft"
        } else {
            "markPullRequestReadyForReview"
        };
        let query = format!(
            "mutation($id:ID!){{{verb}(input:{{pullRequestId:$id}}){{pullRequest{{isDraft}}}}}}"
        );
        self.graphql(&query, &json!({"id": found["id"]}))
            .await
            .map(drop)
    }

    pub(super) async fn read_queued_commit(
        &self,
        change: u64,
    ) -> Result<Option<String>, ForgeError> {
        let variables = json!({"owner": self.owner, "name": self.name, "number": change});
        let entry = match self.graphql_read(QUEUED, &variables).await {
            Ok(mut data) => data["repository"]["pullRequest"]["mergeQueueEntry"].take(),
            // An older server knows no queue.
            Err(error) if error.refused_with() == Some(422) => Value::Null,
            Err(error) => return Err(error),
        };
        let commit = text(&entry["headCommit"], "oid");
        Ok(Some(commit).filter(|commit| !commit.is_empty()))
    }

    async fn graphql(&self, query: &str, variables: &Value) -> Result<Value, ForgeError> {
        let request = json!({"query": query, "variables": variables});
        let answer = self
            .rest
            .write("POST", &self.graphql_path(), &request)
            .await?;
        graphql_data(answer)
    }

    async fn graphql_read(&self, query: &str, variables: &Value) -> Result<Value, ForgeError> {
        let request = json!({"query": query, "variables": variables});
        graphql_data(self.rest.query(&self.graphql_path(), &request).await?)
    }

    /// Enterprise Server has GraphQL next to the REST API and not below it.
    fn graphql_path(&self) -> String {
        let api = self.rest.api();
        format!("{}/graphql", api.strip_suffix("/v3").unwrap_or(api))
    }
}

/// Reads an answer of GraphQL, which is 200 with a list of errors when it refuses.
fn graphql_data(mut answer: Value) -> Result<Value, ForgeError> {
    if let Some(error) = entries(&answer["errors"]).first() {
        let detail = findings::shorten(&text(error, "message"), 300);
        return Err(ForgeError::Refused {
            what: "graphql".to_owned(),
            status: 422,
            detail,
        });
    }
    match answer["data"].take() {
        Value::Null => Err(unreadable("graphql", "no data")),
        data => Ok(data),
    }
}
