//! The command line as a person meets it: settings, their order, and one sentence for what cannot be done.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn run(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mercato"));
    command.args(arguments).envs(variables.iter().copied()).current_dir(folder);
    command.output().expect("the process runs")
}

/// What a command that cannot be done says: one sentence, and a non-zero exit.
#[track_caller]
fn sentence(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let output = run(folder, arguments, variables);
    assert!(!output.status.success(), "{arguments:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("mercato: ")).collect();
    assert_eq!(lines.len(), 1, "{arguments:?}: {said}");
    lines[0].to_owned()
}

#[track_caller]
fn json(folder: &Path, arguments: &[&str]) -> Value {
    let output = run(folder, arguments, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A secret key that would do.
const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// The secrets of a database can be opened by one key only, and a process with another one is told so.
#[test]
fn a_database_is_opened_with_the_key_of_its_secrets() {
    let folder = tempfile::tempdir().expect("a folder");
    let create = ["organization", "create", "--name", "A", "--json", "--database", "surrealkv://db"];
    json(folder.path(), &create);
    let made = std::fs::metadata(folder.path().join("db.key")).expect("a key was made beside the folder");
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&made.permissions()) & 0o777, 0o600);
    json(folder.path(), &create);
    let said = sentence(folder.path(), &[&create[..], &["--secret-key", KEY]].concat(), &[]);
    assert!(said.contains("is not the one that the secrets"), "{said}");
}

#[test]
fn what_cannot_start_says_why_in_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("file"), "").expect("written");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    for (arguments, words) in [
        (vec!["serve", "--database", "rocksdb://x"], "is not one of surrealkv://FOLDER"),
        (vec!["serve", "--database", "surrealkv://"], "names no folder"),
        (vec!["serve", "--database", "ws://127.0.0.1:1"], "need the same secret key"),
        (vec!["serve", "--database", "ws://127.0.0.1:1", "--secret-key", KEY], "cannot be used"),
        (vec!["serve", "--database", "mem://", "--secret-key", "short"], "is not the base64 of 32 bytes"),
        (vec!["serve", "--database", "mem://", "--secret-key-file", "file"], "is not the base64 of 32 bytes"),
        (vec!["serve", "--database", "mem://", "--webhook-extra-ca", "nowhere"], "see --webhook-extra-ca"),
        (vec!["serve", "--database", "surrealkv://file/x"], "cannot be used"),
        (vec!["serve", "--database", "mem://", "--listen", &address], "cannot be listened at"),
        (vec!["serve", "--database", "mem://", "--environment", "demo"], "use `mercato demo`"),
        (vec!["serve", "--database", "mem://", "--simulator-url", "http://127.0.0.1:1"], "are for staging"),
        (
            vec!["serve", "--database", "mem://", "--environment", "staging", "--simulator-listen", &address],
            "choose another address with --simulator-listen",
        ),
        (
            vec!["serve", "--database", "ws://127.0.0.1:1", "--secret-key", KEY, "--environment", "staging"],
            "name it with --simulator-url, or have none with --no-simulator",
        ),
        (
            vec![
                "serve",
                "--database",
                "ws://127.0.0.1:1",
                "--secret-key",
                KEY,
                "--environment",
                "staging",
                "--no-simulator",
            ],
            "cannot be used",
        ),
        (vec!["healthcheck", "--url", "http://127.0.0.1:1/readyz"], "no answer"),
        (vec!["restore", "nothing.surql", "--database", "mem://"], "There is no backup file"),
        (vec!["backup", "x", "--database", "ws://127.0.0.1:1"], "cannot be used"),
    ] {
        let said = sentence(folder.path(), &arguments, &[]);
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

/// A flag wins over a variable, a variable over the file; what the file has and nobody knows is refused.
#[test]
fn settings_come_from_flags_then_variables_then_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("mercato.toml"), "database = \"file://x\"\n").expect("written");
    let variable = [("MERCATO_DATABASE", "variable://x")];
    let flag = ["serve", "--database", "flag://x"];
    assert!(sentence(folder.path(), &["serve"], &[]).contains("file://x"));
    assert!(sentence(folder.path(), &["doctor"], &[]).contains("file://x"));
    assert!(sentence(folder.path(), &["organization", "create", "--name", "A"], &[]).contains("file://x"));
    assert!(sentence(folder.path(), &["serve"], &variable).contains("variable://x"));
    assert!(sentence(folder.path(), &flag, &variable).contains("flag://x"));
    std::fs::write(folder.path().join("mercato.toml"), "databse = \"x\"\n").expect("written");
    assert!(sentence(folder.path(), &["serve"], &[]).contains("databse, which is not a setting"));
    std::fs::write(folder.path().join("mercato.toml"), "database = ").expect("written");
    assert!(sentence(folder.path(), &["serve"], &[]).contains("is not valid TOML"));
    assert!(
        sentence(folder.path(), &["serve"], &[("MERCATO_CONFIG", "none.toml")]).contains("none.toml cannot be read")
    );
}

/// First records offline, a backup, a restore into a new folder, a doctor's word.
#[test]
fn the_database_commands_work_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    let organization = json(here, &["organization", "create", "--name", "Acme", "--json"]);
    let organization = organization["id"].as_str().expect("an id");
    let create = ["application", "create", "--organization", organization, "--name", "Sync", "--json"];
    let application = json(here, &[&create[..], &["--scopes", "read:customers"]].concat());
    assert_eq!(application["scopes"], serde_json::json!(["read:customers"]));
    assert!(application["clientSecret"].as_str().expect("a secret").starts_with("mcs_"));
    let id = application["id"].as_str().expect("an id");
    let limits = ["application", "limits", "--organization", organization, "--application", id, "--per-hour", "5000"];
    assert!(run(here, &limits, &[]).status.success());
    assert!(sentence(here, &[&create[..], &["--scopes", "read:all"]].concat(), &[]).contains("is not a scope"));
    let unknown = ["application", "create", "--organization", "org_x", "--name", "Sync"];
    assert!(sentence(here, &unknown, &[]).contains("There is no organization org_x"));

    assert!(run(here, &["backup", "b.surql"], &[]).status.success());
    assert!(sentence(here, &["restore", "b.surql"], &[]).contains("is not empty"));
    let other = ["--database", "surrealkv://./other"];
    assert!(run(here, &[&["restore", "b.surql"], &other[..]].concat(), &[]).status.success());
    let doctor = run(here, &[&["doctor"], &other[..]].concat(), &[]);
    assert!(doctor.status.success());
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("gap-free in 1 organizations"));
    std::fs::write(here.join("bad.surql"), "CREATE x:1; THIS IS NOT A BACKUP").expect("written");
    let third = ["--database", "surrealkv://./third"];
    assert!(sentence(here, &[&["restore", "bad.surql"], &third[..]].concat(), &[]).contains("not a whole backup"));
    assert!(sentence(here, &[&["serve"], &third[..]].concat(), &[]).contains("was interrupted"));
}

/// A marketplace that was never told of is compared and adopted by the person who runs the service, and by nobody else yet.
#[test]
fn differences_are_ordered_to_be_adopted_from_the_command_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    let organization = json(here, &["organization", "create", "--name", "Acme", "--json"]);
    let organization = organization["id"].as_str().expect("an id");
    let marketplace = |rest: &[&'static str]| {
        let (command, rest) = rest.split_first().expect("a command");
        [&["marketplace", *command, "--organization", organization], rest].concat()
    };
    assert_eq!(json(here, &marketplace(&["differences", "--json"])), serde_json::json!([]));
    let compare = marketplace(&["compare", "--vendor", "cloud_b"]);
    assert!(sentence(here, &compare, &[]).contains("No account of cloud_b is connected"));
    let adopt = ["adopt", "--vendor", "cloud_b", "--subject", "x", "--kind"];
    let known = marketplace(&[&adopt[..], &["CONTRACT"]].concat());
    assert!(sentence(here, &known, &[]).contains("not found"));
    let unknown = marketplace(&[&adopt[..], &["THING"]].concat());
    assert!(sentence(here, &unknown, &[]).contains("use CONTRACT, OPERATION or USAGE"));

    let account = serde_json::json!({
        "vendor": "cloud_b", "tenantId": "t", "clientId": "c", "clientSecret": "s", "publisherId": "p", "audience": "c",
        "tokenUrl": "https://login.example.com/t", "baseUrl": "https://market.example.com",
        "ingestionUrl": "https://graph.example.com", "keysUrl": "https://login.example.com/keys",
    });
    std::fs::write(here.join("account.json"), account.to_string()).expect("written");
    let connected = run(here, &marketplace(&["connect", "--account", "account.json"]), &[]);
    assert!(connected.status.success(), "{}", String::from_utf8_lossy(&connected.stderr));
    let compared = run(here, &compare, &[]);
    assert!(String::from_utf8_lossy(&compared.stdout).contains("is compared within seconds"));
}

#[test]
fn the_contracts_can_be_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(json(folder.path(), &["schema", "openapi"])["openapi"], serde_json::json!("3.1.0"));
    let graphql = run(folder.path(), &["schema", "graphql"], &[]);
    assert_eq!(String::from_utf8_lossy(&graphql.stdout), mercato::graphql::sdl());
}

/// Whoever looks after an organization sees what it was told, and has it applied again.
#[tokio::test(flavor = "multi_thread")]
async fn notifications_are_listed_and_run_again_offline() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    let organization = json(here, &["organization", "create", "--name", "Acme", "--json"]);
    let organization = organization["id"].as_str().expect("an id");
    tell(here, organization, &["applied", "failed"]).await;
    let list = ["marketplace", "notifications", "--organization", organization];
    let listed =
        |more: &[&str]| json(here, &[&list[..], &["--json"], more].concat()).as_array().expect("a list").clone();
    assert_eq!(listed(&[]).len(), 2);
    assert!(listed(&["--waiting"]).is_empty());
    let failed = listed(&["--verdict", "failed,ignored", "--vendor", "cloud_a"]);
    assert_eq!((failed.len(), &failed[0]["externalId"]), (1, &serde_json::json!("op-2")));
    let id = failed[0]["id"].as_str().expect("an id");
    let text = run(here, &[&list[..], &["--verdict", "failed"]].concat(), &[]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains(id) && text.contains("failed") && text.contains("the kind \u{fffd}[2J"), "{text}");

    let rerun = |id: &'static str| ["marketplace", "rerun", "--organization", organization, id];
    let own = run(here, &["marketplace", "rerun", "--organization", organization, id], &[]);
    assert!(own.status.success(), "{}", String::from_utf8_lossy(&own.stderr));
    let waiting = listed(&["--waiting"]);
    assert_eq!((waiting.len(), &waiting[0]["id"]), (1, &serde_json::json!(id)));
    assert!(sentence(here, &rerun("ntf_unknown"), &[]).contains("Resource not found"));
    let wrong = run(here, &[&list[..], &["--verdict", "lost"]].concat(), &[]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("use applied, ignored or failed"));
}

/// An organization is told something, with what became of it.
async fn tell(folder: &Path, organization: &str, verdicts: &[&str]) {
    use mercato::{clock::Clock, model, store};
    let key = std::fs::read(folder.join("data.key")).expect("a key beside the database");
    let key = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, key.trim_ascii()).expect("base64");
    let secret_key = Some(store::vault::SecretKey(key.try_into().expect("32 bytes")));
    let url = format!("surrealkv://{}", folder.join("data").display());
    let target = store::connect::Target { secret_key, ..crate::harness::target(&url) };
    let opened = store::Store::open(&target, Clock::system(), store::migrate::Resume::Refuse).await;
    let store = opened.map_err(|error| error.0).expect("it opens");
    let tenant = store.tenant(model::id::OrganizationId::parse(organization).expect("an id"), None);
    for (number, verdict) in verdicts.iter().enumerate() {
        let new = model::notification::NewNotification {
            vendor: model::vendor::Vendor::CloudA,
            external_id: format!("op-{}", number + 1),
            kind: "the kind \u{1b}[2J".to_owned(),
            subject: String::new(),
            occurred_at: Some(store.clock().now()),
            body: "{}".to_owned(),
        };
        assert!(tenant.keep_notification(&new).await.expect("it is kept"));
        let turn = store.take_turns(1, 1, HashMap::new()).await.expect("it is due").remove(0);
        let kept = tenant.first_waiting(&turn).await.expect("a look").expect("it waits");
        let again = store::inbox::End::Again(store.clock().now().plus(chrono::TimeDelta::hours(1)));
        let verdict = model::notification::NotificationVerdict::parse(verdict);
        let end = verdict.map_or(again, store::inbox::End::Verdict);
        tenant.settle(&turn, kept.id, end, "because".to_owned()).await.expect("it is settled");
    }
}
