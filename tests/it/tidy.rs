//! The rules of the house: who may import whom, and that every file says what it is for.

use std::path::{Path, PathBuf};

fn sources(folder: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path: PathBuf = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).expect("inside").display().to_string();
                found.push((name, std::fs::read_to_string(&path).expect("text")));
            }
        }
    }
    found.sort();
    found
}

/// The files of `src` in which a line of code (not of comment) contains `word`.
fn naming(word: &str) -> Vec<String> {
    let names = |text: &str| text.lines().any(|line| !line.trim_start().starts_with("//") && line.contains(word));
    sources("src").into_iter().filter(|(_, text)| names(text)).map(|(name, _)| name).collect()
}

#[track_caller]
fn only_in(word: &str, rooms: &[&str]) {
    for file in naming(word) {
        let allowed = rooms.iter().any(|room| file.starts_with(&format!("src/{room}")));
        assert!(allowed, "{file} names {word}, which belongs in {rooms:?} only");
    }
}

#[track_caller]
fn not_in(word: &str, room: &str) {
    for file in naming(word) {
        assert!(!file.starts_with(&format!("src/{room}")), "{file} names {word}");
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    for folder in ["src", "tests", "benches"] {
        for (name, text) in sources(folder) {
            assert!(text.starts_with("//! "), "{name} does not open with a //! line");
        }
    }
}

#[test]
fn rooms_stay_small() {
    for (name, text) in sources("src") {
        assert!(text.lines().count() <= 400, "{name} has grown over 400 lines");
    }
}

#[test]
fn libraries_are_named_where_they_belong() {
    only_in("surrealdb", &["store/"]);
    only_in("axum", &["rest/", "graphql/", "http/", "marketplace/simulator/", "marketplace/inbound.rs", "app.rs"]);
    only_in("async_graphql", &["graphql/", "model/"]);
    only_in("SystemTime::now", &["clock.rs"]);
}

#[test]
fn facades_know_neither_the_store_nor_each_other() {
    not_in("crate::store", "rest/");
    not_in("crate::store", "graphql/");
    not_in("crate::graphql", "rest/customers.rs");
    not_in("crate::rest", "graphql/");
    not_in("crate::rest", "http/");
    not_in("crate::graphql", "http/");
}

#[test]
fn leaves_import_nothing_but_each_other() {
    for room in ["model/", "error.rs", "clock.rs", "courier/"] {
        for word in ["call", "store", "resolvers", "auth", "http", "rest", "graphql", "app", "cli", "config"] {
            not_in(&format!("crate::{word}"), room);
        }
    }
    for word in ["rest", "graphql", "http", "app", "cli"] {
        not_in(&format!("crate::{word}"), "store/");
        not_in(&format!("crate::{word}"), "webhook/");
        not_in(&format!("crate::{word}"), "resolvers/");
        not_in(&format!("crate::{word}"), "call.rs");
    }
}

/// The guard is the door: nothing but `Call::grant` (and workers, who have no caller) makes a `Tenant`.
#[test]
fn only_the_guard_opens_the_store() {
    only_in(
        ".tenant(",
        &[
            "call.rs",
            "store/",
            "resolvers/clockwork.rs",
            "webhook/",
            "marketplace/clerk.rs",
            "marketplace/inbox.rs",
            "marketplace/reconciler.rs",
        ],
    );
    only_in(".find_tenant(", &["store/", "marketplace/inbound.rs"]);
    only_in(".engine()", &[]);
}
