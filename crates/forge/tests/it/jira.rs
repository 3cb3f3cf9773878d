//! Jira Cloud and Data Center: issues, comments and transitions, once each.

use std::sync::{Arc, Mutex};

use forge::*;

use crate::conformance::JumpingClock;
use crate::fake_jira::FakeJira;
use crate::fakes::{Served, TOKEN};

const ME: &str = "me@example.org";

fn connect(is_cloud: bool) -> (Jira, Arc<Served<FakeJira>>) {
    let fake = FakeJira {
        is_cloud,
        ..FakeJira::default()
    };
    let fake = Arc::new(Served(Mutex::new(fake)));
    let token = ForgeToken::new(TOKEN).unwrap();
    let (version, token) = if is_cloud {
        let login = ME.to_owned();
        (3, ForgeCredential::Account { login, token })
    } else {
        (2, token.into())
    };
    let connection = ForgeConnection {
        transport: Arc::clone(&fake) as _,
        clock: Arc::new(JumpingClock::default()),
        api: format!("https://jira.example/sub/rest/api/{version}"),
        token,
    };
    (Jira::new(connection, "PROJ").unwrap(), fake)
}

async fn tell(jira: &Jira) {
    let comment = |body: &str| CommentDraft {
        on: "PROJ-7".to_owned(),
        topic: CommentTopic("summary".to_owned()),
        body: body.to_owned(),
    };
    jira.ensure_comment(&comment("one\n\n```\ncode\n```"))
        .await
        .unwrap();
    jira.ensure_comment(&comment("two [~ada]")).await.unwrap();
    let link = IssueLink {
        id: "pr-1".to_owned(),
        url: "https://github.com/o/r/pull/1".to_owned(),
        title: "o/r#1".to_owned(),
    };
    let labels = LabelEdit {
        add: vec!["in review".to_owned()],
        remove: Vec::new(),
    };
    for goal in [
        IssueGoal::Linked(link),
        IssueGoal::Labels(labels),
        IssueGoal::Status("code review".to_owned()),
        IssueGoal::Status("Approved".to_owned()),
    ] {
        jira.ensure_issue_state("PROJ-7", &goal).await.unwrap();
    }
}

#[tokio::test]
async fn an_issue_is_told_everything_once_in_both_jiras() {
    for is_cloud in [true, false] {
        let (jira, fake) = connect(is_cloud);
        tell(&jira).await;
        let before = fake.0.lock().unwrap().transitions;
        assert_eq!(before, 2);
        let approved = IssueGoal::Status("Approved".to_owned());
        jira.ensure_issue_state("PROJ-7", &approved).await.unwrap();
        {
            let state = fake.0.lock().unwrap();
            assert_eq!((state.transitions, state.comments.len()), (2, 1));
            assert_eq!(
                (state.links.len(), state.labels.clone()),
                (1, vec!["in-review".to_owned()])
            );
            let body = state.comments[0]["body"].to_string();
            assert!(body.contains("countersign:v1 topic=summary;"), "{body}");
            assert!(is_cloud || body.contains("\\\\[~ada\\\\]"), "{body}");
        }
        jira.ensure_issue_state("PROJ-7", &IssueGoal::Done)
            .await
            .unwrap();
        assert_eq!(fake.0.lock().unwrap().status, 3);
        let missing = IssueGoal::Status("Shipped".to_owned());
        let error = jira
            .ensure_issue_state("PROJ-7", &missing)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("Code Review"), "{error}");
    }
}

#[tokio::test]
async fn issues_are_found_by_query_and_read_with_their_links() {
    for is_cloud in [true, false] {
        let (jira, fake) = connect(is_cloud);
        let filter = IssueFilter {
            query: Some("labels = ai OR x = \"y\" ORDER BY created".to_owned()),
            ..IssueFilter::default()
        };
        let page = jira
            .issues_since(&filter, &ForgeCursor::default())
            .await
            .unwrap();
        assert_eq!(page.issues.len(), 1);
        let again = jira.issues_since(&filter, &page.cursor).await.unwrap();
        assert_eq!(again.issues.len(), 1, "the same second counts again");
        let queries = fake.0.lock().unwrap().queries.clone();
        assert!(
            queries[0].contains("(labels = ai OR x = \"y\") ORDER BY updated ASC"),
            "{queries:?}"
        );
        assert!(
            queries.last().unwrap().contains("updated >= \"-"),
            "{queries:?}"
        );
        let issue = jira.issue("PROJ-7").await.unwrap().unwrap();
        assert_eq!(
            (issue.body.as_str(), issue.status.as_str()),
            ("please\n\nfix it", "To Do")
        );
        assert_eq!(
            (issue.blocked_by, issue.links),
            (vec!["PROJ-3".to_owned()], vec!["PROJ-4".to_owned()])
        );
        assert_eq!(issue.url, "https://jira.example/sub/browse/PROJ-7");
        for wrong in ["OTHER-7", "PROJ-7/comment", "PROJ-", "7"] {
            assert_eq!(jira.issue(wrong).await.unwrap(), None, "{wrong}");
        }
        assert_eq!(
            jira.whoami().await.unwrap().permission,
            ForgePermission::Write
        );
        assert_eq!(
            jira.permission_of("ada").await.unwrap(),
            ForgePermission::Write
        );
        assert_eq!(
            jira.permission_of("eve").await.unwrap(),
            ForgePermission::None
        );
    }
}

#[tokio::test]
async fn a_tracker_has_no_pull_requests_and_says_so_first() {
    let (jira, fake) = connect(true);
    assert!(!jira.capabilities().has_changes);
    let forge = TrackerOnly(jira);
    let error = forge.find_change(&ChangeKey::Number(1)).await.unwrap_err();
    assert_eq!(error.to_string(), "Jira has no pull requests");
    assert_eq!(fake.0.lock().unwrap().writes, 0);
}
