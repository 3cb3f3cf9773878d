//! Reads from a webhook which repository and which place it is about, and nothing else.

use forge::address::ForgeKind;
use serde_json::Value;

use crate::operations::forge_work::ForgeSubject;

/// Branches of a status that are looked at. GitHub sends ten at most.
const BRANCHES_MAX: usize = 10;

/// Names of the statuses that Countersign itself writes.
const GATES: [&str; 2] = ["countersign", "countersign/review"];

/// Repository and place of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookNews {
    /// OWNER/NAME, or the key of a project.
    pub repository: String,
    /// `None` for news that matter to nobody here.
    pub subject: Option<ForgeSubject>,
}

/// Returns the header that names the event.
pub fn event_header(kind: ForgeKind) -> &'static str {
    match kind {
        ForgeKind::Github => "x-github-event",
        ForgeKind::Gitlab => "x-gitlab-event",
        ForgeKind::Gitea => "x-gitea-event",
        ForgeKind::Jira => "x-atlassian-webhook-event",
    }
}

/// Reads a webhook. `None` if it names no repository.
pub fn read_news(kind: ForgeKind, event: &str, json: &Value) -> Option<WebhookNews> {
    match kind {
        ForgeKind::Github | ForgeKind::Gitea => Some(WebhookNews {
            repository: text(json, "/repository/full_name")?,
            subject: github_subject(event, json),
        }),
        ForgeKind::Gitlab => Some(WebhookNews {
            repository: text(json, "/project/path_with_namespace")?,
            subject: gitlab_subject(json),
        }),
        ForgeKind::Jira => {
            let key = text(json, "/issue/key")?;
            let project = text(json, "/issue/fields/project/key");
            let project = project.or_else(|| Some(key.rsplit_once('-')?.0.to_owned()))?;
            Some(WebhookNews {
                repository: project,
                subject: Some(ForgeSubject::Issue(key)),
            })
        }
    }
}

fn text(json: &Value, path: &str) -> Option<String> {
    let text = json.pointer(path)?.as_str()?;
    // It becomes part of keys and log lines.
    (!text.is_empty() && text.len() <= 300).then(|| findings::one_line(text))
}

fn number(json: &Value, path: &str) -> Option<u64> {
    json.pointer(path)?.as_u64()
}

fn github_subject(event: &str, json: &Value) -> Option<ForgeSubject> {
    if event == "ping" {
        return None;
    }
    if let Some(number) = number(json, "/pull_request/number") {
        return Some(ForgeSubject::Change(number));
    }
    if let Some(number) = number(json, "/issue/number") {
        let is_change = json
            .pointer("/issue/pull_request")
            .is_some_and(|value| !value.is_null())
            || json["is_pull"] == true;
        return Some(if is_change {
            ForgeSubject::Change(number)
        } else {
            ForgeSubject::Issue(number.to_string())
        });
    }
    // Other events have these parts too, and change nothing of the change.
    let is_check = ["check_run", "check_suite", "workflow_run"].contains(&event);
    let path = format!("/{event}/pull_requests/0/number");
    if let Some(number) = number(json, &path).filter(|_| is_check) {
        return Some(ForgeSubject::Change(number));
    }
    let is_our_gate = text(json, "/context").is_some_and(|name| GATES.contains(&name.as_str()));
    match event {
        // Each gate that we write comes back as news.
        "status" if is_our_gate => None,
        "merge_group" => Some(queued_change(json).unwrap_or(ForgeSubject::Repository)),
        // The list of changed pull requests does not show them.
        "status" | "check_run" | "check_suite" => {
            Some(checked_branch(event, json).unwrap_or(ForgeSubject::Repository))
        }
        "push" => Some(ForgeSubject::Repository),
        _ => None,
    }
}

/// Returns the change that a merge queue tests. The name of its temporary branch has the number:
/// `gh-readonly-queue/main/pr-7-SHA`.
fn queued_change(json: &Value) -> Option<ForgeSubject> {
    let branch = text(json, "/merge_group/head_ref")?;
    let last = branch.rsplit('/').next()?.strip_prefix("pr-")?;
    let number = last.split('-').next()?.parse().ok()?;
    Some(ForgeSubject::Change(number))
}

/// Returns the branch whose commit was checked, if it is not the default one.
fn checked_branch(event: &str, json: &Value) -> Option<ForgeSubject> {
    let main = text(json, "/repository/default_branch");
    let one = [
        "check_suite/head_branch",
        "check_run/check_suite/head_branch",
    ];
    let named = one
        .iter()
        .filter(|path| path.starts_with(event))
        .filter_map(|path| text(json, &format!("/{path}")));
    let listed = (0..BRANCHES_MAX).filter_map(|at| text(json, &format!("/branches/{at}/name")));
    let mut branches = named.chain(listed);
    let branch = branches.find(|branch| main.as_ref() != Some(branch))?;
    Some(ForgeSubject::Branch(branch))
}

fn gitlab_subject(json: &Value) -> Option<ForgeSubject> {
    let change = |path| number(json, path).map(ForgeSubject::Change);
    // Issues and changes have numbers of their own, so keys of issues have a sign in front.
    let issue = |path| number(json, path).map(|iid| ForgeSubject::Issue(format!("#{iid}")));
    match json["object_kind"].as_str()? {
        "merge_request" => change("/object_attributes/iid"),
        "note" => change("/merge_request/iid").or_else(|| issue("/issue/iid")),
        "issue" | "work_item" => issue("/object_attributes/iid"),
        "pipeline" => {
            let branch = || text(json, "/object_attributes/ref").map(ForgeSubject::Branch);
            change("/merge_request/iid").or_else(branch)
        }
        "build" => text(json, "/ref").map(ForgeSubject::Branch),
        "push" => Some(ForgeSubject::Repository),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_place_is_read_and_nothing_else() {
        let repository = json!({"full_name": "o/r"});
        let github = |event: &str, mut body: Value| {
            body["repository"] = repository.clone();
            read_news(ForgeKind::Github, event, &body).unwrap().subject
        };
        let change = Some(ForgeSubject::Change(7));
        let issue = Some(ForgeSubject::Issue("7".to_owned()));
        assert_eq!(
            github("pull_request", json!({"pull_request": {"number": 7}})),
            change
        );
        let comment = json!({"issue": {"number": 7, "pull_request": {}}});
        assert_eq!(github("issue_comment", comment), change);
        assert_eq!(github("issues", json!({"issue": {"number": 7}})), issue);
        let run = json!({"check_run": {"pull_requests": [{"number": 7}]}});
        assert_eq!(github("check_run", run), change);
        assert_eq!(github("status", json!({})), Some(ForgeSubject::Repository));
        let branch = |name: &str| Some(ForgeSubject::Branch(name.to_owned()));
        let checked = json!({"branches": [{"name": "topic"}, {"name": "other"}]});
        assert_eq!(github("status", checked.clone()), branch("topic"));
        let mut own = checked;
        own["context"] = json!("countersign/review");
        assert_eq!(github("status", own), None);
        let checked = json!({"check_suite": {"pull_requests": [], "head_branch": "topic"}});
        assert_eq!(github("check_suite", checked), branch("topic"));
        let queued =
            json!({"merge_group": {"head_ref": "refs/heads/gh-readonly-queue/main/pr-7-0f1e"}});
        assert_eq!(github("merge_group", queued), change);
        let queued = json!({"merge_group": {"head_ref": "refs/heads/elsewhere"}});
        assert_eq!(
            github("merge_group", queued),
            Some(ForgeSubject::Repository)
        );
        assert_eq!(github("ping", json!({})), None);
        assert_eq!(github("star", json!({})), None);
        assert_eq!(read_news(ForgeKind::Github, "push", &json!({})), None);

        let project = json!({"path_with_namespace": "g/s/r"});
        let gitlab = |mut body: Value| {
            body["project"] = project.clone();
            read_news(ForgeKind::Gitlab, "", &body).unwrap()
        };
        let note = gitlab(json!({"object_kind": "note", "merge_request": {"iid": 7}}));
        assert_eq!((note.repository.as_str(), note.subject), ("g/s/r", change));
        let opened = json!({"object_kind": "issue", "object_attributes": {"iid": 7}});
        let of_gitlab = Some(ForgeSubject::Issue("#7".to_owned()));
        assert_eq!(gitlab(opened).subject, of_gitlab);

        let jira = json!({"issue": {"key": "PROJ-7", "fields": {"project": {"key": "PROJ"}}}});
        let jira = read_news(ForgeKind::Jira, "", &jira).unwrap();
        assert_eq!(jira.repository, "PROJ");
        assert_eq!(jira.subject, Some(ForgeSubject::Issue("PROJ-7".to_owned())));
    }

    /// All examples of the official package, as `scripts/forge-contracts` packed them.
    fn official_examples() -> Vec<Value> {
        let packed =
            include_bytes!("../../../../forge/tests/contracts/github_webhooks.json.gz").as_slice();
        let mut text = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(packed);
        std::io::Read::read_to_end(&mut reader, &mut text).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    /// Place of an official example, by the documentation of its event.
    fn documented_place(event: &str, payload: &Value) -> Option<ForgeSubject> {
        let number = |path: &str| payload.pointer(path).and_then(Value::as_u64);
        let main = &payload["repository"]["default_branch"];
        let branch = |names: &[Option<&Value>]| {
            let mut names = names.iter().flatten().filter(|name| name.is_string());
            let other = names.find(|name| **name != main);
            Some(other.map_or(ForgeSubject::Repository, |name| {
                ForgeSubject::Branch(name.as_str().unwrap().to_owned())
            }))
        };
        match event {
            "pull_request"
            | "pull_request_review"
            | "pull_request_review_comment"
            | "pull_request_review_thread" => {
                number("/pull_request/number").map(ForgeSubject::Change)
            }
            // Every pull request is an issue too; this part says that it is one.
            "issues" | "issue_comment" if payload["issue"]["pull_request"].is_object() => {
                number("/issue/number").map(ForgeSubject::Change)
            }
            "issues" | "issue_comment" => {
                number("/issue/number").map(|number| ForgeSubject::Issue(number.to_string()))
            }
            "check_run" | "check_suite" | "workflow_run" => {
                let change = number(&format!("/{event}/pull_requests/0/number"));
                change.map(ForgeSubject::Change).or_else(|| {
                    let path = match event {
                        "check_run" => "/check_run/check_suite/head_branch",
                        "check_suite" => "/check_suite/head_branch",
                        _ => return None,
                    };
                    branch(&[payload.pointer(path)])
                })
            }
            "status" => {
                let branches = payload["branches"].as_array().unwrap();
                branch(
                    &branches
                        .iter()
                        .map(|one| one.get("name"))
                        .collect::<Vec<_>>(),
                )
            }
            "merge_group" => {
                let branch = payload["merge_group"]["head_ref"].as_str().unwrap();
                let number = branch.split_once("/pr-").unwrap().1.split('-').next();
                number.unwrap().parse().ok().map(ForgeSubject::Change)
            }
            "push" => Some(ForgeSubject::Repository),
            _ => None,
        }
    }

    #[test]
    fn every_official_payload_is_read_and_proven_over_its_raw_bytes() {
        use forge::webhook::{WebhookRefusal, WebhookSecrets, verify_webhook};
        let secrets = |current: &str| WebhookSecrets {
            current: current.to_owned(),
            previous: None,
        };
        let sign = |body: &[u8]| {
            let mac = engine::secret::hmac_base64(b"a secret of the test", body);
            let bytes = engine::secret::from_base64(&mac).unwrap();
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("sha256={}", hex.concat())
        };
        let prove = |signature: Option<&str>, body: &[u8], secret: &str| {
            let header = |name: &str| {
                (name == "x-hub-signature-256")
                    .then_some(signature)
                    .flatten()
            };
            verify_webhook(ForgeKind::Github, header, body, &secrets(secret), 0)
        };
        let wrong = Err(WebhookRefusal::WrongSignature);
        let (mut events, mut payloads, mut places) = (0, 0, 0);
        for event in official_examples() {
            let name = event["name"].as_str().unwrap();
            events += 1;
            for payload in event["examples"].as_array().unwrap() {
                payloads += 1;
                let raw = serde_json::to_string_pretty(payload).unwrap();
                let signed = sign(raw.as_bytes());
                let parsed: Value = serde_json::from_str(&raw).unwrap();
                assert_eq!(
                    prove(Some(&signed), raw.as_bytes(), "a secret of the test"),
                    Ok(None)
                );
                assert_eq!(
                    prove(Some(&signed), raw.as_bytes(), "another secret"),
                    wrong
                );
                let again = parsed.to_string();
                assert_eq!(
                    prove(Some(&signed), again.as_bytes(), "a secret of the test"),
                    wrong
                );
                let unsigned = prove(None, raw.as_bytes(), "a secret of the test");
                assert_eq!(unsigned, Err(WebhookRefusal::Unsigned));

                let news = read_news(ForgeKind::Github, name, &parsed);
                let repository = parsed
                    .pointer("/repository/full_name")
                    .and_then(Value::as_str);
                let read = news.as_ref().map(|news| news.repository.as_str());
                assert_eq!(read, repository, "{name}");
                if let Some(news) = news {
                    assert_eq!(news.subject, documented_place(name, &parsed), "{name}");
                    places += usize::from(news.subject.is_some());
                }
            }
        }
        println!("{payloads} payloads of {events} events; {places} name a place");
        assert_eq!((events, payloads), (58, 329));
    }

    #[test]
    fn strange_values_name_no_place() {
        for body in [
            json!([]),
            json!({"repository": {"full_name": 7}}),
            json!({"repository": {"full_name": "x".repeat(1000)}}),
        ] {
            assert_eq!(read_news(ForgeKind::Github, "issues", &body), None);
        }
        let body = json!({"repository": {"full_name": "o/r"}, "issue": {"number": -1}});
        let news = read_news(ForgeKind::Github, "issues", &body).unwrap();
        assert_eq!(news.subject, None);
    }
}
