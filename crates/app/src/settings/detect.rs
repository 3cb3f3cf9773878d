//! Detects a project's languages, its test and lint commands, and the setup of a fresh checkout. It
//! looks at manifests, at lock files, and at the programs on `PATH`: a command whose program is not
//! installed is never proposed. It only reads; it runs nothing.

mod node;
mod others;
mod python;
#[cfg(test)]
mod tests;
mod workspace;

use std::path::{Path, PathBuf};

use serde::Serialize;

pub use workspace::has_manifest;

/// Maximum size of a manifest that is read.
const BYTES_MAX: usize = 1024 * 1024;

/// Facts that were detected about a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DetectedProject {
    /// Each language, and the file that shows it.
    pub languages: Vec<(String, String)>,
    /// Name and command of each check.
    pub checks: Vec<(String, String)>,
    /// Command that prepares a fresh checkout.
    pub setup: Option<String>,
    /// Directories to keep between runs.
    pub caches: Vec<String>,
    /// Another way to prepare a checkout, for the case that the first one fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_setup: Option<SetupPlan>,
    /// Programs that the project wants and this machine lacks, each with the reason.
    pub not_installed: Vec<String>,
    /// Other facts that a person should know.
    pub notes: Vec<String>,
}

/// One way to prepare a fresh checkout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SetupPlan {
    pub run: Option<String>,
    pub caches: Vec<String>,
}

impl SetupPlan {
    fn run(command: impl Into<String>, caches: &[&str]) -> Self {
        Self {
            run: Some(command.into()),
            caches: caches.iter().map(|cache| (*cache).to_owned()).collect(),
        }
    }

    /// Takes the caches from the user's own work tree.
    fn own(caches: &[&str]) -> Self {
        Self {
            run: None,
            ..Self::run("", caches)
        }
    }
}

/// Tells whether a program is installed.
pub type IsInstalled<'a> = &'a dyn Fn(&str) -> bool;

/// Detects the project in a directory `below` the root of its repository. At the root, a repository
/// without a manifest of its own is searched for members.
pub fn detect(root: &Path, below: &Path, installed: IsInstalled<'_>) -> DetectedProject {
    let site = |below: PathBuf| ProjectSite {
        root,
        below,
        installed,
    };
    let mut sites = vec![site(below.to_owned())];
    if below.as_os_str().is_empty() && !has_manifest(root) {
        let members = workspace::find_members(root);
        sites = members.into_iter().map(site).collect();
    }
    let is_alone = sites.len() == 1;
    let mut all = SiteFindings::default();
    for site in &sites {
        all.merge(detect_site(site), site, is_alone);
    }
    if is_alone {
        note_other_languages(&sites[0], &mut all);
    }
    environment_file(&site(PathBuf::new()), &mut all);
    all.into_project()
}

/// Detects everything in one directory. Each language has its own checks, also where another one
/// has a check of the same name.
fn detect_site(site: &ProjectSite<'_>) -> SiteFindings {
    let mut found = SiteFindings::default();
    let languages: [Detector; 9] = [
        others::rust,
        node::detect,
        python::detect,
        others::go,
        others::jvm,
        others::ruby,
        others::php,
        others::dotnet,
        others::plain,
    ];
    for detector in languages {
        let mut own = SiteFindings::default();
        detector(site, &mut own);
        found.add_language(own);
    }
    others::recipes(site, &mut found);
    found
}

type Detector = fn(&ProjectSite<'_>, &mut SiteFindings);

/// Directories whose packages are no part of the product.
const SIDE_DIRS: &[&str] = &[
    "docs", "doc", "examples", "example", "tests", "test", "fixtures", "scripts", "tools",
    "benches",
];

/// Names packages below the directory that are written in another language than its own. Their checks
/// are left to the person: an unneeded setup that fails would make all checks red.
fn note_other_languages(site: &ProjectSite<'_>, found: &mut SiteFindings) {
    let known: Vec<String> = found
        .languages
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    // A recipe at the top that tests the project most often tests all of it.
    if known.is_empty() && !found.checks.is_empty() {
        return;
    }
    let is_side_dir = |member: &Path| {
        let mut parts = member.iter().filter_map(|part| part.to_str());
        parts.any(|part| SIDE_DIRS.contains(&part))
    };
    for member in workspace::find_members(&site.dir()) {
        let below = site.below.join(&member);
        let inside = ProjectSite { below, ..*site };
        let other = detect_site(&inside).languages.into_iter();
        let other = other.filter(|(name, _)| !is_side_dir(&member) && !is_known(&known, name));
        for (name, file) in other {
            let file = inside.below.join(file);
            found.notes.push(format!(
                "{} ({name}) gets no check: add its commands under [checks], or run `countersign init` in its directory instead",
                file.display()
            ));
        }
    }
}

/// Returns whether a language is known, TypeScript and JavaScript counting as one.
fn is_known(known: &[String], name: &str) -> bool {
    let family = |name: &str| match name {
        "TypeScript" => "JavaScript".to_owned(),
        other => other.to_owned(),
    };
    known.iter().any(|one| family(one) == family(name))
}

/// A directory of the repository that is inspected.
struct ProjectSite<'a> {
    root: &'a Path,
    below: PathBuf,
    installed: IsInstalled<'a>,
}

impl ProjectSite<'_> {
    fn dir(&self) -> PathBuf {
        self.root.join(&self.below)
    }

    fn has(&self, name: &str) -> bool {
        self.dir().join(name).exists()
    }

    fn first(&self, names: &[&str]) -> Option<String> {
        let found = names.iter().find(|name| self.has(name));
        found.map(|name| (*name).to_owned())
    }

    /// Returns the text of a file; empty if there is none.
    fn text(&self, name: &str) -> String {
        read_text(&self.dir().join(name))
    }

    /// Returns the nearest directory, from here up to the root, that has one of these files.
    fn nearest(&self, names: &[&str]) -> Option<PathBuf> {
        let mut around = self.below.ancestors();
        let has = |dir: &&Path| {
            names
                .iter()
                .any(|name| self.root.join(dir).join(name).exists())
        };
        around.find(has).map(Path::to_owned)
    }

    /// Returns whether the program is installed, and records it as missing if not.
    fn needs(&self, program: &str, because: &str, found: &mut SiteFindings) -> bool {
        let is_installed = (self.installed)(program);
        if !is_installed {
            let sentence = format!("{program} is not installed; {because}");
            if !found.not_installed.contains(&sentence) {
                found.not_installed.push(sentence);
            }
        }
        is_installed
    }
}

fn read_text(path: &Path) -> String {
    let bytes = super::read_bounded(path, "the manifest", BYTES_MAX);
    bytes.map_or_else(
        |_| String::new(),
        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
    )
}

/// Returns the first word of a language's name, as a part of a check's name.
fn short_name(language: &str) -> String {
    let word = language.split(' ').next().unwrap_or_default();
    let word = word.to_ascii_lowercase();
    word.trim_matches(|c: char| !c.is_ascii_alphanumeric())
        .to_owned()
}

/// Returns a command that runs in a directory below the root.
fn in_dir(below: &Path, command: &str) -> String {
    if below.as_os_str().is_empty() {
        return command.to_owned();
    }
    format!("cd {} && {command}", quote(&below.to_string_lossy()))
}

/// Quotes a word for the shell.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./@%+=:,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Findings of one site.
#[derive(Default)]
struct SiteFindings {
    languages: Vec<(String, String)>,
    checks: Vec<(String, String)>,
    /// Parts of the setup, each with its choices, the best first. The directory of each choice is
    /// below the root.
    setups: Vec<Vec<(PathBuf, SetupPlan)>>,
    not_installed: Vec<String>,
    notes: Vec<String>,
}

impl SiteFindings {
    fn language(&mut self, name: &str, file: &str) {
        self.languages.push((name.to_owned(), file.to_owned()));
    }

    /// Adds a check. The first command for a name stays, so a language's own command wins over a
    /// recipe.
    fn check(&mut self, name: &str, command: impl Into<String>) {
        if !self.checks.iter().any(|(known, _)| known == name) {
            self.checks.push((name.to_owned(), command.into()));
        }
    }

    /// Adds what one language needs. A check whose name is taken gets the name of the language too.
    fn add_language(&mut self, own: Self) {
        let language = own.languages.first().map(|(name, _)| short_name(name));
        for (name, command) in own.checks {
            let is_taken = self.checks.iter().any(|(known, _)| *known == name);
            let name = match &language {
                Some(language) if is_taken => format!("{language}-{name}"),
                _ => name,
            };
            self.check(&name, command);
        }
        self.languages.extend(own.languages);
        for choices in own.setups {
            if !self.setups.contains(&choices) {
                self.setups.push(choices);
            }
        }
        self.add_remarks(own.not_installed, own.notes);
    }

    fn add_remarks(&mut self, not_installed: Vec<String>, notes: Vec<String>) {
        for sentence in not_installed {
            if !self.not_installed.contains(&sentence) {
                self.not_installed.push(sentence);
            }
        }
        self.notes.extend(notes);
    }

    /// Adds a part of the setup that runs in the directory `below` the root.
    fn setup(&mut self, below: &Path, choices: Vec<SetupPlan>) {
        let choices: Vec<_> = choices
            .into_iter()
            .map(|plan| (below.to_owned(), plan))
            .collect();
        if !choices.is_empty() && !self.setups.contains(&choices) {
            self.setups.push(choices);
        }
    }

    /// Takes over the findings of a site. With several sites, each check has the site's name.
    fn merge(&mut self, other: Self, site: &ProjectSite<'_>, is_alone: bool) {
        let at = |file: &str| site.below.join(file).to_string_lossy().into_owned();
        for (language, file) in other.languages {
            self.languages.push((language, at(&file)));
        }
        let member = site.below.to_string_lossy().replace(['/', ' '], "-");
        for (name, command) in other.checks {
            let name = if is_alone {
                name
            } else {
                format!("{member}-{name}")
            };
            self.check(&name, in_dir(&site.below, &command));
        }
        for choices in other.setups {
            if !self.setups.contains(&choices) {
                self.setups.push(choices);
            }
        }
        self.add_remarks(other.not_installed, other.notes);
    }

    /// Returns the setup made of each part's choice with this number, or of its last one.
    fn plan(&self, number: usize) -> SetupPlan {
        let mut commands: Vec<String> = Vec::new();
        let mut caches: Vec<String> = Vec::new();
        for choices in &self.setups {
            let Some((below, plan)) = choices.get(number).or_else(|| choices.last()) else {
                continue;
            };
            commands.extend(plan.run.iter().map(|run| in_dir(below, run)));
            caches.extend(
                plan.caches
                    .iter()
                    .map(|cache| match cache.strip_prefix("~/") {
                        Some(_) => cache.clone(),
                        None => below.join(cache).to_string_lossy().into_owned(),
                    }),
            );
        }
        caches.dedup();
        let run = match commands.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            // Each part starts at the root, and the first failure ends the whole.
            many => Some(
                many.iter()
                    .map(|command| format!("( {command} )"))
                    .collect::<Vec<_>>()
                    .join(" && "),
            ),
        };
        SetupPlan { run, caches }
    }

    fn into_project(self) -> DetectedProject {
        let (first, second) = (self.plan(0), self.plan(1));
        DetectedProject {
            other_setup: (first != second).then_some(second),
            languages: self.languages,
            checks: self.checks,
            setup: first.run,
            caches: first.caches,
            not_installed: self.not_installed,
            notes: self.notes,
        }
    }
}

/// Proposes to create `.env` from its example, if git ignores it. Otherwise it would become part of
/// a change.
fn environment_file(top: &ProjectSite<'_>, found: &mut SiteFindings) {
    let Some(example) = top.first(&[".env.example", ".env.sample", ".env.dist"]) else {
        return;
    };
    let ignores = top.text(".gitignore");
    let mut ignores = ignores.lines().map(str::trim);
    if ignores.any(|line| matches!(line, ".env" | "/.env" | ".env*" | "*.env")) {
        let copy = format!("test -e .env || cp {example} .env");
        found.setup(Path::new(""), vec![SetupPlan::run(copy, &[])]);
    } else {
        found.notes.push(format!(
            "{example} is here, and a fresh checkout has no .env: if the checks need one, ignore it in .gitignore and add `cp {example} .env` to `run` in [setup]"
        ));
    }
}
