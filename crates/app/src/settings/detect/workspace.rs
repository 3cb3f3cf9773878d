//! Members of a repository with several packages.

use std::path::{Path, PathBuf};

/// Files that make a directory a package of its own.
const MANIFESTS: &[&str] = &[
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
    "setup.py",
    "requirements.txt",
    "go.mod",
    "go.work",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "gradlew",
    "Gemfile",
    "composer.json",
    "deno.json",
    "mix.exs",
    "Package.swift",
    "build.zig",
    "pubspec.yaml",
    "stack.yaml",
    "build.sbt",
    "Makefile",
    "justfile",
    "Justfile",
];
/// Maximum number of members, and of directories that are looked at.
const MEMBERS_MAX: usize = 8;
const DIRS_MAX: usize = 500;
const LEVELS_MAX: usize = 2;
/// Directories that contain no members.
const SKIPPED: &[&str] = &[
    "node_modules",
    "target",
    "vendor",
    "dist",
    "build",
    "third_party",
];

/// Returns whether the directory itself is a package.
pub fn has_manifest(dir: &Path) -> bool {
    let has = |name: &str| dir.join(name).is_file();
    MANIFESTS.iter().any(|name| has(name)) || has_dotnet_project(dir)
}

/// Returns whether the directory has a solution or a project of .NET.
pub fn has_dotnet_project(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.take(DIRS_MAX).any(|entry| {
        let name = entry.file_name();
        let ending = Path::new(&name).extension();
        ending.is_some_and(|ending| {
            ["sln", "slnx", "csproj", "fsproj"]
                .iter()
                .any(|known| ending == *known)
        })
    })
}

/// Returns the packages below a root that is none itself, in order.
pub fn find_members(root: &Path) -> Vec<PathBuf> {
    let mut members = Vec::new();
    let mut looked_at = 0;
    let mut todo = vec![(PathBuf::new(), 0)];
    while let Some((below, level)) = todo.pop() {
        for name in directory_names(&root.join(&below)) {
            let member = below.join(&name);
            looked_at += 1;
            if looked_at > DIRS_MAX || members.len() >= MEMBERS_MAX {
                members.sort();
                return members;
            }
            if has_manifest(&root.join(&member)) {
                members.push(member);
            } else if level + 1 < LEVELS_MAX {
                todo.push((member, level + 1));
            }
        }
    }
    members.sort();
    members
}

/// Returns the packages that patterns such as `packages/*` name, as directories below the root.
pub fn expand(root: &Path, patterns: &[String]) -> Vec<PathBuf> {
    let mut members = Vec::new();
    for pattern in patterns {
        let pattern = pattern.trim_start_matches("./").trim_end_matches('/');
        if pattern.starts_with('!') || pattern.contains("..") || pattern.starts_with('/') {
            continue;
        }
        let parent = pattern
            .strip_suffix("/**")
            .or_else(|| pattern.strip_suffix("/*"));
        match parent {
            Some(parent) if !parent.contains('*') => {
                let names = directory_names(&root.join(parent));
                members.extend(names.into_iter().map(|name| Path::new(parent).join(name)));
            }
            None if !pattern.contains('*') => members.push(pattern.into()),
            _ => {}
        }
    }
    members.retain(|member| root.join(member).is_dir());
    members.truncate(DIRS_MAX);
    members
}

/// Returns the visible directories of a directory, in order. Links are left out: they may lead
/// anywhere.
fn directory_names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .take(DIRS_MAX)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.') && !SKIPPED.contains(&name.as_str()))
        .collect();
    names.sort();
    names
}
