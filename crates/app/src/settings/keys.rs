//! A sentence on every key of the files that people write: what editors show beside it.

/// The sentence on the key at a path of the schema.
pub fn sentence(path: &str) -> Option<&'static str> {
    let found = SENTENCES.iter().find(|(known, _)| *known == path);
    found.map(|(_, sentence)| *sentence)
}

pub const SENTENCES: &[(&str, &str)] = &[
    (
        "config.policy.reviewers[].fallback",
        "Who takes the seat where that agent cannot.",
    ),
    (
        "config.policy.limits.disk_bytes_max",
        "Bytes that a run may write.",
    ),
    (
        "config.policy.limits.disk_files_max",
        "Files that a run may make.",
    ),
    (
        "config.policy.fallback",
        "Who stands in for an agent that cannot work, by role.",
    ),
    ("config.policy.fallback.build", "For the builder."),
    ("config.policy.fallback.review", "For the reviewer."),
    ("config.policy.fallback.verify", "For the verifier."),
    (
        "config.base",
        "The branch to build on and to land on; found by itself where it is not named.",
    ),
    (
        "config.builder",
        "Who builds: claude, codex, gemini, …, a name from [agents], command:PROGRAM, acp:PROGRAM.",
    ),
    (
        "config.reviewer",
        "Who reviews; best of another model family than the builder.",
    ),
    (
        "config.verifier",
        "Who verifies single findings; the reviewer's program, started afresh, where nobody is named.",
    ),
    (
        "config.rules",
        "Rules of the house, one sentence each; every agent is told them.",
    ),
    (
        "config.briefs",
        "Files of the base branch whose text is added to the briefs of a role; at most 16 KiB each.",
    ),
    ("config.briefs.builder", "For builders and tasks."),
    ("config.briefs.reviewer", "For reviewers."),
    ("config.briefs.verifier", "For verifiers."),
    (
        "config.families",
        "Agents as they are written here, and the families of their models, for other_family.",
    ),
    ("config.agents", "Agents by names of your own."),
    (
        "config.agents[].adapter",
        "A known CLI's name, command or acp.",
    ),
    ("config.agents[].model", "The model that it shall use."),
    ("config.agents[].args", "Arguments after ours."),
    (
        "config.agents[].command",
        "The program, and what goes before all other arguments.",
    ),
    ("config.agents[].env", "Variables that are passed on to it."),
    (
        "config.agents[].files",
        "Files below your home that are lent to it.",
    ),
    (
        "config.agents[].hosts",
        "Hosts that it may reach where its network is held to its provider, instead of the known ones.",
    ),
    (
        "config.checks",
        "Commands that must succeed on the exact commit, by name.",
    ),
    ("config.setup", "What makes a fresh checkout usable."),
    (
        "config.setup.run",
        "A command that is run on the base branch and in fresh checkouts.",
    ),
    (
        "config.setup.timeout_secs",
        "How long the command may take.",
    ),
    (
        "config.setup.caches",
        "Directories worth keeping: node_modules, target, ~/.cargo.",
    ),
    (
        "config.worker",
        "What workers on other machines need to know.",
    ),
    (
        "config.worker.remote",
        "Where they get the repository from and put results: https://…, ssh://…, user@host:path, or origin.",
    ),
    (
        "config.notify",
        "Who is told of what happens; only in your own file, not in a project's.",
    ),
    (
        "config.notify[].name",
        "The target's name; how far it has been told is kept under it.",
    ),
    (
        "config.notify[].kind",
        "webhook: a signed POST; command: JSON on its standard input; slack: a message for a channel.",
    ),
    ("config.notify[].url", "Where to send it."),
    (
        "config.notify[].url_env",
        "The variable that has the address, where that is a secret.",
    ),
    (
        "config.notify[].url_file",
        "The file that has the address, where that is a secret.",
    ),
    (
        "config.notify[].ca_file",
        "Certificates to believe beside those whom this machine trusts, as PEM.",
    ),
    (
        "config.notify[].secret_env",
        "The variable that has the key to sign with.",
    ),
    (
        "config.notify[].secret_file",
        "The file that has the key to sign with.",
    ),
    (
        "config.notify[].command",
        "The program and its arguments; no shell is asked.",
    ),
    (
        "config.notify[].env",
        "Variables that the program is passed, beside PATH, HOME and LANG.",
    ),
    (
        "config.notify[].events",
        "Only these activities or events; all, where none is named.",
    ),
    (
        "config.notify[].severity",
        "Only what matters at least so much; urgent where no events are named, else info.",
    ),
    (
        "config.notify[].timeout_secs",
        "How long one try may take; 10.",
    ),
    (
        "config.notify[].tries_max",
        "Tries before a message is given up; 10.",
    ),
    (
        "config.spool",
        "The directory for task files, for serve; only in your own file.",
    ),
    ("config.spool.directory", "Where it is."),
    (
        "config.spool.logs",
        "Where its logs are; in it, or beside it where it is called .agent-communication.",
    ),
    (
        "config.sandbox",
        "What agents and checks see of your files; only in your own file, not in a project's.",
    ),
    (
        "config.sandbox.show",
        "Files and directories that every run may read, beside the tools in your home: ~/sdk, /srv/data.",
    ),
    (
        "config.preset",
        "A named set of policy numbers to start from.",
    ),
    (
        "config.policy",
        "The numbers and switches that decisions are made by.",
    ),
    (
        "config.policy.max_rounds",
        "Verdicts before a person is asked; 1 to 5.",
    ),
    (
        "config.policy.on_exhausted",
        "What becomes of a ticket after its last round.",
    ),
    (
        "config.policy.must_fix",
        "Severities that hold a change up.",
    ),
    (
        "config.policy.min_confidence",
        "Findings of less confidence (0 to 1) are notes: shown, but they cost no round. 0 turns it off.",
    ),
    (
        "config.policy.minor_only",
        "A rejection that names only minor findings: ask its reviewer once whether it countersigns, approve over it, or rework.",
    ),
    (
        "config.policy.review",
        "Whether agents review at all; none is always visible on the ticket.",
    ),
    ("config.policy.reviewers", "One seat for each reviewer."),
    ("config.policy.reviewers[].name", "The seat's name."),
    (
        "config.policy.reviewers[].lens",
        "What this reviewer looks at above all.",
    ),
    (
        "config.policy.reviewers[].agent",
        "The agent that takes the seat.",
    ),
    (
        "config.policy.reviewers[].confirms",
        "Asked only when the others would let the change through: a last, fresh look.",
    ),
    (
        "config.policy.reviewers[].paths",
        "Only for changes that touch one of these paths.",
    ),
    (
        "config.policy.reviewers[].kinds",
        "Only for tickets of one of these kinds.",
    ),
    (
        "config.policy.reviewers[].lines_min",
        "Only for changes of at least so many lines.",
    ),
    (
        "config.policy.reviewers[].from_round",
        "Only from this round on.",
    ),
    (
        "config.policy.reviewers[].until_round",
        "Only up to this round.",
    ),
    (
        "config.policy.reviewers[].scope",
        "The whole change, or from the second round on what has changed since the last.",
    ),
    (
        "config.policy.reviewers[].command",
        "A linter in the seat: what it prints is read as findings.",
    ),
    (
        "config.policy.votes",
        "How many of the reviewers must approve.",
    ),
    (
        "config.policy.gates",
        "What is asked before an approval; each can be switched off.",
    ),
    (
        "config.policy.gates.reviewer_approves",
        "The reviewers vote for it.",
    ),
    (
        "config.policy.gates.no_open_must_fix",
        "No must-fix finding is open.",
    ),
    (
        "config.policy.gates.no_blocking_issue",
        "No blocking issue is open.",
    ),
    (
        "config.policy.gates.dimension_minimums",
        "Every dimension reaches its minimum.",
    ),
    (
        "config.policy.gates.overall_score",
        "The weighted mean reaches overall_minimum.",
    ),
    (
        "config.policy.gates.checks_green",
        "The checks are green on this commit.",
    ),
    (
        "config.policy.dimensions",
        "What reviewers score, 0 to 100.",
    ),
    ("config.policy.dimensions[].weight", "How much it weighs."),
    (
        "config.policy.dimensions[].minimum",
        "Takes the place of the weight's own minimum.",
    ),
    ("config.policy.minimums", "The least score by weight."),
    (
        "config.policy.minimums.critical",
        "For critical dimensions.",
    ),
    (
        "config.policy.minimums.important",
        "For important dimensions.",
    ),
    (
        "config.policy.minimums.moderate",
        "For moderate dimensions.",
    ),
    (
        "config.policy.weights",
        "How much a weight counts in the mean.",
    ),
    ("config.policy.weights.critical", "Of critical dimensions."),
    (
        "config.policy.weights.important",
        "Of important dimensions.",
    ),
    ("config.policy.weights.moderate", "Of moderate dimensions."),
    (
        "config.policy.overall_minimum",
        "The least weighted mean of the dimensions.",
    ),
    (
        "config.policy.verify",
        "Which new findings a verifier looks at before rework is paid for.",
    ),
    (
        "config.policy.second_opinion",
        "What one verifier refutes or doubts is put to a second.",
    ),
    (
        "config.policy.disposition",
        "When open findings of earlier rounds are verified: beside the reviewers, or first.",
    ),
    (
        "config.policy.criteria_required",
        "A review that does not answer every criterion with evidence is none.",
    ),
    (
        "config.policy.other_family",
        "Nobody of the builder's model family judges.",
    ),
    (
        "config.policy.protected",
        "Paths that are shown to the reviewer when a change touches them.",
    ),
    (
        "config.policy.protected_change",
        "Whether such a change is shown, or forbidden.",
    ),
    (
        "config.policy.leftovers",
        "What becomes of what the builder left uncommitted.",
    ),
    ("config.policy.land", "What becomes of the approved commit."),
    (
        "config.policy.dependants_start",
        "When tickets that depend on this one start.",
    ),
    (
        "config.policy.red_on_base",
        "A check that is red before the change as well.",
    ),
    (
        "config.policy.isolation",
        "Agents and checks run in a sandbox, or at your own risk without.",
    ),
    (
        "config.policy.network",
        "Which hosts runs reach, by role: on, off, provider (the model provider's only) or a list of hosts.",
    ),
    ("config.policy.network.build", "For builders."),
    ("config.policy.network.check", "For checks."),
    ("config.policy.network.review", "For reviewers."),
    ("config.policy.network.verify", "For verifiers."),
    (
        "config.policy.ordinary_dot_files",
        "Dot files (patterns) that a reviewer sees as the change has them, and not as the base branch has them.",
    ),
    ("config.policy.limits", "Bounds that are not rounds."),
    ("config.policy.limits.retries_max", "Tries of one job."),
    (
        "config.policy.limits.backoff_secs",
        "The first wait before a retry.",
    ),
    (
        "config.policy.limits.backoff_secs_max",
        "The longest wait before a retry.",
    ),
    (
        "config.policy.limits.unusable_reviews_max",
        "Fresh reviewers that are tried before a person is asked.",
    ),
    (
        "config.policy.limits.red_checks_max",
        "Red checks in one round.",
    ),
    (
        "config.policy.limits.conflicts_max",
        "Merge conflicts before a person is asked.",
    ),
    (
        "config.policy.limits.stale_max",
        "Approvals that a moved base may void.",
    ),
    (
        "config.policy.limits.unfixed_max",
        "Reworks of one round that go back unread.",
    ),
    (
        "config.policy.limits.batch_max",
        "Commits that the landing queue tries together.",
    ),
    (
        "config.policy.limits.lease_secs",
        "How long a worker holds a job without a sign of life.",
    ),
    ("config.policy.limits.build_secs", "The longest build."),
    (
        "config.policy.limits.check_secs",
        "The longest run of all checks.",
    ),
    ("config.policy.limits.review_secs", "The longest review."),
    (
        "config.policy.limits.verify_secs",
        "The longest verification.",
    ),
    ("config.policy.limits.merge_secs", "The longest landing."),
    ("config.policy.limits.idle_secs", "Silence that ends a run."),
    (
        "config.policy.limits.output_bytes_max",
        "Output of a run that is kept.",
    ),
    (
        "config.policy.limits.findings_max",
        "Findings of one review that are kept.",
    ),
    (
        "config.policy.limits.queue_max",
        "Jobs that wait in one queue.",
    ),
    (
        "config.policy.limits.heartbeat_secs",
        "Silence of an agent that is noted.",
    ),
    (
        "config.policy.limits.watchdog_secs",
        "How often lost leases are looked for.",
    ),
    (
        "config.policy.limits.poll_secs",
        "How often work is looked for where no wake-up comes.",
    ),
    (
        "config.policy.budget",
        "Hard caps: at one of them work stops and a person is asked.",
    ),
    ("config.policy.budget.round", "For one round."),
    (
        "config.policy.budget.round.usd_micros",
        "Millionths of a dollar for one round.",
    ),
    ("config.policy.budget.round.tokens", "Tokens for one round."),
    (
        "config.policy.budget.round.wall_secs",
        "Seconds of work for one round.",
    ),
    ("config.policy.budget.ticket", "For one ticket."),
    (
        "config.policy.budget.ticket.usd_micros",
        "Millionths of a dollar for one ticket.",
    ),
    (
        "config.policy.budget.ticket.tokens",
        "Tokens for one ticket.",
    ),
    (
        "config.policy.budget.ticket.wall_secs",
        "Seconds of work for one ticket.",
    ),
    (
        "config.policy.budget.day",
        "For all tickets of one day, by universal time.",
    ),
    (
        "config.policy.budget.day.usd_micros",
        "Millionths of a dollar for one day.",
    ),
    ("config.policy.budget.day.tokens", "Tokens for one day."),
    (
        "config.policy.budget.day.wall_secs",
        "Seconds of work for one day.",
    ),
    (
        "ticket.id",
        "Your own name for the ticket; made from the title where it is not given.",
    ),
    (
        "ticket.title",
        "What shall be done, in one sentence; the first heading where it is not given.",
    ),
    (
        "ticket.description",
        "The rest of what there is to say; the text below the front matter where it is not given.",
    ),
    (
        "ticket.priority",
        "Higher goes first; 50 where it is not given.",
    ),
    ("ticket.depends_on", "Tickets that must be done first."),
    ("ticket.dependencies", "The same as depends_on."),
    (
        "ticket.acceptance",
        "What must hold at the end, one sentence each.",
    ),
    ("ticket.acceptance_criteria", "The same as acceptance."),
    ("ticket.kind", "A free word: implementation, fix, …"),
    ("ticket.type", "The same as kind."),
    ("ticket.critical", "The epic fails if this ticket does."),
    (
        "ticket.protected",
        "Paths that the change must leave alone.",
    ),
    ("ticket.epic", "The epic that it belongs to."),
    ("ticket.base", "The branch to build on and to land on."),
    (
        "ticket.branch",
        "The branch to build on it; countersign/ID where it is not given.",
    ),
    ("ticket.jira_key", "Its key in Jira."),
    ("ticket.github_repo", "OWNER/NAME on GitHub."),
    ("ticket.pr_number", "The pull request that it belongs to."),
    (
        "ticket.coordination",
        "What the epic demands of every ticket.",
    ),
    (
        "ticket.needs",
        "Labels (KEY=VALUE) that a worker must have to take it up.",
    ),
    ("epic.id", "Your own name for the epic."),
    ("epic.title", "What all of it together is for."),
    ("epic.base", "The branch that all tickets land on."),
    (
        "epic.gate",
        "person: somebody signs the whole at its end; none: nobody does.",
    ),
    (
        "epic.coordination",
        "What every ticket must keep; every reviewer checks it.",
    ),
    (
        "epic.coordination_requirements",
        "The same as coordination, in sections of your own.",
    ),
    ("epic.tickets", "The tickets, in any order."),
];
