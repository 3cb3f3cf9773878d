//! JavaScript and TypeScript: npm, pnpm, yarn and bun.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{ProjectSite, SetupPlan, SiteFindings, read_text, workspace};

/// A package manager, and the lock files that show it.
struct NodeInstaller {
    name: &'static str,
    locks: &'static [&'static str],
}

const INSTALLERS: &[NodeInstaller] = &[
    NodeInstaller {
        name: "pnpm",
        locks: &["pnpm-lock.yaml"],
    },
    NodeInstaller {
        name: "yarn",
        locks: &["yarn.lock"],
    },
    NodeInstaller {
        name: "bun",
        locks: &["bun.lock", "bun.lockb"],
    },
    NodeInstaller {
        name: "npm",
        locks: &["package-lock.json", "npm-shrinkwrap.json"],
    },
];

pub fn detect(site: &ProjectSite<'_>, found: &mut SiteFindings) {
    if !site.has("package.json") {
        return;
    }
    let typed = site.has("tsconfig.json");
    let language = if typed { "TypeScript" } else { "JavaScript" };
    found.language(language, "package.json");
    let parsed = serde_json::from_str(&site.text("package.json"));
    if let Err(error) = &parsed {
        found
            .notes
            .push(format!("package.json cannot be read: {error}"));
    }
    let manifest: Value = parsed.unwrap_or_default();
    let locked = INSTALLERS
        .iter()
        .find_map(|manager| Some((manager.name, site.nearest(manager.locks)?)));
    let wanted = locked
        .as_ref()
        .map(|(name, _)| (*name).to_owned())
        .or_else(|| named_manager(&manifest))
        // No other manager has this file.
        .or_else(|| site.has("pnpm-workspace.yaml").then(|| "pnpm".to_owned()))
        .unwrap_or_else(|| "npm".to_owned());
    let because = match &locked {
        Some(_) => "the lock file is made for it",
        None => "package.json needs it",
    };
    let is_installed = site.needs(&wanted, because, found);
    // The scripts run with any manager; the installation needs the right one.
    let runner = if is_installed {
        Some(wanted.as_str())
    } else {
        ["npm", "pnpm", "yarn", "bun"]
            .into_iter()
            .find(|name| (site.installed)(name))
    };
    let top = locked
        .as_ref()
        .map_or_else(|| site.below.clone(), |(_, dir)| dir.clone());
    if let Some(runner) = runner {
        checks(site, &manifest, runner, found);
    }
    // The root of a workspace may have no dependencies of its own.
    if has_dependencies(&manifest) || !members(&site.dir(), &manifest).is_empty() {
        let usable = locked.is_some() && is_installed;
        let choices = setups(site, &top, usable.then_some(wanted.as_str()), runner);
        found.setup(&top, choices);
    }
}

/// Returns the manager of a field such as `"packageManager": "pnpm@9.1.0"`.
fn named_manager(manifest: &Value) -> Option<String> {
    let named = manifest["packageManager"].as_str()?;
    let name = named.split('@').next()?;
    let mut known = INSTALLERS.iter();
    known
        .any(|manager| manager.name == name)
        .then(|| name.to_owned())
}

fn has_dependencies(manifest: &Value) -> bool {
    let fields = ["dependencies", "devDependencies", "workspaces"];
    fields.iter().any(|field| match &manifest[*field] {
        Value::Object(entries) => !entries.is_empty(),
        Value::Array(entries) => !entries.is_empty(),
        _ => false,
    })
}

fn checks(site: &ProjectSite<'_>, manifest: &Value, runner: &str, found: &mut SiteFindings) {
    let script = |name: &str| manifest["scripts"][name].as_str();
    // `npm init` writes a test that always fails.
    let is_test = |test: &str| !test.contains("no test specified");
    if script("test").is_some_and(is_test) {
        let test = if runner == "bun" { "run test" } else { "test" };
        found.check("test", format!("{runner} {test}"));
    } else if let Some(command) = test_of_members(site, manifest, runner) {
        found.check("test", command);
    }
    for (name, scripts) in [
        ("lint", &["lint"][..]),
        ("types", &["typecheck", "type-check", "types"]),
    ] {
        if let Some(script) = scripts.iter().find(|name| script(name).is_some()) {
            found.check(name, format!("{runner} run {script}"));
        }
    }
}

/// Returns the command that tests all members of a workspace, if any of them has tests.
fn test_of_members(site: &ProjectSite<'_>, manifest: &Value, runner: &str) -> Option<String> {
    let members = members(&site.dir(), manifest);
    let has_test = |member: &PathBuf| {
        let text = read_text(&site.dir().join(member).join("package.json"));
        let manifest: Value = serde_json::from_str(&text).unwrap_or_default();
        manifest["scripts"]["test"].is_string()
    };
    members.iter().any(has_test).then(|| {
        match runner {
            "pnpm" => "pnpm --recursive --if-present run test",
            "yarn" => "yarn workspaces foreach --all run test",
            "bun" => "bun run --filter '*' test",
            _ => "npm test --workspaces --if-present",
        }
        .to_owned()
    })
}

/// Returns the members of a workspace of npm, yarn, bun or pnpm.
fn members(dir: &Path, manifest: &Value) -> Vec<PathBuf> {
    let listed = match &manifest["workspaces"] {
        Value::Object(fields) => fields.get("packages").cloned().unwrap_or_default(),
        other => other.clone(),
    };
    let listed = listed.as_array().cloned().unwrap_or_default();
    let mut patterns: Vec<String> = listed
        .iter()
        .filter_map(|pattern| Some(pattern.as_str()?.to_owned()))
        .collect();
    // A list of one level, which is how pnpm documents it.
    let file = read_text(&dir.join("pnpm-workspace.yaml"));
    let list = file.lines().map(str::trim);
    patterns.extend(list.filter_map(|line| {
        let item = line.strip_prefix("- ")?;
        Some(item.trim().trim_matches(['\'', '"']).to_owned())
    }));
    workspace::expand(dir, &patterns)
}

/// Returns the ways to get `node_modules`, the best first.
fn setups(
    site: &ProjectSite<'_>,
    top: &Path,
    locked: Option<&str>,
    runner: Option<&str>,
) -> Vec<SetupPlan> {
    let dir = site.root.join(top);
    let mut choices: Vec<SetupPlan> = Vec::new();
    match locked {
        Some("pnpm") => {
            let mut plan = SetupPlan::run(
                "pnpm install --frozen-lockfile --prefer-offline --store-dir ~/.pnpm-store",
                &["node_modules", "~/.pnpm-store"],
            );
            let text = read_text(&dir.join("package.json"));
            let manifest = serde_json::from_str(&text).unwrap_or_default();
            // Each member of a pnpm workspace has links of its own.
            plan.caches.extend(members(&dir, &manifest).iter().map(|member| {
                member.join("node_modules").to_string_lossy().into_owned()
            }));
            choices.push(plan);
        }
        Some("yarn") if read_text(&dir.join("yarn.lock")).contains("# yarn lockfile v1") => {
            choices.push(SetupPlan::run(
                "yarn install --frozen-lockfile --cache-folder ~/.yarn-cache",
                &["node_modules", "~/.yarn-cache"],
            ));
        }
        Some("yarn") => choices.push(SetupPlan::run(
            "YARN_ENABLE_GLOBAL_CACHE=true YARN_GLOBAL_FOLDER=~/.yarn-global yarn install --immutable",
            &["node_modules", "~/.yarn-global"],
        )),
        Some("bun") => choices.push(SetupPlan::run(
            "bun install --frozen-lockfile",
            &["node_modules", "~/.bun/install/cache"],
        )),
        Some(_) => choices.push(SetupPlan::run(
            "npm ci --prefer-offline --no-audit --no-fund",
            &["node_modules", "~/.npm"],
        )),
        None => {}
    }
    let own = dir.join("node_modules");
    if own.is_dir() && !own.is_symlink() {
        choices.push(SetupPlan::own(&["node_modules"]));
    } else if locked.is_none() && runner == Some("npm") {
        choices.push(SetupPlan::run(
            "npm install --no-package-lock --no-audit --no-fund",
            &["node_modules", "~/.npm"],
        ));
    }
    choices
}
