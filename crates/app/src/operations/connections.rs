//! Connections of the server to forges and trackers: the configured repositories and projects, each
//! with a client for it.

use std::sync::Arc;

use engine::git::{Remote, Repository};
use forge::{Forge, IssueFilter, Tracker};
use tokio::sync::OnceCell;

use super::forge_connection::{ConnectedForge, connect_forge, connect_project, forge_failure};
use super::forge_pacing::CallMeter;
use super::{App, config, project};
use crate::failure::Failure;
use crate::settings::Environment;
use crate::settings::connections::{ConnectionSection, ForgeLink};

/// A connection with its client and its repository.
#[derive(Debug)]
pub struct LinkedForge {
    pub link: ForgeLink,
    pub git: Repository,
    pub connected: ConnectedForge,
    pub meter: Arc<CallMeter>,
    login: OnceCell<String>,
}

impl LinkedForge {
    pub fn name(&self) -> &str {
        self.link.name()
    }

    /// Returns the login of our own account. It is asked once.
    pub async fn own_login(&self) -> Result<&str, Failure> {
        let login = self.login.get_or_try_init(|| async {
            let account = self.tracker().whoami().await;
            account.map(|account| account.login)
        });
        Ok(login.await.map_err(forge_failure)?.as_str())
    }

    pub fn tracker(&self) -> &dyn Tracker {
        &*self.connected.forge
    }

    /// Returns the client for pull requests; a tracker has none.
    pub fn forge(&self) -> Option<&dyn Forge> {
        let forge = &*self.connected.forge;
        forge.capabilities().has_changes.then_some(forge)
    }

    /// Returns the remote to fetch from and to push to.
    pub async fn git_remote(&self) -> Result<Remote, Failure> {
        self.connected.git_remote().await
    }

    /// Returns the questions by which issues are found that may become tickets.
    pub fn intake_filters(&self, login: &str) -> Vec<IssueFilter> {
        let section = &self.link.section;
        if let Some(jql) = &section.jql {
            return vec![IssueFilter {
                query: Some(jql.clone()),
                ..IssueFilter::default()
            }];
        }
        let label = Some(&section.intake_label).filter(|label| !label.is_empty());
        let by_label = label.map(|label| IssueFilter {
            labels: vec![label.clone()],
            ..IssueFilter::default()
        });
        let by_assignee = section.intake_assigned.then(|| IssueFilter {
            assignee: Some(login.to_owned()),
            ..IssueFilter::default()
        });
        by_label.into_iter().chain(by_assignee).collect()
    }
}

/// Reads the connections of the user's own file, with their secrets.
pub fn load_links(environment: &Environment) -> Result<Vec<ForgeLink>, Failure> {
    let settings = config::load_user_settings(environment)?;
    let sections = settings.connections.iter();
    sections.map(ConnectionSection::resolve).collect()
}

/// Opens the repository of a connection and builds the client. Nothing is sent.
pub async fn connect_link(app: &App, link: &ForgeLink) -> Result<LinkedForge, Failure> {
    let name = link.name();
    let explain = |failure: Failure| Failure {
        message: format!("connection {name}: {}", failure.message),
        ..failure
    };
    let opened = project::open_repository(&app.environment, &link.directory).await;
    let git = opened.map_err(explain)?;
    let meter = Arc::<CallMeter>::default();
    let connected = if link.is_tracker() {
        connect_project(app, &link.section.repository, &meter).await
    } else {
        connect_forge(app, &git, &meter).await
    };
    let connected = connected.map_err(explain)?;
    let located = &connected.repository.location;
    if !link.is_for(&located.repository) {
        return Err(Failure::usage(format!(
            "connection {name} is for {}, and {} belongs to {}",
            link.section.repository,
            link.directory.display(),
            located.repository
        ))
        .hint("correct repository or directory of the connection"));
    }
    Ok(LinkedForge {
        link: link.clone(),
        git,
        connected,
        meter,
        login: OnceCell::new(),
    })
}
