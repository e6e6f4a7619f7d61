//! Tests of the configuration, from YAML and from `-o` words.

use std::time::Duration;

use super::*;
use crate::fs::options::{From, Isolation, OnDamage, UpTo};

fn read(text: &str) -> Result<Config, String> {
    let mut config = Config::default();
    yaml::read(&mut config, Path::new("t.yaml"), text).map_err(|error| error.to_string())?;
    Ok(config)
}

fn words(options: &str) -> Result<Config, String> {
    words_of(Caller::Person, options)
}

fn words_of(caller: Caller, options: &str) -> Result<Config, String> {
    Config::load(None, &[options.to_owned()], caller).map_err(|error| error.to_string())
}

#[test]
fn a_file_sets_every_kind_of_option() {
    let config = read(
        "isolation: read_committed\nup_to: high-watermark\nfrom: first-segment\non_damage: error\n\
         tail_records: 50\nformats_listed: [jsonl, tsv]\nvalue_json: true\nmeasure_wait: 500ms\n\
         max_batch_bytes: 64MiB\ncache_dir: /tmp/c\ncache_limit: 1048576\nmax_read_rate: 50MiB\nallow_other: true\n",
    )
    .unwrap();
    assert_eq!(config.options.isolation, Isolation::ReadCommitted);
    assert_eq!(config.options.up_to, UpTo::HighWatermark);
    assert_eq!(config.options.from, From::FirstSegment);
    assert_eq!(config.options.on_damage, OnDamage::Error);
    assert_eq!(config.options.tail_records, 50);
    assert_eq!(config.options.formats_listed, ["jsonl", "tsv"]);
    assert!(config.options.value_json && !config.options.key_json);
    assert_eq!(config.options.measure_wait, Duration::from_millis(500));
    assert_eq!(config.options.max_batch_bytes, 64 << 20);
    assert_eq!(config.options.cache_dir, Some(PathBuf::from("/tmp/c")));
    assert_eq!(config.options.cache_limit, 1 << 20);
    assert_eq!(config.options.max_read_rate, Some(50 << 20));
    assert!(config.mount.allow_other);
}

#[test]
fn an_empty_file_is_the_defaults() {
    for text in ["", "# nothing yet\n", "---\n", "{}"] {
        assert_eq!(read(text), Ok(Config::default()), "{text:?}");
    }
}

#[test]
fn errors_of_a_file_say_where_and_what_was_expected() {
    let cases = [
        ("# x\nisolaton: read_committed\n", "t.yaml:2:1: unknown key `isolaton`, did you mean `isolation`?"),
        ("colour: red\n", "t.yaml:1:1: unknown key `colour`"),
        (
            "isolation: read_comitted\n",
            "t.yaml:1:12: isolation: expected `read_uncommitted` or `read_committed`, not `read_comitted`, \
             did you mean `read_committed`?",
        ),
        ("from: 7\n", "t.yaml:1:7: from: expected `log-start` or `first-segment`, not `7`"),
        (
            "tail_records: many\n",
            "t.yaml:1:15: tail_records: expected a whole number from 1, such as 1000, not `many`",
        ),
        (
            "tail_records: 0\n",
            "t.yaml:1:15: tail_records: expected a whole number from 1, such as 1000, not `0`",
        ),
        (
            "tail_records: -5\n",
            "t.yaml:1:15: tail_records: expected a whole number from 1, such as 1000, not `-5`",
        ),
        ("value_json: yes\n", "t.yaml:1:13: value_json: expected `true` or `false`, not `yes`"),
        ("value_json:\n", "t.yaml:1:12: value_json: expected `true` or `false`, not nothing"),
        (
            "cache_limit: 12 apples\n",
            "t.yaml:1:14: cache_limit: expected a size such as 64MiB, not `12 apples`",
        ),
        (
            "\nmeasure_wait: 10\n",
            "t.yaml:2:15: measure_wait: expected a time with its unit, such as 10s or 500ms, not `10`",
        ),
        (
            "cache_dir: here\n",
            "t.yaml:1:12: cache_dir: expected an absolute path such as /var/cache/topicfs, not `here`",
        ),
        (
            "formats_listed: [txt, xml]\n",
            "t.yaml:1:17: formats_listed: expected a list of formats, each once, of txt, jsonl, tsv, log, dump, \
             not the list `txt, xml`",
        ),
        (
            "isolation:\n  level: read_committed\n",
            "t.yaml:2:3: isolation: expected `read_uncommitted` or `read_committed`, not a mapping",
        ),
        ("from: log-start\nfrom: log-start\n", "t.yaml:2:1: `from` is set twice"),
        ("- isolation\n", "t.yaml:1:1: invalid type: sequence, expected lines of `option: value`"),
        ("isolation\n", "t.yaml:1:1: invalid type: string \"isolation\", expected lines of `option: value`"),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn what_is_no_yaml_has_a_place_too() {
    let error = read("from: log-start\nup_to: [\n").unwrap_err();
    assert!(error.starts_with("t.yaml:3:"), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn words_set_options() {
    let config =
        words("isolation=read_committed,value_json,tail_records=5,formats_listed=txt:tsv,key_json=false");
    let config = config.unwrap();
    assert_eq!(config.options.isolation, Isolation::ReadCommitted);
    assert!(config.options.value_json && !config.options.key_json);
    assert_eq!(config.options.tail_records, 5);
    assert_eq!(config.options.formats_listed, ["txt", "tsv"]);
}

#[test]
fn the_words_of_fstab_are_ignored() {
    let words = "ro,exec,noexec,suid,nosuid,dev,nodev,auto,noauto,user,users,nofail,_netdev,defaults,\
                 x-systemd.automount,x-systemd.requires=network.target,comment=old,,noatime";
    assert_eq!(self::words(words), Ok(Config::default()));
}

#[test]
fn rw_is_an_error_from_a_person_only() {
    assert_eq!(words("rw"), Err("-o rw: topicfs mounts read-only, leave `rw` out".to_owned()));
    assert_eq!(words_of(Caller::MountHelper, "rw"), Ok(Config::default()));
}

#[test]
fn unknown_words_are_errors_unless_mount_is_sloppy() {
    let near = "-o isolaton=x: unknown option, did you mean `isolation`?";
    assert_eq!(words("ro,isolaton=x"), Err(near.to_owned()));
    assert_eq!(words_of(Caller::MountHelper, "isolaton=x"), Err(near.to_owned()));
    assert_eq!(words_of(Caller::SloppyMountHelper, "isolaton=x"), Ok(Config::default()));
    let far = "-o tea: unknown option; `topicfs mount --help` lists them";
    assert_eq!(words("tea"), Err(far.to_owned()));
}

#[test]
fn errors_of_values_name_the_word() {
    assert_eq!(
        words("from=first"),
        Err("-o from=first: expected `log-start` or `first-segment`, not `first`".to_owned())
    );
    assert_eq!(
        words("tail_records"),
        Err("-o tail_records: expected a whole number from 1, such as 1000, not nothing".to_owned())
    );
    assert_eq!(words("config"), Err("-o config: expected `config=FILE`".to_owned()));
}

#[test]
fn commas_and_backslashes_of_values_are_escaped() {
    let config = words(r"cache_dir=/a\,b\\c\d,log_file=/x\,y").unwrap();
    assert_eq!(config.options.cache_dir, Some(PathBuf::from(r"/a,b\c\d")));
    assert_eq!(config.mount.log_file, Some(PathBuf::from("/x,y")));
}

#[test]
fn words_win_over_the_file_and_the_last_word_wins() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c.yaml");
    std::fs::write(&file, "tail_records: 7\nfrom: first-segment\n").unwrap();
    let load = |options: &[&str]| {
        let options: Vec<String> = options.iter().map(ToString::to_string).collect();
        Config::load(Some(&file), &options, Caller::Person).unwrap().options
    };
    assert_eq!(load(&[]).tail_records, 7);
    let options = load(&["tail_records=8", "tail_records=9"]);
    assert_eq!((options.tail_records, options.from), (9, From::FirstSegment));

    let named = format!("config={}", file.display());
    let config = Config::load(None, &[named], Caller::MountHelper).unwrap();
    assert_eq!(config.options.tail_records, 7);
}

#[test]
fn a_missing_file_is_named() {
    let error = Config::load(Some(Path::new("/no/such.yaml")), &[], Caller::Person).unwrap_err();
    assert_eq!(error.to_string(), "/no/such.yaml: No such file or directory (os error 2)");
}

#[test]
fn access_follows_allow_other() {
    assert_eq!(words("").unwrap().options.access, Access::OwnerOnly);
    assert_eq!(words("allow_other").unwrap().options.access, Access::FromSource);
}

#[test]
fn the_effective_configuration_reads_back() {
    let set = "isolation=read_committed,formats_listed=tsv,measure_wait=1500ms,cache_dir=/a: b,max_read_rate=3MiB,\
               value_json,cache_limit=5000,nonempty";
    for config in [Config::default(), words(set).unwrap()] {
        let text = config.to_yaml();
        assert_eq!(read(&text), Ok(config), "{text}");
    }
}

#[test]
fn every_documented_configuration_is_read_and_changes_something() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("mount-configs");
    let mut seen = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let config = Config::load(Some(&path), &[], Caller::Person).unwrap();
        assert_ne!(config, Config::default(), "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 2);
}

#[test]
fn the_help_names_every_option_in_lines_that_fit() {
    let help = help();
    for key in keys::KEYS {
        assert!(help.contains(&format!("\n  {}", key.name)) || help.starts_with(&format!("  {}", key.name)));
    }
    assert!(help.lines().all(|line| line.len() <= 100), "{help}");
}
