//! A repository, a store, and tickets that real events bring to approval, so that only the landing
//! remains.

use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::sync::Arc;
use std::time::Duration;

use engine::agent::CommandAgent;
use engine::caches::ProjectSetup;
use engine::certificates::Certificates;
use engine::check::Check;
use engine::coordinator::{LocalCoordinator, Report};
use engine::git::{GitProgram, Repository};
use engine::jobs::merge_train::run_merge_train;
use engine::process::{ProcessHost, StopSignal, find_program};
use engine::project::{AgentConfig, AgentServerSource, Project, ProjectAgents, ProjectConfig};
use engine::worker::name::process_name;
use findings::Review;
use flow::brief::ProjectRules;
use flow::event::Lease;
use flow::landing::{LandingConfig, LandingStyle};
use flow::policy::{Land, Limits, SandboxMode};
use flow::prices::PriceTable;
use flow::ticket::{ReworkReason, Spec, TicketContext};
use flow::{Actor, EventKind, Policy, Role, Stage, Ticket, TicketId, Usage};
use store::{ClaimRequest, ClaimTarget};
use tempfile::TempDir;

/// Kind of problem that a ticket causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    /// Changes a line that the ticket before it changes too.
    Conflicts,
    /// Is green alone, and red together with the ticket before it.
    RedTogether,
}

pub struct GitFixture {
    pub shop: Arc<Project>,
    coordinator: LocalCoordinator,
    pub repository: PathBuf,
    home: TempDir,
}

const CHECK: &str = r#"for a in red-a-*; do test ! -e "red-b-${a#red-a-}" || exit 1; done"#;

impl GitFixture {
    /// Creates the repository and the store. `check` runs on every combination in addition to our
    /// own check, which detects red pairs.
    pub async fn new(batch_max: u32, check: &str) -> Self {
        Self::with_style(batch_max, check, LandingStyle::Merge).await
    }

    /// Does the same for a queue that lands in this style.
    pub async fn with_style(batch_max: u32, check: &str, style: LandingStyle) -> Self {
        let home = TempDir::new().unwrap();
        let repository = home.path().join("repository");
        std::fs::create_dir(&repository).unwrap();
        git(&repository, &["init", "-q", "-b", "main"]);
        std::fs::write(repository.join("README"), "x\n").unwrap();
        for n in 0..64 {
            std::fs::write(repository.join(format!("shared-{n}")), "one\n").unwrap();
        }
        git(&repository, &["add", "-A"]);
        git(&repository, &["commit", "-qm", "first"]);
        // No work tree has the branch checked out that changes land on.
        git(&repository, &["checkout", "-q", "--detach"]);
        let data_dir = home.path().join("data");
        std::fs::create_dir(&data_dir).unwrap();
        let coordinator = LocalCoordinator {
            store: store::open(data_dir.join("db").to_str().unwrap())
                .await
                .unwrap(),
            clock: engine::clock::now,
            listener: None,
            refusals: Arc::default(),
        };
        let project = workshop(
            data_dir,
            &repository,
            &coordinator,
            (batch_max, check, style),
        )
        .await;
        Self {
            shop: Arc::new(project),
            coordinator,
            repository,
            home,
        }
    }

    /// Creates approved tickets, each built on the first commit.
    pub async fn approve(&self, kinds: &[Kind]) -> Vec<TicketId> {
        let mut ids = Vec::new();
        for (n, kind) in kinds.iter().enumerate() {
            let id = TicketId::new(&format!("T-{n:03}")).unwrap();
            let first = git(&self.repository, &["rev-list", "--max-parents=0", "main"]);
            let branch = format!("countersign/{id}");
            let commit = self.commit(&branch, &first, |tree| change(tree, n, *kind));
            self.create(&id).await;
            self.build(&id, &branch, &commit, &first).await;
            ids.push(id);
        }
        ids
    }

    /// Reworks every ticket that came back, as a builder would, and returns their number.
    pub async fn rework(&self, ids: &[TicketId]) -> usize {
        let mut count = 0;
        for id in ids {
            let ticket = self.ticket(id).await;
            if ticket.stage != Stage::Rework {
                continue;
            }
            count += 1;
            let branch = format!("countersign/{id}");
            let old = git(&self.repository, &["rev-parse", &branch]);
            let tip = git(&self.repository, &["rev-parse", "main"]);
            let red = matches!(
                ticket.rework_reason,
                Some(ReworkReason::RedCombination { .. })
            );
            let commit = self.commit(&branch, &old, |tree| {
                git(tree, &["merge", "-q", "-X", "ours", "--no-edit", &tip]);
                let names = git(tree, &["ls-files", "red-b-*"]);
                for name in names.lines().filter(|_| red) {
                    git(tree, &["mv", name, &name.replace("red-b", "ok-b")]);
                }
                std::fs::write(tree.join(format!("answer-{id}")), "x\n").unwrap();
            });
            self.build(id, &branch, &commit, &tip).await;
        }
        count
    }

    pub async fn ticket(&self, id: &TicketId) -> Ticket {
        self.shop.ticket(id).await.unwrap()
    }

    /// Lands all waiting tickets.
    pub async fn land(&self, ids: &[TicketId]) {
        for id in ids {
            if self.ticket(id).await.stage == Stage::Approved {
                let (_stopper, stop) = StopSignal::pair();
                let turn = run_merge_train(self.shop.clone(), id.clone(), process_name(), stop);
                turn.await.unwrap();
            }
        }
    }

    /// Returns whether the tip of the branch is green.
    pub fn is_green(&self) -> bool {
        let tree = self.home.path().join("look");
        let path = tree.to_str().unwrap().to_owned();
        git(
            &self.repository,
            &["worktree", "add", "-q", "--detach", &path, "main"],
        );
        #[expect(clippy::disallowed_methods, reason = "the fixture runs real programs")]
        let status = Program::new("sh")
            .args(["-c", CHECK])
            .current_dir(&tree)
            .status();
        git(&self.repository, &["worktree", "remove", "--force", &path]);
        status.unwrap().success()
    }

    pub fn merges(&self) -> usize {
        git(
            &self.repository,
            &["rev-list", "--merges", "--first-parent", "main"],
        )
        .lines()
        .count()
    }

    /// Makes a commit on the branch, in a work tree of its own.
    fn commit(&self, branch: &str, from: &str, change: impl FnOnce(&Path)) -> String {
        let tree = self.home.path().join("scratch");
        let path = tree.to_str().unwrap().to_owned();
        git(
            &self.repository,
            &["worktree", "add", "-q", "-B", branch, &path, from],
        );
        change(&tree);
        git(&tree, &["add", "-A"]);
        git(&tree, &["commit", "-qm", "change"]);
        let commit = git(&tree, &["rev-parse", "HEAD"]);
        git(&self.repository, &["worktree", "remove", "--force", &path]);
        commit
    }

    async fn create(&self, id: &TicketId) {
        let spec = Spec {
            title: format!("change {id}"),
            context: TicketContext {
                repository: Some(self.shop.git.common_dir().to_string_lossy().into_owned()),
                base_branch: Some("main".to_owned()),
                ..TicketContext::default()
            },
            ..Spec::default()
        };
        let (coordinator, policy) = (&self.coordinator, &self.shop.config.policy);
        let by = Actor::new("person", Role::Human);
        coordinator
            .open(id, spec, policy, (by, None))
            .await
            .unwrap();
    }

    /// Reports the submission, checks and review, each under its lease.
    async fn build(&self, id: &TicketId, branch: &str, commit: &str, base: &str) {
        let ticket = self.ticket(id).await;
        let (git, config) = (&self.shop.git, &self.shop.config);
        let described = engine::jobs::describe_submission(git, config, &ticket, branch, "builder");
        let submission = described.await.unwrap();
        assert_eq!((&*submission.commit, &*submission.base), (commit, base));
        let usage = Usage::default();
        let (builder, reviewer) = (
            Actor::new("builder", Role::Builder),
            Actor::new("reviewer", Role::Reviewer),
        );
        let submitted = |lease| EventKind::Submitted {
            lease,
            submission: Box::new(submission),
            reports: Vec::new(),
            session: None,
            usage,
        };
        self.step(id, "build", builder, submitted).await;
        let checked = |lease| EventKind::Checked {
            lease,
            commit: commit.to_owned(),
            results: Vec::new(),
            usage,
        };
        self.step(id, "check", Actor::new("house", Role::Service), checked)
            .await;
        let reviewed = |lease| EventKind::Reviewed {
            answers_open: false,
            lease,
            commit: commit.to_owned(),
            review: Box::new(approves()),
            sandbox: String::new(),
            usage,
        };
        self.step(id, "review", reviewer, reviewed).await;
    }

    async fn step(
        &self,
        id: &TicketId,
        queue: &str,
        by: Actor,
        what: impl FnOnce(Lease) -> EventKind,
    ) {
        let lease = Duration::from_secs(60);
        let request = ClaimRequest {
            only: Some(ClaimTarget::Ticket(id.clone())),
            ..ClaimRequest::new(process_name(), &by.agent, [queue], lease)
        };
        let (coordinator, policy) = (&self.coordinator, &self.shop.config.policy);
        let job = coordinator.store.claim(&request).await.unwrap().remove(0);
        let lease = Lease {
            serial: job.serial.unwrap(),
            fence: job.fence,
        };
        let started = Report::new(by.clone(), EventKind::Started { lease });
        coordinator.decide(id, policy, started).await.unwrap();
        coordinator
            .decide(id, policy, Report::new(by, what(lease)))
            .await
            .unwrap();
    }
}

fn change(tree: &Path, n: usize, kind: Kind) {
    let write = |name: String, text: String| std::fs::write(tree.join(name), text).unwrap();
    write(format!("own-{n}"), "x\n".to_owned());
    // Each ticket leaves files that the next one may conflict with.
    write(format!("shared-{}", n % 64), format!("by {n}\n"));
    write(format!("red-a-{n}"), String::new());
    match kind {
        Kind::Plain => {}
        Kind::Conflicts => write(format!("shared-{}", (n - 1) % 64), format!("by {n}\n")),
        Kind::RedTogether => write(format!("red-b-{}", n - 1), String::new()),
    }
}

fn approves() -> Review {
    findings::read(r#"{"verdict": "approved", "findings": []}"#)
}

async fn workshop(
    data_dir: PathBuf,
    repository: &Path,
    coordinator: &LocalCoordinator,
    (batch_max, check, queue_style): (u32, &str, LandingStyle),
) -> Project {
    let path = std::ffi::OsString::from("/usr/local/bin:/usr/bin:/bin");
    let tool = GitProgram {
        program: find_program("git".as_ref(), &path, repository).unwrap(),
        launcher: None,
        network_env: Vec::new(),
    };
    let agent = |name: &str| AgentConfig {
        name: name.to_owned(),
        configured_name: name.to_owned(),
        family: None,
        model: None,
        adapter: Arc::new(CommandAgent::parse("true").unwrap()),
    };
    let landing = LandingConfig {
        queue_style,
        ..LandingConfig::default()
    };
    let policy = Policy {
        land: Land::Queue,
        sandbox: SandboxMode::Off,
        limits: Limits {
            batch_max,
            ..Limits::default()
        },
        ..Policy::default()
    };
    Project {
        server: AgentServerSource::Running(|_| None),
        coordinator: Arc::new(coordinator.clone()),
        clock: engine::clock::now,
        listener: None,
        certificates: Certificates::default(),
        host: ProcessHost {
            data_dir,
            launcher: None,
            adopts_orphans: false,
        },
        git: Repository::open(tool, repository).await.unwrap(),
        agents: ProjectAgents {
            builder: Some(agent("builder")),
            reviewer: Some(agent("reviewer")),
            verifier: Some(agent("verifier")),
            others: Vec::new(),
        },
        config: ProjectConfig {
            keep_working_files: false,
            base_branch: "main".to_owned(),
            policy,
            landing,
            prices: PriceTable::default(),
            person: None,
            rules: ProjectRules::default(),
            checks: vec![Check {
                name: "test".to_owned(),
                command: format!("{check}\n{CHECK}"),
                time_limit: Duration::from_secs(60),
                parallel: false,
                coverage_min: None,
            }],
            setup: ProjectSetup::default(),
        },
        repo_sync: None,
        path,
        sandbox_profile: None,
    }
}

/// Runs git and returns its output without the final line end.
fn git(dir: &Path, args: &[&str]) -> String {
    #[expect(clippy::disallowed_methods, reason = "the fixture runs real programs")]
    let output = Program::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.com"])
        .args(args)
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned()
}
